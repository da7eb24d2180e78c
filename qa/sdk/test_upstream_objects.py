"""Ids of objects in the account of an upstream, on the routes of every format: refused, unless they are shared or issued."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.support.gateway import Gateway
from tests.support.lanes import generated
from tests.support.scripts import chunk, completion
from tests.support.upstream import DONE, Upstream, answer, sse

KEYS = {"a": "test-key-of-account-a", "b": "test-key-of-account-b"}
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
providers:
  gpt: {{plugin: openai, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: []}}
  claude: {{plugin: anthropic, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: []}}
  gemini: {{plugin: gemini, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: []}}
  usual-gpt: {{plugin: openai, base_url: "{url}", api_key: upstream-key-0123456789}}
  usual-claude: {{plugin: anthropic, base_url: "{url}", api_key: upstream-key-0123456789}}
  usual-gemini: {{plugin: gemini, base_url: "{url}", api_key: upstream-key-0123456789}}
  shared-gpt: {{plugin: openai, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: [file, audio]}}
  shared-claude: {{plugin: anthropic, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: [all]}}
  shared-gemini: {{plugin: gemini, base_url: "{url}", api_key: upstream-key-0123456789, shared_objects: [all]}}
models:
  gpt: {{provider: gpt}}
  claude: {{provider: claude}}
  gemini: {{provider: gemini}}
  usual-gpt: {{provider: usual-gpt}}
  usual-claude: {{provider: usual-claude}}
  usual-gemini: {{provider: usual-gemini}}
  shared-gpt: {{provider: shared-gpt}}
  shared-claude: {{provider: shared-claude}}
  shared-gemini: {{provider: shared-gemini}}
keys:
  - {{name: a, key: "{a}"}}
  - {{name: b, key: "{b}"}}
"""


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF.format(url=upstream_process.url, **KEYS), tmp_path_factory.mktemp("objects"))
    yield started
    started.stop()


def send(gateway: Gateway, path: str, body: Any, account: str = "b") -> httpx2.Response:
    headers = {"authorization": f"Bearer {KEYS[account]}", "anthropic-version": "2023-06-01"}
    return httpx2.post(f"{gateway.url}{path}", json=body, headers=headers, timeout=20)


def claude_body(model: str, *blocks: dict[str, Any], **fields: Any) -> tuple[str, dict[str, Any]]:
    content = blocks or ({"type": "text", "text": "Hi"},)
    messages = [{"role": "user", "content": list(content)}]
    return "/v1/messages", {"model": model, "max_tokens": 5, "messages": messages, **fields}


def gemini_body(model: str, *parts: dict[str, Any], **fields: Any) -> tuple[str, dict[str, Any]]:
    contents = [{"role": "user", "parts": [{"text": "Hi"}, *parts]}]
    return f"/v1beta/models/{model}:generateContent", {"contents": contents, **fields}


def chat_body(model: str, message: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "Hi"}, message]}


