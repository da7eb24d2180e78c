"""An upstream that falls silent: inside a whole answer, or after the last event of a stream. With a real gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Hang, Upstream, answer, sse
from tests.support.variants import vary

KEY = "test-key-of-silent-upstreams"
CONF = """
plugins: {{openai: true, anthropic: true}}
server: {{access_log: false}}
providers:
  silent:
    plugin: openai
    base_url: "{url}/silent/v1"
    api_key: key-of-the-upstream
    inputs_at_once: 2
    timeouts: {{gap: 0.2, total: 600}}
  works: {{plugin: openai, base_url: "{url}/works/v1", api_key: key-of-the-upstream}}
  open: {{plugin: openai, base_url: "{url}/open/v1", api_key: key-of-the-upstream, timeouts: {{gap: 600}}}}
  a: {{plugin: anthropic, base_url: "{url}/open", api_key: key-of-the-upstream, timeouts: {{gap: 600}}}}
models:
  silent: {{provider: silent, fallback: [works]}}
  alone: {{provider: silent}}
  works: {{provider: works}}
  open: {{provider: open}}
  claude: {{provider: a}}
circuits: {{failures: 1000}}
keys: [{{name: a, key: {key}}}]
"""
MESSAGES = [{"role": "user", "content": "hi"}]
JSON = {"content-type": "application/json"}
CHAT: tuple[str, dict[str, Any]] = ("/v1/chat/completions", {"messages": MESSAGES})
MESSAGE: tuple[str, dict[str, Any]] = ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9})
EMBEDDINGS: tuple[str, dict[str, Any]] = ("/v1/embeddings", {"input": ["hi"] * 3})
CLAUDE = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("silent"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    return one_gateway


def send_request(gateway: Gateway, model: str, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json={"model": model, **body}, headers=headers, timeout=30, trust_env=False)


@pytest.mark.parametrize(("path", "body"), [CHAT, MESSAGE], ids=["verbatim", "common"])
def test_a_whole_answer_that_stops_in_the_middle_is_a_failure_after_a_gap(
    gateway: Gateway, upstream: Upstream, path: str, body: dict[str, Any]
) -> None:
    upstream.script(
        answer(completion("hello")[:40], Hang(), headers=JSON, path="/silent"),
        answer(completion("hello"), path="/works"),
    )
    answered = send_request(gateway, "silent", path, body)
    assert (answered.status_code, answered.headers["x-gate-attempts"]) == (200, "2")
    upstream.wait_until_closed(0)


def test_a_batch_of_embeddings_that_stops_in_the_middle_is_a_failure_after_a_gap(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.script(answer('{"object": ', Hang(), headers=JSON, path="/silent", repeat=True))
    answered = send_request(gateway, "alone", *EMBEDDINGS)
    assert (answered.status_code, answered.json()["error"]["code"]) == (504, "upstream_timeout")
    assert "gap timeout" in answered.json()["error"]["message"]
    assert len(upstream.requests) == 2


@pytest.mark.parametrize(
    ("model", "path", "body"),
    vary(("open", *CHAT), ("open", *MESSAGE), ("claude", *MESSAGE), ("claude", *CHAT)),
    ids=["chat verbatim", "chat common", "messages verbatim", "messages common"],
)
def test_a_stream_ends_with_its_last_event_although_the_upstream_does_not_close_it(
    gateway: Gateway, upstream: Upstream, model: str, path: str, body: dict[str, Any]
) -> None:
    stream = sse(chunk(role="assistant", content="hello"), chunk(reason="stop"), usage_chunk(), DONE)
    upstream.script(answer(stream if model == "open" else sse(*CLAUDE), Hang(), path="/open"))
    answered = send_request(gateway, model, path, {**body, "stream": True})
    assert answered.status_code == 200
    assert "hello" in answered.text
    assert "error" not in answered.text
    assert answered.text.rstrip().endswith("[DONE]" if path == CHAT[0] else '"message_stop"}')
    upstream.wait_until_closed(0)
