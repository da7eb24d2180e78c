"""Every spelling of a model's name meets the same key, guard, price, limit and circuit, on all formats and both lanes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer

SPELLINGS = [
    "gpt-p",
    "GPT-P",
    "models/gpt-p",
    "Models/GPT-P",
    "gpt-p/",
    "publishers/google/models/gpt-p",
    "ｇｐｔ-p",
    "gpt-P",
]
UNSAFE = ["gpt-p ", " gpt-p", "gpt-\tp", "gpt-p\x00", "gpt-\u200bp", "models/../gpt-p", "gpt%2Dp", "gpt-p?x", "gpt-p#x"]
LANES = ("o", "a", "g")
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true, redact: {{on: true, models: ["guarded-*"]}}}}
providers:
  local: {{plugin: local}}
  o: {{plugin: openai, base_url: "{url}/o/v1", api_key: key-of-the-upstream, responses: true}}
  a: {{plugin: anthropic, base_url: "{url}/a", api_key: key-of-the-upstream}}
  g: {{plugin: gemini, base_url: "{url}/g", api_key: key-of-the-upstream}}
models:
  "*": {{provider: {lane}}}
  limited-p: {{provider: {lane}, limits: {{requests_per_minute: 1}}}}
  local-realtime: {{provider: local}}
default_prices: false
prices: {{gpt-p: {{per_request: 1}}, "guarded-*": {{per_request: 2}}}}
circuits: {{failures: 1, open_seconds: 1000}}
keys:
  - {{name: root, key: key-of-an-administrator-0123456789, role: administrator}}
  - {{name: all, key: key-for-all-models-0123456789}}
  - {{name: some, key: key-for-some-models-0123456789, models: [gpt-p, local-realtime]}}
"""
ROOT = "key-of-an-administrator-0123456789"
ALL, SOME = "key-for-all-models-0123456789", "key-for-some-models-0123456789"


@pytest.fixture(scope="module")
def upstream_of_file() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateways(upstream_of_file: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    """A gateway for each format of an upstream."""
    started = {
        lane: Gateway.start(CONF.format(url=upstream_of_file.url, lane=lane), tmp_path_factory.mktemp(f"names-{lane}"))
        for lane in LANES
    }
    yield started
    for gateway in started.values():
        gateway.stop()


def script_answer(upstream: Upstream, lane: str) -> None:
    """The next answer of the upstream, in the format of a lane."""
    upstream.reset()
    message = {"role": "assistant", "content": "hello"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
    content = [{"type": "text", "text": "hello"}]
    claude = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content}
    claude |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    candidate = {"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP", "index": 0}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    gemini = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m"}
    upstream.script(answer(json.dumps({"o": chat, "a": claude, "g": gemini}[lane])))


def send_request(
    gateway: Gateway, caller: str, model: str, key: str = ALL, text: str = "hello", **more: Any
) -> httpx.Response:
    """Send a request for `model` in a caller's format: "o", "a" or "g", where the path names the model."""
    headers = {"authorization": f"Bearer {key}", "anthropic-version": "2023-06-01"}
    if caller == "g":
        name = quote(model, safe="" if ".." in model else "/")
        path = f"/v1beta/models/{name}:generateContent"
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    else:
        path = "/v1/messages" if caller == "a" else "/v1/chat/completions"
        body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    return httpx.post(gateway.url + path, json={**body, **more}, headers=headers, trust_env=False, timeout=30)


@pytest.mark.qa
def test_a_key_a_guard_and_a_price_match_every_spelling(
    gateways: dict[str, Gateway], upstream_of_file: Upstream
) -> None:
    wrong = []
    for lane, caller, spelling in product(LANES, LANES, SPELLINGS):
        script_answer(upstream_of_file, lane)
        allowed = send_request(gateways[lane], caller, spelling, SOME)
        if (allowed.status_code, allowed.headers.get("x-gate-cost")) != (200, "1"):
            if (lane, spelling, allowed.status_code) == ("g", "gpt-p/", 400):
                continue  # a slash at the end is no part of a path, so nothing was sent
            wrong.append(("key", lane, caller, spelling, allowed.status_code, allowed.headers.get("x-gate-cost")))
        script_answer(upstream_of_file, lane)
        spelled = spelling.replace("gpt", "guarded").replace("GPT", "GUARDED").replace("ｇｐｔ", "ｇuarded")
        guarded = send_request(gateways[lane], caller, spelled, text="mail ann@example.com")
        sent = upstream_of_file.requests[-1].body
        if guarded.headers.get("x-gate-cost") != "2" or b"ann@example.com" in sent:
            wrong.append(("guard", lane, caller, spelling, guarded.status_code, guarded.headers.get("x-gate-cost")))
    assert not wrong


def test_a_name_that_an_upstream_may_read_otherwise_is_unknown(gateways: dict[str, Gateway]) -> None:
    wrong = []
    for caller, spelling in product(LANES, UNSAFE):
        response = send_request(gateways["o"], caller, spelling)
        if response.status_code not in (400, 404):
            wrong.append((caller, spelling, response.status_code))
    assert not wrong


def test_another_spelling_of_an_entry_is_served_as_that_entry(
    gateways: dict[str, Gateway], upstream_of_file: Upstream
) -> None:
    for caller in LANES:
        gateway = gateways[caller]
        script_answer(upstream_of_file, caller)
        first = send_request(gateway, caller, "Limited-P")
        assert first.status_code == 200
        assert first.headers["x-gate-model"] == "limited-p"
        for spelling in ("limited-p", "models/LIMITED-p", "LIMITED-P/"):
            assert send_request(gateway, caller, spelling).status_code == 429, spelling


def test_a_circuit_is_open_for_every_spelling(gateways: dict[str, Gateway], upstream_of_file: Upstream) -> None:
    for lane in LANES:
        upstream_of_file.reset()
        upstream_of_file.script(answer("{}", status=500, repeat=True))
        for spelling in ("Broken-Model", "broken-model", "models/BROKEN-MODEL"):
            assert send_request(gateways[lane], "o", spelling).status_code in (502, 503)
        headers = {"authorization": f"Bearer {ROOT}"}
        rows = httpx.get(gateways[lane].url + "/admin/v1/models", headers=headers, trust_env=False).json()["data"]
        (target,) = next(row for row in rows if row["name"] == "*")["targets"]
        broken = [
            (one["upstream_model"], one["state"]) for one in target["circuits"] if "broken" in one["upstream_model"]
        ]
        assert ("broken-model", "open") in broken
        assert [name for name, _ in broken if name.casefold().endswith("broken-model")] == ["broken-model"]


OTHER = {"type": "image_generation", "model": "other-model"}
ROUTER = {"messages": [], "plugins": [{"id": "p", "allowed_models": ["gpt-p", "o"]}]}
MANUAL = "generation_config.routing_config.manual_mode"
ROUTED = {"contents": [], "generation_config": {"routing_config": {"manual_mode": {"model_name": "o"}}}}
BATCH = {"requests": [{"model": "models/GPT-p"}, {"model": "models/o"}]}
TRANSCRIPTION = {"input": {"transcription": {"model": "o"}}}
SESSION = {"session": {"type": "realtime", "model": "local-realtime", "audio": TRANSCRIPTION}}
NESTED: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/responses", {"input": "x", "tools": [{"type": "web_search"}, OTHER]}, "tools.1.model"),
    ("/v1/responses", {"input": "x", "tools": [{**OTHER, "model": None, "svg": {"model": "m"}}]}, "tools.0.svg.model"),
    ("/v1/responses", {"input": [{"type": "tool_search_output", "tools": [OTHER]}]}, "input.0.tools.0.model"),
    ("/v1/responses", {"input": "x", "moderation": {"model": "other-model"}}, "moderation.model"),
    ("/v1/responses/input_tokens", {"input": "x", "tools": [OTHER]}, "tools.0.model"),
    ("/v1/chat/completions", {"messages": [], "tools": [{"type": "advisor", "Model": "o"}]}, "tools.0.Model"),
    ("/v1/chat/completions", ROUTER, "plugins.0.allowed_models.1"),
    ("/v1/chat/completions", {"messages": [], "models": ["other-model"]}, "models"),
    ("/v1/chat/completions", {"messages": [], "moderation": {"model": "other-model"}}, "moderation.model"),
    ("/v1/messages", {"messages": [], "tools": [{"type": "advisor_20260301", "model": "other"}]}, "tools.0.model"),
    ("/v1/messages", {"messages": [], "fallbacks": [{"model": "other"}]}, "fallbacks"),
    ("/v1/messages/count_tokens", {"messages": [], "tools": [{"type": "advisor_20260301", "model": "o"}]}, "tools.0.model"),
    ("/v1/images/generations", {"prompt": "x", "svg": {"model": "other-model"}}, "svg.model"),
    ("/v1beta/models/gpt-p:generateContent", ROUTED, f"{MANUAL}.model_name"),
    ("/v1beta/models/gpt-p:countTokens", {"generateContentRequest": {"model": "models/other"}}, "generateContentRequest.model"),
    ("/v1beta/models/gpt-p:batchEmbedContents", BATCH, "requests.1.model"),
    ("/v1beta/interactions", {"input": "x", "agent_config": {"model": "other"}}, "agent_config.model"),
    ("/v1/realtime/client_secrets", SESSION, "session.audio.input.transcription.model"),
]  # fmt: skip