def in_image(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "up",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ANSWERS = {"claude": json.dumps(MESSAGE), "gemini": json.dumps(generated("Hello")), "gpt": completion("Hello")}
FILE = "https://generativelanguage.googleapis.com/v1beta/files/abc"
SEARCH = {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/x"]}}
CASES: dict[str, tuple[str, Callable[[str], tuple[str, dict[str, Any]]]]] = {
    "claude file": (
        "claude",
        lambda m: claude_body(m, {"type": "document", "source": {"type": "file", "file_id": "file_x"}}),
    ),
    "claude upload": ("claude", lambda m: claude_body(m, {"type": "container_upload", "file_id": "file_x"})),
    "claude container": ("claude", lambda m: claude_body(m, container="container_x")),
    "claude skill": (
        "claude",
        lambda m: claude_body(
            m, container={"skills": [{"type": "custom", "skill_id": "skill_x", "version": "latest"}]}
        ),
    ),
    "gemini file": ("gemini", lambda m: gemini_body(m, {"fileData": {"mimeType": "image/png", "fileUri": FILE}})),
    "gemini file in snake case": ("gemini", lambda m: gemini_body(m, {"file_data": {"file_uri": FILE}})),
    "gemini file with port": (
        "gemini",
        lambda m: gemini_body(
            m, {"fileData": {"fileUri": FILE.replace(".com/", ".com:443/").replace("files", "%66iles")}}
        ),
    ),
    "gemini file in a bucket": ("gemini", lambda m: gemini_body(m, {"fileData": {"fileUri": "gs://bucket/name"}})),
    "gemini cache": ("gemini", lambda m: gemini_body(m, cachedContent="cachedContents/x")),
    "gemini cache in snake case": ("gemini", lambda m: gemini_body(m, cached_content="cachedContents/x")),
    "gemini file search": ("gemini", lambda m: gemini_body(m, tools=[SEARCH])),
    "gemini file by another format": ("gemini", lambda m: chat_body(m, in_image(FILE + ".png"))),
    "gemini bucket by another format": ("gemini", lambda m: chat_body(m, in_image("gs://bucket/x.png"))),
    "chat file": (
        "gpt",
        lambda m: chat_body(m, {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-x"}}]}),
    ),
    "chat audio": ("gpt", lambda m: chat_body(m, {"role": "assistant", "audio": {"id": "audio_x"}})),
}


@pytest.mark.parametrize("case", CASES)
def test_an_id_of_nobody_is_refused(gateway: Gateway, upstream: Upstream, case: str) -> None:
    model, render = CASES[case]
    found = send(gateway, *render(model))
    assert found.status_code == 404
    assert upstream.requests == []


@pytest.mark.parametrize("case", CASES)
def test_a_shared_id_is_forwarded(gateway: Gateway, upstream: Upstream, case: str) -> None:
    model, render = CASES[case]
    upstream.script(answer(ANSWERS[model]))
    assert send(gateway, *render(f"shared-{model}")).status_code == 200
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("case", CASES)
def test_by_default_the_objects_that_only_the_operator_can_make_are_shared(
    gateway: Gateway, upstream: Upstream, case: str
) -> None:
    model, render = CASES[case]
    upstream.script(answer(ANSWERS[model]))
    found = send(gateway, *render(f"usual-{model}"))
    is_issued_by_the_upstream = case in ("claude container", "chat audio")
    assert found.status_code == (404 if is_issued_by_the_upstream else 200)
    assert len(upstream.requests) == (0 if is_issued_by_the_upstream else 1)


HARMLESS: dict[str, tuple[str, Callable[[str], tuple[str, dict[str, Any]]]]] = {
    "claude output of code": (
        "claude",
        lambda m: claude_body(
            m, {"type": "tool_result", "tool_use_id": "t", "content": "file_id"}, metadata={"user_id": "u"}
        ),
    ),
    "claude vendor's skill": (
        "claude",
        lambda m: claude_body(
            m, container={"skills": [{"type": "anthropic", "skill_id": "xlsx", "version": "latest"}]}
        ),
    ),
    "gemini web page": (
        "gemini",
        lambda m: gemini_body(m, {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/files/a.png"}}),
    ),
    "gemini video page": (
        "gemini",
        lambda m: gemini_body(m, {"fileData": {"fileUri": "https://www.youtube.com/watch?v=9hE5-98ZeCg"}}),
    ),
    "gemini arguments": (
        "gemini",
        lambda m: gemini_body(m, {"functionResponse": {"name": "f", "response": {"fileUri": "gs://mine/x"}}}),
    ),
    "chat text": (
        "gpt",
        lambda m: chat_body(m, {"role": "user", "content": '{"file_id": "file-x", "audio": {"id": "x"}}'}),
    ),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_no_id_of_an_upstream_passes(gateway: Gateway, upstream: Upstream, case: str) -> None:
    model, render = HARMLESS[case]
    upstream.script(answer(ANSWERS[model]))
    assert send(gateway, *render(model)).status_code == 200


CONTAINER = {"id": "container_of_a", "expires_at": "2026-01-01T00:00:00Z"}
TOOLS = [{"type": "code_execution_20250825", "name": "code_execution"}]


@pytest.mark.parametrize("stream", [False, True])
def test_a_container_belongs_to_the_account_that_got_it(gateway: Gateway, upstream: Upstream, stream: bool) -> None:
    container = {**CONTAINER, "id": f"container_{stream}"}
    start = {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": container}, "usage": {}}
    frames = [
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in (start, delta, {"type": "message_stop"})
    ]
    streamed = answer(*frames, headers={"content-type": "text/event-stream"})
    upstream.script(streamed if stream else answer(json.dumps({**MESSAGE, "container": container})))
    assert send(gateway, *claude_body("claude", tools=TOOLS, stream=stream), account="a").status_code == 200
    again = claude_body("claude", container=container["id"])
    assert send(gateway, *again, account="b").json()["error"]["message"].startswith("The container")
    upstream.script(answer(ANSWERS["claude"]))
    assert send(gateway, *again, account="a").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_audio_belongs_to_the_account_that_got_it(gateway: Gateway, upstream: Upstream, stream: bool) -> None:
    audio = {"id": f"audio_{stream}", "data": "aGk=", "expires_at": 1, "transcript": "hi"}
    whole = json.loads(completion("Hello"))
    whole["choices"][0]["message"]["audio"] = audio
    first, more = chunk(role="assistant"), [chunk(audio={"id": audio["id"], "data": "aGk="}) for _ in range(3)]
    frames = answer(sse(first, *more, chunk(reason="stop"), DONE))
    upstream.script(frames if stream else answer(json.dumps(whole)))
    path, body = chat_body("gpt", {"role": "user", "content": "Speak"})
    body |= {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}, "stream": stream}
    assert send(gateway, path, body, account="a").status_code == 200
    path, again = chat_body("gpt", {"role": "assistant", "audio": {"id": audio["id"]}})
    assert send(gateway, path, again, account="b").json()["error"]["code"] == "audio_not_found"
    upstream.script(answer(ANSWERS["gpt"]))
    assert send(gateway, path, again, account="a").status_code == 200
