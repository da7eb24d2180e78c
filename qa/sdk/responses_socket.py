"""A gateway for the vendor's WebSocket mode of responses: the embedded model, and upstreams of three wire formats.

A module that wants the fixtures says ``gateway = responses_socket.gateway`` and ``client = responses_socket.client``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import openai
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk
from tests.support.stored_responses import answer_stream, events_of
from tests.support.upstream import DONE, Answer, Upstream, answer, sse

KEY = "test-key-of-the-response-sockets"
FIRST = "/first/v1/responses"
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  local: {{plugin: local}}
  first: {{plugin: openai, base_url: "{url}/first", api_key: "scripted-key-0123456789", responses: true, shared_objects: []}}
  chats: {{plugin: openai, base_url: "{url}/chats", api_key: scripted-key, responses: false}}
  claude: {{plugin: anthropic, base_url: "{url}", api_key: scripted-key}}
  gemini: {{plugin: gemini, base_url: "{url}", api_key: scripted-key}}
models:
  local-chat: {{provider: local}}
  verbatim: {{provider: first, model: gpt-5}}
  "failing/*": {{provider: first}}
  chats: {{provider: chats, model: gpt-4o}}
  claude: {{provider: claude, model: claude-sonnet-4-5}}
  gemini: {{provider: gemini, model: gemini-2.5-pro}}
keys:
  - {{name: test, key: "{key}"}}
  - {{name: slow, key: "slow-{key}", requests_per_minute: 1}}
  - {{name: narrow, key: "narrow-{key}", operations: [embeddings]}}
  - {{name: one-model, key: "one-{key}", models: [local-chat]}}
"""
TOOL: Mapping[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("socket"))
    yield started
    started.stop()


def client_of(gateway: Gateway, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=20)


@pytest.fixture
def client(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with client_of(gateway) as client:
        yield client


def socket_url(gateway: Gateway) -> str:
    return f"{gateway.url.replace('http', 'ws', 1)}/v1/responses"


def create(connection: Any, **fields: Any) -> Any:
    """Create a response and return its last event."""
    return create_all(connection, **fields)[-1]


def create_all(connection: Any, **fields: Any) -> list[Any]:
    """Create a response and return its events."""
    connection.response.create(**fields)
    return until_end(connection)


def receive(connection: Any) -> Any:
    """The next event; `Any`, because the SDK's union of events has few members in common."""
    return connection.recv()


def send(connection: Any, **fields: Any) -> None:
    """Send a ``response.create`` with any fields, also invalid ones."""
    connection.send({"type": "response.create", **fields})


def until_end(connection: Any, stream_id: str | None = None) -> list[Any]:
    """The events up to the end of a response, of one lane if `stream_id` is given."""
    events = []
    while True:
        event = connection.recv()
        if stream_id is not None and event.stream_id != stream_id:
            continue
        events.append(event)
        if event.type in ENDS:
            return events


def text_of(last: Any) -> str:
    assert last.type == "response.completed", last
    text: str = last.response.output_text
    return text


# Answers of upstreams


def respond(body: dict[str, Any]) -> Answer:
    """A streamed response of the vendor."""
    return answer_stream("".join(events_of(body)))


def call_chats() -> Answer:
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
    }
    return answer(sse(chunk(role="assistant", tool_calls=[call]), chunk(reason="tool_calls"), DONE))


def call_claude() -> Answer:
    tool = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    usage = {"input_tokens": 9, "output_tokens": 4}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
    }
    events = (
        {"type": "message_start", "message": {**message, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": tool},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"city":"Oslo"}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    )  # fmt: skip
    return answer_stream("".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events))


def call_gemini() -> Answer:
    part = {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return answer(sse({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1}}))


def call_verbatim() -> dict[str, Any]:
    return {
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Oslo"}',
        "status": "completed",
    }  # fmt: skip