def test_a_key_must_allow_the_models_that_a_body_names_elsewhere(gateways: dict[str, Gateway]) -> None:
    wrong = []
    headers = {"authorization": f"Bearer {SOME}", "anthropic-version": "2023-06-01"}
    with httpx.Client(base_url=gateways["o"].url, headers=headers, trust_env=False) as client:
        for path, body, param in NESTED:
            response = client.post(path, json={"model": "gpt-p", **body})
            error = response.json()["error"]
            if response.status_code != 403 or error.get("param", param) != param:
                wrong.append((path, param, response.status_code, response.text))
    assert not wrong


def test_a_tool_may_name_a_model_that_the_key_allows(gateways: dict[str, Gateway], upstream_of_file: Upstream) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "model": "models/GPT-P"}
    for key, model in ((SOME, tool), (ALL, {**tool, "model": "other"})):
        script_answer(upstream_of_file, "a")
        assert send_request(gateways["a"], "a", "gpt-p", key, tools=[model]).status_code == 200


def test_a_message_of_a_session_may_not_name_a_model_that_the_key_does_not_allow(gateways: dict[str, Gateway]) -> None:
    async def run() -> list[str]:
        url = gateways["o"].url.replace("http", "ws") + "/v1/realtime?model=local-realtime"
        transcription = {"audio": {"input": {"transcription": {"model": "other"}}}}
        updates: list[dict[str, Any]] = [{"type": "realtime", "model": "other"}, {"type": "realtime", **transcription}]
        params = []
        async with connect(url, additional_headers={"Authorization": f"Bearer {SOME}"}, proxy=None) as socket:
            for session in updates:
                await socket.send(json.dumps({"type": "session.update", "session": session}))
                while (event := json.loads(await socket.recv()))["type"] != "error":
                    pass
                params.append(event["error"]["param"])
        return params

    assert asyncio.run(run()) == ["session.model", "session.audio.input.transcription.model"]
