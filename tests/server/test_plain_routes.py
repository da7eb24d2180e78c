"""Routes of a format that need no key, and routes whose bodies are not JSON, as a stranger's format has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tornado_gate import types
from tornado_gate.plugins.route_checks import find_route_fault

KEY = "key-of-the-plain-routes"
CONF = f"""
plugins: {{lines: true, local: true}}
providers: {{local: {{plugin: local}}}}
models: {{local-chat: {{provider: local}}}}
limits: {{body_bytes: 300000}}
keys:
  - {{name: test, key: "{KEY}"}}
"""
PLUGIN = """
import json

from tornado_gate import errors, events, format_impl, types


@format_impl
def routes():
    return [
        types.Route("GET", "/lines/state", "models", model="none", key="none"),
        types.Route("GET", "/lines/models", "models", model="none", key="optional"),
        types.Route("GET", "/lines/all-models", "models", model="none", key="none"),
        types.Route("POST", "/lines/{model}", "chat", model="path", content_types=("text/plain", "application/x-ndjson")),
    ]


@format_impl
def translate_request(call, wire):
    if wire.path == "/lines/state":
        known = [call.caller.id, call.files, call.fetcher, sorted(set(wire.headers) & {"authorization", "x-api-key"})]
        return reply({"state": "up", "known": known})
    if wire.path.endswith("models"):
        return types.ModelsRequest()
    texts = [json.loads(line)["say"] for line in wire.raw.splitlines()] if "ndjson" in wire.headers["content-type"] else [
        wire.raw.decode() if wire.plain else wire.json["say"]]
    parts = tuple(types.Text(text=text) for text in texts)
    return types.ChatRequest(model=call.model, messages=(types.Message(role="user", parts=parts),), max_tokens=20)


def reply(value):
    return types.Reply(content_type="application/json", chunks=types.BufferedBody(json.dumps(value).encode()))


@format_impl
def translate_response(request, events):
    return types.Reply(content_type="application/json", chunks=answer(request, events))


async def answer(request, stream):
    if isinstance(request, types.ModelsRequest):
        yield json.dumps([model.id for model in (await events.read_single_event(stream, types.ModelList)).models]).encode()
        return
    result = await events.collect(stream)
    yield json.dumps({"tokens": result.usage.input_tokens}).encode()


@format_impl
def translate_error(error):
    return json.dumps({"error": error.body()}).encode()
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("plain")
    site = folder / "site"
    info = site / "lines.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lines\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text("[tornado_gate]\nlines = lines_of_the_test\n", "utf-8")
    (site / "lines_of_the_test.py").write_text(PLUGIN, "utf-8")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    started = Gateway.start(CONF, folder, environment={"PYTHONPATH": path})
    yield started
    started.stop()


def send_request(gateway: Gateway, path: str, *, key: str = "", method: str = "GET", **rest: Any) -> httpx.Response:
    headers = {**({"authorization": f"Bearer {key}"} if key else {}), **rest.pop("headers", {})}
    return httpx.request(method, gateway.url + path, headers=headers, trust_env=False, timeout=30, **rest)


def test_a_route_without_keys_gets_the_reply_of_its_format_and_nothing_else(gateway: Gateway) -> None:
    for key in ("", KEY, "no-such-key"):
        response = send_request(gateway, "/lines/state", key=key)
        assert (response.status_code, response.json()) == (200, {"state": "up", "known": ["", None, None, []]})
    refused = send_request(gateway, "/lines/all-models")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "plugin_failed")
    gateway.wait_for_log("a route without keys, returned ModelsRequest; allowed: Reply")
    assert send_request(gateway, "/lines/state", content=b"x" * 10).status_code == 413


def test_a_route_with_an_optional_key_asks_for_it_when_it_is_needed(gateway: Gateway) -> None:
    refused = send_request(gateway, "/lines/models")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "missing_api_key")
    assert send_request(gateway, "/lines/models", key="no-such-key").status_code == 401
    assert "local-chat" in send_request(gateway, "/lines/models", key=KEY).text


def test_bodies_that_are_not_json_reach_the_format(gateway: Gateway) -> None:
    def say(body: bytes, content_type: str) -> httpx.Response:
        headers = {"content-type": content_type}
        return send_request(gateway, "/lines/local-chat", key=KEY, method="POST", content=body, headers=headers)

    lines = b'{"say": "one two"}\n{"say": "three"}\n'
    for body, kind in (
        (b"one two", "text/plain; charset=utf-8"),
        (lines, "Application/X-NDJSON"),
        (b'{"say": "a"}', "application/json"),
    ):
        response = say(body, kind)
        assert (response.status_code, response.json()["tokens"] > 0) == (200, True), response.text
    refused = say(b"<a/>", "text/xml")
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        415,
        "This route does not accept the content type of the body. Send application/json, text/plain or application/x-ndjson.",
    )
    assert say(b"word " * 40_000, "text/plain").status_code == 200  # processed in the thread
    assert say(b"word " * 80_000, "text/plain").status_code == 413
    assert say(b"not json", "application/json").status_code == 400


def test_the_api_description_says_so(gateway: Gateway) -> None:
    paths = send_request(gateway, "/openapi.json").json()["paths"]
    assert paths["/lines/state"]["get"]["security"] == []
    assert {} in paths["/lines/models"]["get"]["security"]
    assert "security" not in paths["/lines/{model}"]["post"]
    content = paths["/lines/{model}"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "text/plain", "application/x-ndjson"}


def test_unsafe_routes_are_refused() -> None:
    wrong = [
        types.Route("POST", "/x", "chat", key="none"),
        types.Route("POST", "/x", "models", model="none", key="optional"),
        types.Route("GET", "/x", "realtime", model="none", socket=True, key="none"),
        types.Route("GET", "/x", "models", model="query", key="none"),
        types.Route("GET", "/x", "models", key="never"),  # type: ignore[arg-type]
        types.Route("GET", "/x", "models", model="none", content_types=("text/plain",)),
        types.Route("POST", "/x", "chat", content_types=("Text/Plain",)),
        types.Route("POST", "/x", "chat", content_types=("application/json",)),
        types.Route("POST", "x", "chat"),
    ]
    assert [bool(find_route_fault(route)) for route in wrong] == [True] * len(wrong)
    assert find_route_fault(types.Route("POST", "/x", "chat", content_types=("text/plain",))) == ""
