"""Streams of callers who have used their connection before: these need no task, and behave like the first one."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, EVENT_STREAM, Close, Hang, Pause, Reset, Upstream, Wait, answer, sse

KEY = "test-key-of-warm-streams"
CONF = """
plugins: {{openai: true}}
server: {{access_log: true, keep_alive_seconds: 1, drain_seconds: 0, drain_delay: 0}}
providers:
  up: {{plugin: openai, base_url: "{url}/up/v1", api_key: "key-of-the-upstream-0123456789", timeouts: {{gap: 1}}}}
  patient: {{plugin: openai, base_url: "{url}/up/v1", api_key: "key-of-the-upstream-0123456789"}}
models:
  up: {{provider: up}}
  patient: {{provider: patient}}
circuits: {{failures: 1000}}
keys: [{{name: a, key: {key}}}]
"""
FIRST, STOP = chunk(role="assistant", content="hello"), chunk(reason="stop")
END = sse(STOP, usage_chunk(), DONE)


@pytest.fixture
def gateway(upstream: Upstream, start_gateway: Any) -> Gateway:
    gateway: Gateway = start_gateway(CONF.format(url=upstream.url, key=KEY))
    return gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    """A client with one connection."""
    with httpx.Client(
        base_url=gateway.url,
        trust_env=False,
        timeout=30,
        headers={"authorization": f"Bearer {KEY}"},
        limits=httpx.Limits(max_connections=1),
    ) as client:
        yield client


def make_body(model: str = "up", **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}


def warm(client: httpx.Client, upstream: Upstream) -> None:
    """Let the gateway know the head of the requests and have a connection to the upstream."""
    for _ in range(2):
        upstream.script(answer(completion("warm")))
        assert client.post("/v1/chat/completions", json=make_body(stream=False)).status_code == 200


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/chat/completions", json=make_body(**fields))


STREAMS = {
    "complete": [sse(FIRST), END],
    "in one write": [sse(FIRST, STOP, usage_chunk(), DONE)],
    "without end": [sse(FIRST), Close()],
    "reset": [sse(FIRST), Reset()],
    "silent": [sse(FIRST), Hang()],
    "open after its end": [sse(FIRST), END, Hang()],
    "error before the first event": [sse({"error": {"message": "busy", "type": "server_error"}})],
    "error after the first event": [
        sse(FIRST),
        Pause(0.1),
        sse({"error": {"message": "busy", "type": "server_error"}}),
    ],
    "no UTF-8": [sse(FIRST), Pause(0.1), b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n', END],
    "only comments": [": ping\n\n"],
    "the upstream's key": [sse(FIRST, chunk(content="key-of-the-upstream-0123456789")), END],
    "a large event": [sse(FIRST), sse(chunk(content="x" * 800_000)), END],
}


@pytest.mark.parametrize("steps", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("usage", [True, pytest.param(False, marks=pytest.mark.qa)], ids=["usage", "hidden usage"])
def test_a_stream_on_a_warm_connection_is_that_on_a_new_one(
    client: httpx.Client, gateway: Gateway, upstream: Upstream, steps: list[Any], usage: bool
) -> None:
    answers = []
    options = {"stream_options": {"include_usage": True}} if usage else {}
    for is_warm in (False, True):
        if is_warm:
            warm(client, upstream)
        upstream.script(answer(*steps, headers=EVENT_STREAM))
        answered = ask(client, **options)
        answers.append((answered.status_code, answered.headers.get("content-type"), answered.text))
    assert answers[0] == answers[1]
    assert "key-of-the-upstream" not in answers[1][2]
    assert usage or '"prompt_tokens"' not in answers[1][2]
    lines = [json.loads(line) for line in gateway.stop().splitlines() if '"tornado_gate.access"' in line]
    streams = [line for line in lines if line["path"] == "/v1/chat/completions"][:: len(lines) - 1]
    first, last = ({key: line.get(key) for key in ("status", "outcome", "error", "input_tokens")} for line in streams)
    assert first == last


def test_a_compressed_stream_is_passed_on(client: httpx.Client, upstream: Upstream) -> None:
    warm(client, upstream)
    packed = gzip.compress(sse(FIRST, STOP, DONE).encode())
    upstream.script(answer(packed[:30], packed[30:], headers={**EVENT_STREAM, "content-encoding": "gzip"}))

    assert ask(client).text == sse(FIRST, STOP, DONE)


def test_a_caller_who_leaves_closes_the_upstream(client: httpx.Client, upstream: Upstream) -> None:
    warm(client, upstream)
    upstream.script(answer(sse(FIRST), Hang()))
    with client.stream("POST", "/v1/chat/completions", json=make_body("patient")) as stream:
        assert "hello" in next(stream.iter_text())
    upstream.wait_until_closed(2)


def test_keep_alives_are_sent_while_the_upstream_is_silent(client: httpx.Client, upstream: Upstream) -> None:
    warm(client, upstream)
    upstream.script(answer(sse(FIRST), Wait("go on"), END))
    with client.stream("POST", "/v1/chat/completions", json=make_body("patient")) as stream:
        received = ""
        for text in stream.iter_text():
            received += text
            if ": ping\n\n" in received:
                upstream.tell("go on")
    assert received.endswith("[DONE]\n\n")


def test_a_drain_ends_a_stream_with_an_error_event(client: httpx.Client, gateway: Gateway, upstream: Upstream) -> None:
    warm(client, upstream)
    upstream.script(answer(sse(FIRST), Hang()))
    with client.stream("POST", "/v1/chat/completions", json=make_body("patient")) as stream:
        texts = stream.iter_text()
        assert "hello" in next(texts)
        gateway.child.process.send_signal(signal.SIGTERM)
        rest = "".join(texts)
    assert json.loads(rest.split("data: ")[-1])["error"]["code"] == "shutting_down"
    assert "[DONE]" not in rest
