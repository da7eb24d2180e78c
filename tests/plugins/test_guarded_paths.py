"""A required guard stands on every path of texts: requests without a model, forms, video tasks, WebSockets, realtime sessions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.support.distributions import install_module
from tests.support.gateway import Gateway
from tests.support.ws_upstream import WsUpstream

KEY = "test-key-of-guarded-paths"
GUARD = '''
import re
from tornado_gate import guard_impl, types

class Guard:
    """Replaces "secret" in requests and "hush" in answers."""

    @guard_impl
    def guard_options(self):
        return types.GuardOptions(lookahead=8)

    @guard_impl
    async def review_request(self, texts):
        return self.review(texts, "asked-", re.compile("secret"))

    @guard_impl
    def review_response(self, texts):
        return self.review(texts, "answered-", re.compile("hush"))

    def review(self, texts, side, pattern):
        if any(side + "boom" in text.text for text in texts):
            raise KeyError("boom")
        if any(side + "never" in text.text for text in texts):
            return types.Block(message="Not here.", status=403, code="house_rule")
        return types.Replace(spans=tuple(types.find_spans(texts, pattern, lambda found: "*" * len(found))))
'''
CONF = f"""
plugins: {{local: true, guard: {{required: true}}}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
  local-embed: {{provider: local}}
  local-tts: {{provider: local}}
  local-video: {{provider: local}}
  local-realtime: {{provider: local}}
  local-image: {{provider: local}}
  local-moderation: {{provider: local}}
keys:
  - {{name: test, key: {KEY}}}
  - {{name: other, key: {KEY}-2}}
  - {{name: four, key: {KEY}-4, requests_per_minute: 4, concurrent_requests: 1, budget: {{tokens_per_day: 400}}}}
"""
TURN = [{"role": "user", "content": "TEXT"}]
PARTS = [{"role": "user", "parts": [{"text": "TEXT"}]}]
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "TEXT"}]}
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "local-chat", "messages": TURN}),
    "tool": (
        "/v1/chat/completions",
        {
            "model": "local-chat",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "description": "TEXT"}}],
        },
    ),
    "new field": ("/v1/chat/completions", {"model": "local-chat", "messages": [], "new": [{"words": "TEXT"}]}),
    "completions": ("/v1/completions", {"model": "local-chat", "prompt": "TEXT"}),
    "responses": ("/v1/responses", {"model": "local-chat", "input": "Hi", "instructions": "TEXT"}),
    "compact": ("/v1/responses/compact", {"model": "local-chat", "input": "TEXT"}),
    "input tokens": ("/v1/responses/input_tokens", {"model": "local-chat", "input": "TEXT"}),
    "messages": ("/v1/messages", {"model": "local-chat", "messages": TURN, "max_tokens": 9}),
    "count tokens": ("/v1/messages/count_tokens", {"model": "local-chat", "messages": TURN}),
    "generate": ("/v1beta/models/local-chat:generateContent", {"contents": PARTS}),
    "array": ("/v1beta/models/local-chat:streamGenerateContent", {"contents": PARTS}),
    "count": ("/v1beta/models/local-chat:countTokens", {"contents": PARTS}),
    "interactions": ("/v1beta/interactions", {"model": "local-chat", "input": "TEXT"}),
    "embeddings": ("/v1/embeddings", {"model": "local-embed", "input": ["Hi", "TEXT"]}),
    "moderation": ("/v1/moderations", {"model": "local-moderation", "input": "TEXT"}),
    "speech": ("/v1/audio/speech", {"model": "local-tts", "input": "TEXT", "voice": "alloy"}),
    "image": ("/v1/images/generations", {"model": "local-image", "prompt": "TEXT"}),
    "video": ("/v1/videos", {"model": "local-video", "prompt": "TEXT"}),
    "conversation": ("/v1/conversations", {"items": [ITEM]}),
    "client secret": (
        "/v1/realtime/client_secrets",
        {"session": {"type": "realtime", "model": "local-realtime", "instructions": "TEXT"}},
    ),
    "explain": ("/v1/_explain?route=/v1/chat/completions", {"model": "local-chat", "messages": TURN}),
}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("guarded")
    environment = install_module(folder / "site", "guard", GUARD)
    gateway = Gateway.start(CONF, folder, environment=environment)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    with httpx.Client(base_url=gateway.url, headers=headers, trust_env=False, timeout=30) as client:
        yield client


def fill(body: Any, text: str) -> Any:
    return json.loads(json.dumps(body).replace("TEXT", text))


def test_no_request_passes_on_any_path(client: httpx.Client) -> None:
    for name, (path, body) in PATHS.items():
        refused = client.post(path, json=fill(body, "it is asked-never"))
        assert (refused.status_code, "Not here." in refused.text) == (403, True), (name, refused.text)
        failed = client.post(path, json=fill(body, "it is asked-boom"))
        assert (failed.status_code, "'guard' is required" in failed.text) == (503, True), (name, failed.text)
    form = {"model": "local-image", "prompt": "asked-never"}
    edited = client.post("/v1/images/edits", data=form, files={"image": ("a.png", PIXEL, "image/png")})
    assert (edited.status_code, edited.json()["error"]["code"]) == (403, "house_rule")
    made = client.post("/v1/conversations", json={})
    added = client.post(f"/v1/conversations/{made.json()['id']}/items", json=fill({"items": [ITEM]}, "asked-never"))
    assert (added.status_code, added.json()["error"]["code"]) == (403, "house_rule")


def test_a_blocked_request_counts_as_a_request_and_a_refused_one_does_not(gateway: Gateway) -> None:
    path, body = PATHS["chat"]
    headers = {"Authorization": f"Bearer {KEY}-4"}

    def ask(text: str, **changes: Any) -> httpx.Response:
        wanted = fill({**body, "max_tokens": 5, **changes}, text)
        return httpx.post(gateway.url + path, json=wanted, headers=headers, trust_env=False, timeout=30)

    for _ in range(2):
        assert ask("asked-boom").status_code == 503
        assert ask("Hi", model="unknown").status_code == 404
        assert ask("Hi", n="many").status_code == 400
        assert ask("Hi", max_tokens=500).json()["error"]["code"] == "budget_exceeded"
    assert [ask(text).status_code for text in ("asked-never", "asked-never", "Hi")] == [403, 403, 200]
    last = ask("Hi", stream=True)
    assert (last.status_code, last.headers["x-ratelimit-remaining-requests"]) == (200, "0")
    for text in ("asked-never", "Hi"):
        refused = ask(text)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert 0 < int(refused.headers["retry-after"]) <= 60


def test_texts_are_replaced_before_anything_is_stored(client: httpx.Client) -> None:
    made = client.post("/v1/conversations", json=fill({"items": [ITEM]}, "my secret"))
    items = client.get(f"/v1/conversations/{made.json()['id']}/items").json()["data"]
    assert items[0]["content"][0]["text"] == "my ******"
    video = client.post("/v1/videos", json={"model": "local-video", "prompt": "my secret", "seconds": "1"}).json()
    assert client.get(f"/v1/videos/{video['id']}").json()["prompt"] == "my ******"
    explained = client.post("/v1/_explain?route=/v1/chat/completions", json=fill(PATHS["chat"][1], "my secret"))
    assert explained.status_code == 200


def test_answers_are_reviewed_wherever_they_leave(client: httpx.Client) -> None:
    for name in ("chat", "completions", "messages", "generate", "array"):
        path, body = PATHS[name]
        said = client.post(path, json=fill(body, "say hush it is here"))
        assert said.status_code == 200, (name, said.text)
        assert "hush" not in said.text, (name, said.text)
        assert "****" in said.text, (name, said.text)
        refused = client.post(path, json=fill(body, "say answered-never"))
        assert "Not here." in refused.text, (name, refused.text)
        assert refused.status_code == 403 or (
            name == "array" and refused.json()[-1]["error"]["code"] == "house_rule"
        ), name
    stored = client.post("/v1/responses", json={"model": "local-chat", "input": "say hush", "store": True}).json()
    again = client.get(f"/v1/responses/{stored['id']}")
    assert again.json()["output"] == stored["output"]
    assert "****" in json.dumps(stored["output"])
    items = client.get(f"/v1/responses/{stored['id']}/input_items")
    assert "say ****" in items.text


async def open_socket(gateway: Gateway, path: str) -> WebSocketClientConnection:
    url = gateway.url.replace("http", "ws", 1) + path
    return await websocket_connect(HTTPRequest(url, headers={"Authorization": f"Bearer {KEY}"}))


async def read_until(socket: WebSocketClientConnection, *types: str) -> list[dict[str, Any]]:
    """The events up to the first of one of `types`, or to the end of the connection."""
    events: list[dict[str, Any]] = []
    while not events or events[-1]["type"] not in types:
        message = await socket.read_message()
        if message is None:
            break
        events.append(json.loads(message))
    return events


def join_deltas(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == kind)


def test_requests_over_websocket_are_reviewed_as_over_http(gateway: Gateway) -> None:
    async def run() -> None:
        socket = await open_socket(gateway, "/v1/responses")

        async def ask(text: str) -> list[dict[str, Any]]:
            await socket.write_message(json.dumps({"type": "response.create", "model": "local-chat", "input": text}))
            return await read_until(socket, "response.completed", "response.failed", "error")

        events = await ask("say a secret is hush")
        assert "a ****** is ****" in join_deltas(events, "response.output_text.delta")
        assert "hush" not in json.dumps(events[-1])
        for text in ("asked-never", "say answered-never"):
            refused = (await ask(text))[-1]
            assert "Not here." in json.dumps(refused), refused
        assert join_deltas(await ask("say yes"), "response.output_text.delta")
        socket.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def converse(gateway: Gateway, text: str) -> tuple[list[dict[str, Any]], int | None, str | None]:
    """Say a text in a realtime session of texts. Returns the events, and the close code and reason if the gateway closes it."""
    socket = await open_socket(gateway, "/v1/realtime?model=local-realtime")
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    for event in (
        {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}},
        {"type": "conversation.item.create", "item": item},
        {"type": "response.create"},
    ):
        await socket.write_message(json.dumps(event))
    events = await read_until(socket, "response.done")
    if events[-1]["type"] == "response.done":
        socket.close()
        return events, None, None
    return events, socket.close_code, socket.close_reason


def test_messages_of_realtime_sessions_are_reviewed_in_both_directions(gateway: Gateway) -> None:
    async def run() -> None:
        events, code, _ = await converse(gateway, "say a secret is hush")
        assert code is None
        assert "a ****** is ****" in join_deltas(events, "response.output_text.delta")
        assert "hush" not in json.dumps(events)
        assert "secret" not in json.dumps(events)
        for text, close_code, word in (
            ("asked-never", 1008, "Not here."),
            ("say answered-never", 1008, "Not here."),
            ("asked-boom", 1011, "'guard' is required"),
            ("say answered-boom", 1011, "'guard' is required"),
        ):
            events, code, reason = await converse(gateway, text)
            assert (code, events[-1]["type"]) == (close_code, "error"), (text, events[-1])
            assert word in events[-1]["error"]["message"], text
            assert reason, text
            assert "answered-" not in join_deltas(events, "response.output_text.delta"), text

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_upstream_that_is_a_websocket_is_reviewed_as_well(tmp_path: Path) -> None:
    place = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}

    def answer(event: dict[str, Any]) -> list[dict[str, Any]]:
        if event["type"] != "response.create":
            return []
        word = event["response"]["instructions"]
        deltas = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in ("It is hu", "sh", word)]
        return [*deltas, {"type": "response.output_text.done", **place, "text": f"It is hush{word}"}]

    async def run() -> None:
        upstream = WsUpstream(greeting=[{"type": "session.created", "session": {}}], answers=answer)
        upstream.start()
        environment = install_module(tmp_path / "site", "guard", GUARD)
        conf = CONF.replace("local: true,", "openai: true, local: true,").replace(
            "models:", UP.format(port=upstream.port)
        )
        gateway = await asyncio.to_thread(Gateway.start, conf, tmp_path, environment=environment)
        try:
            socket = await open_socket(gateway, "/v1/realtime?model=up")
            await read_until(socket, "session.created")  # in the caller's dialect, which is another than the upstream's
            for word, code in (("\u00e9 secret", None), ("answered-never", 1008)):
                await socket.write_message(json.dumps({"type": "response.create", "response": {"instructions": word}}))
                events = await read_until(socket, "response.text.done", "error")
                if code is None:
                    assert json.loads(upstream.received[-1])["response"]["instructions"] == "\u00e9 ******"
                    assert join_deltas(events, "response.text.delta") == "It is ****\u00e9 ******"
                    assert events[-1]["text"] == "It is ****\u00e9 ******"
            assert (events[-1]["error"]["code"], await socket.read_message()) == ("house_rule", None)
            assert socket.close_code == 1008
            await upstream.connections[0].closed.wait()
        finally:
            await asyncio.to_thread(gateway.stop)
            await upstream.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


UP = """  up: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: none}}
models:
  up: {{provider: up}}"""


def test_a_reload_changes_the_guards_of_new_requests(gateway: Gateway, client: httpx.Client) -> None:
    file: Path = gateway.folder / "gate.yaml"
    before = file.read_text(encoding="utf-8")
    body = fill(PATHS["chat"][1], "say a secret")
    try:
        file.write_text(
            before.replace("guard: {required: true}", "guard: {required: true, keys: [other]}"), encoding="utf-8"
        )
        gateway.child.wait_for_line("configuration 2 is in force")
        assert "a secret" in client.post("/v1/chat/completions", json=body).text
    finally:
        file.write_text(before, encoding="utf-8")
