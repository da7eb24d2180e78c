"""Paths find their routes and names their models; nothing finds another than the one it looks like."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tornado_gate.config.model import ModelEntry, ModelTarget
from tornado_gate.errors import MethodNotAllowed, NotFound
from tornado_gate.targets.routing import ModelTable, RouteConflict, RouteTable, ServedRoute
from tornado_gate.targets.strategies import order_by_weight
from tornado_gate.types import Route

CHAT = Route("POST", "/v1/chat/completions", "chat")
MODELS = Route("GET", "/v1/models", "models", model="none")
MODEL = Route("GET", "/v1/models/{model}", "models", model="none")
GENERATE = Route("POST", "/v1beta/models/{model}:generate", "chat", model="path")
GENERATE_TOO = Route("POST", "/v1/models/{model}:generate", "chat", model="path")
OTHER_MODELS = Route("GET", "/v1/models", "models", model="none", claims=lambda headers, _query: "x-other" in headers)

TABLE = RouteTable(
    [
        *(ServedRoute("o", route) for route in (CHAT, MODELS, MODEL)),
        ServedRoute("g", GENERATE),
        ServedRoute("g", GENERATE_TOO),
        ServedRoute("a", OTHER_MODELS),
    ]
)


def match(method: str, path: str, headers: dict[str, str] | None = None) -> tuple[Route, dict[str, str]]:
    matched = TABLE.match(method, path, headers or {}, {})
    return matched.served.route, dict(matched.arguments)


@pytest.mark.parametrize(
    ("method", "path", "route", "arguments"),
    [
        ("POST", "/v1/chat/completions", CHAT, {}),
        ("POST", "/v1/chat/completions/", CHAT, {}),
        ("GET", "/v1/models/gpt-4o", MODEL, {"model": "gpt-4o"}),
        ("GET", "/v1/models/openai/gpt-4o", MODEL, {"model": "openai/gpt-4o"}),
        ("GET", "/v1/models/openai%2Fgpt-4o/", MODEL, {"model": "openai/gpt-4o"}),
        ("POST", "/v1beta/models/a/b:c:generate", GENERATE, {"model": "a/b:c"}),
        ("POST", "/v1/models/a/b:c:generate", GENERATE_TOO, {"model": "a/b:c"}),
        ("GET", "/v1/models/llama3:8b", MODEL, {"model": "llama3:8b"}),
    ],
)
def test_a_path_finds_its_route(method: str, path: str, route: Route, arguments: dict[str, str]) -> None:
    assert match(method, path) == (route, arguments)


@pytest.mark.parametrize(
    "path",
    ["/", "", "/v1", "/v1/chat", "//v1/chat/completions", "/v1/./chat/completions", "/v1/chat/completions//",
     "/v1/chat%2fcompletions", "/V1/chat/completions", "/v1/chat/completions;x", "/v1/models/%ff"],
)  # fmt: skip
def test_a_path_that_only_looks_like_a_route_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        match("POST" if "chat" in path else "GET", path)


def test_the_error_for_a_wrong_method_names_the_allowed_methods() -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        match("DELETE", "/v1/chat/completions")
    assert caught.value.headers == {"Allow": "POST"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/models/a:generate", "/v1/models/a:generate/", "/v1/models/a/b:c:generate"])
def test_a_verb_of_a_path_is_no_part_of_a_models_name_for_other_methods(method: str, path: str) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        match(method, path)
    assert caught.value.headers == {"Allow": "POST"}


ROUTES_OF_OBJECTS = [
    Route("GET", "/v1/videos/{id}", "videos", model="none"),
    Route("DELETE", "/v1/videos/{id}", "videos", model="none"),
    Route("GET", "/v1/videos/{id}/content", "videos", model="none"),
    Route("POST", "/v1/lists/{id}", "chat", model="none"),
    Route("GET", "/v1/lists/{id}/items/{item}", "chat", model="none"),
    Route("POST", "/v1/lists/count", "chat", model="none"),
    Route("GET", "/v1/lists/{id}", "chat", model="none"),
]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/videos/a/content", "GET, HEAD"),
        ("DELETE", "/v1/videos/a/content/", "GET, HEAD"),
        ("DELETE", "/v1/videos/a/b/content", "GET, HEAD"),
        ("POST", "/v1/lists/a/items/b", "GET, HEAD"),
        ("GET", "/v1/lists/count", "POST"),
    ],
)
def test_the_rest_of_a_longer_path_is_no_part_of_an_id_for_other_methods(method: str, path: str, allow: str) -> None:
    table = RouteTable([ServedRoute("o", route) for route in ROUTES_OF_OBJECTS])
    with pytest.raises(MethodNotAllowed) as caught:
        table.match(method, path, {}, {})
    assert caught.value.headers == {"Allow": allow}


def test_an_id_may_still_contain_slashes() -> None:
    table = RouteTable([ServedRoute("o", route) for route in ROUTES_OF_OBJECTS])
    for path, arguments in (
        ("/v1/videos/a/b", {"id": "a/b"}),
        ("/v1/videos/a/contents", {"id": "a/contents"}),
        ("/v1/videos/content", {"id": "content"}),
        ("/v1/lists/items/b", {"id": "items/b"}),
        ("/v1/lists/counts", {"id": "counts"}),
    ):
        assert table.match("GET", path, {}, {}).arguments == arguments


def test_a_parameter_of_any_length_is_not_decoded() -> None:
    assert match("GET", "/v1/models/" + "a" * 4096)[0] is MODEL
    with pytest.raises(NotFound):
        match("GET", "/v1/models/" + "%" * 4097)


def test_head_is_served_wherever_get_is() -> None:
    assert match("HEAD", "/v1/models") == match("GET", "/v1/models")
    assert match("HEAD", "/v1/models/a") == match("GET", "/v1/models/a")
    with pytest.raises(MethodNotAllowed):
        match("HEAD", "/v1/chat/completions")


def test_a_format_that_claims_a_request_gets_it() -> None:
    assert match("GET", "/v1/models", {"x-other": "1"})[0] is OTHER_MODELS
    assert match("GET", "/v1/models")[0] is MODELS


def test_an_error_of_a_path_is_rendered_by_the_format_that_has_it_without_a_claim() -> None:
    assert TABLE.find_format("/v1/models") == "o", "not by the one that claims some requests"
    assert TABLE.find_format("/v1/models/") == "o"
    assert TABLE.find_format("/v1beta/models/a:generate") == "g"
    assert TABLE.find_format("/none") == ""


def test_two_formats_on_one_path_without_a_claim_are_a_conflict() -> None:
    with pytest.raises(RouteConflict, match="a and by b"):
        RouteTable([ServedRoute("a", CHAT), ServedRoute("b", CHAT)])


def entry(name: str) -> ModelEntry:
    return ModelEntry(name=name, targets=(ModelTarget(provider="p"),))


MODEL_TABLE = ModelTable({name: entry(name) for name in ["a/b", "a/*", "a/long-*", "*-suffix", "exact"]})


@pytest.mark.parametrize(
    ("name", "entry", "rest"),
    [
        ("exact", "exact", ""),
        ("a/b", "a/b", ""),
        ("a/c", "a/*", "c"),
        ("a/long-c", "a/long-*", "c"),
        ("x-suffix", "*-suffix", "x"),
        ("a/x/y", "a/*", "x/y"),
        ("Exact", "exact", ""),
        ("models/EXACT", "exact", ""),
        ("A/B/", "a/b", ""),
        ("A/Long-C", "a/long-*", "C"),
        ("models/X-suffix", "*-suffix", "models/X"),
    ],
)
def test_a_name_finds_its_entry_else_the_longest_wildcard(name: str, entry: str, rest: str) -> None:
    result = MODEL_TABLE.find_model(name)
    assert result is not None
    assert (result.entry.name, result.rest) == (entry, rest)


@pytest.mark.parametrize(
    "name", ["", "b", "a/", "-suffix", "exact ", "a/x y", "a/x\n", "a/\u200bx", "a/../x", "a/x%20y"]
)
def test_other_names_match_no_entry(name: str) -> None:
    assert MODEL_TABLE.find_model(name) is None


def test_wildcards_are_not_listed() -> None:
    assert [listed.name for listed in MODEL_TABLE.list_entries()] == ["a/b", "exact"]


def test_a_target_comes_first_in_proportion_to_its_weight() -> None:
    targets = [ModelTarget(provider="three", weight=3), ModelTarget(provider="one", weight=1)]
    chance = random.Random(7)
    first = Counter(order_by_weight(targets, chance)[0].provider for _ in range(4000))
    assert 0.72 < first["three"] / 4000 < 0.78


def test_if_entries_differ_in_case_the_exact_one_is_used_else_the_first() -> None:
    table = ModelTable({name: ModelEntry(name=name, targets=(ModelTarget(provider="p"),)) for name in ("Qwen", "qwen")})
    matches = {name: table.find_model(name) for name in ("Qwen", "qwen", "QWEN", "models/qwen")}
    assert [match.entry.name for match in matches.values() if match is not None] == ["Qwen", "qwen", "Qwen", "Qwen"]
