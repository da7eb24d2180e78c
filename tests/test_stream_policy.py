"""The header x-gate-stream: whether another target is tried, and keep-alives before the first event. With a real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Hang, Upstream, Wait, answer, sse
from tests.support.variants import vary
from tornado_gate.errors import InvalidField
from tornado_gate.guards.stream_policy import StreamPolicy, parse_stream_policy

KEY = "test-key-of-stream-policies"
CONF = """
plugins: {{openai: true}}
server: {{access_log: true}}
providers:
  first: {{plugin: openai, base_url: "{url}/first/v1", api_key: key-of-the-upstream}}
  second: {{plugin: openai, base_url: "{url}/second/v1", api_key: key-of-the-upstream}}
models:
  usual: {{provider: first, fallback: [other]}}
  alone: {{provider: first, fallback: [other], failover: never}}
  other: {{provider: second}}
circuits: {{failures: 1000}}
keys:
  - {{name: a, key: {key}}}
"""
FAILS = answer('{"error": {"message": "boom"}}', status=500, path="/first")
WORKS = answer(completion("hello"), path="/second")
STREAM = sse(chunk(role="assistant", content="hello"), chunk(reason="stop"), usage_chunk(), DONE)
MESSAGES = [{"role": "user", "content": "hi"}]
FORMATS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "chat": ("/v1/chat/completions", {"model": "usual", "stream": True, "messages": MESSAGES}, b": ping\n"),
    "responses": ("/v1/responses", {"model": "usual", "stream": True, "input": "hi", "store": False}, b": ping\n"),
    "messages": (
        "/v1/messages",
        {"model": "usual", "stream": True, "max_tokens": 9, "messages": MESSAGES},
        b'event: ping\ndata: {"type": "ping"}\n\n',
    ),
    "generate": (
        "/v1beta/models/usual:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        b": ping\n\n",
    ),
}
"""A request for a stream in each format, and the format's keep-alive."""


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway.start(CONF.format(url=upstream_process.url, key=KEY), tmp_path_factory.mktemp("policy"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(one_gateway: Gateway, upstream: Upstream) -> Gateway:
    return one_gateway


def send_request(gateway: Gateway, policy: str | None, model: str = "usual") -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", **({} if policy is None else {"x-gate-stream": policy})}
    body = {"model": model, "messages": MESSAGES}
    return httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, timeout=60)


def begin(gateway: Gateway, format: str, policy: str) -> Any:
    path, body, _ = FORMATS[format]
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01", "x-gate-stream": policy}
    return httpx.stream("POST", gateway.url + path, json=body, headers=headers, timeout=60)


# The header


@pytest.mark.parametrize(
    ("header", "policy"),
    [
        ("failover=never", StreamPolicy(False, 0)),
        ("failover=pre-first-event; ping=15", StreamPolicy(True, 15)),
        (" Ping = 300 ;FAILOVER=Never;", StreamPolicy(False, 300)),
    ],
)
def test_a_header_is_read(header: str, policy: StreamPolicy) -> None:
    assert parse_stream_policy(header) == policy


@pytest.mark.parametrize(
    "header",
    [
        *(
            "",
            ";",
            "ping",
            "ping=0",
            "ping=301",
            "ping=-1",
            "ping=1.5",
            "ping=²",
            f"ping={'9' * 5000}",
            "ping=1;ping=1",
        ),
        *("failover=always", "failover", "retry=1", "x" * 10_000),
    ],
)
def test_an_invalid_header_names_what_is_allowed(header: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_stream_policy(header)
    assert caught.value.param == "x-gate-stream"
    assert "failover=pre-first-event|never and ping=SECONDS (1 to 300)" in caught.value.message
    assert len(caught.value.message) < 300


def test_a_request_with_an_invalid_header_is_a_400_before_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    refused = send_request(gateway, "failover=maybe")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "x-gate-stream")
    assert not upstream.requests


# Failover


@pytest.mark.parametrize(
    ("model", "policy", "status", "asked"),
    [
        ("usual", None, 200, 2),
        ("usual", "failover=pre-first-event", 200, 2),
        ("usual", "ping=5", 200, 2),
        ("usual", "failover=never", 502, 1),
        ("alone", None, 502, 1),
        ("alone", "ping=5", 502, 1),
        ("alone", "failover=pre-first-event", 200, 2),
    ],
)
def test_the_caller_decides_whether_another_target_is_tried(
    gateway: Gateway, upstream: Upstream, model: str, policy: str | None, status: int, asked: int
) -> None:
    upstream.script(FAILS, WORKS)
    assert send_request(gateway, policy, model).status_code == status
    assert len(upstream.requests) == asked


# Keep-alives


@pytest.mark.parametrize("format", vary(*FORMATS))
def test_a_silent_upstream_is_bridged_before_the_first_event(gateway: Gateway, upstream: Upstream, format: str) -> None:
    """The upstream sends nothing, not even a head, until the caller has received a keep-alive."""
    upstream.script(answer(Wait("go"), STREAM, path="/first"))
    with begin(gateway, format, "ping=1") as response:
        pieces = response.iter_raw()
        first = next(pieces)
        assert (response.status_code, first) == (200, FORMATS[format][2])
        assert response.headers["content-type"].startswith("text/event-stream")
        upstream.tell("go")
        rest = b"".join(pieces)
    assert b"hello" in rest
    assert b"error" not in rest.replace(b'"error":null', b"")


@pytest.mark.parametrize("format", vary(*FORMATS))
def test_a_failure_after_a_keep_alive_is_an_error_event(gateway: Gateway, upstream: Upstream, format: str) -> None:
    refused = answer(Wait("go"), '{"error": {"message": "no"}}', status=400, path="/first")
    upstream.script(refused)
    with begin(gateway, format, "ping=1") as response:
        pieces = response.iter_raw()
        ping = next(pieces)
        upstream.tell("go")
        rest = b"".join(pieces)
    assert (response.status_code, ping) == (200, FORMATS[format][2])
    data = [line.removeprefix(b"data: ") for line in rest.split(b"\n") if line.startswith(b"data: ")]
    told = json.loads(data[-1])
    assert "no" in str(told.get("error", told))
    gateway.child.wait_for_line(r'"status":200.*"error":"upstream_refused"')


def test_another_target_is_tried_after_a_keep_alive(gateway: Gateway, upstream: Upstream) -> None:
    busy = answer(Wait("go"), '{"error": {"message": "busy"}}', status=503, path="/first")
    upstream.script(busy, answer(STREAM, path="/second"))
    with begin(gateway, "chat", "ping=1") as response:
        pieces = response.iter_raw()
        assert next(pieces) == b": ping\n"
        upstream.tell("go")
        assert b"hello" in b"".join(pieces)


def test_a_whole_answer_instead_of_a_stream_becomes_a_stream_after_a_keep_alive(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.script(answer(Wait("go"), completion("whole"), path="/first"))
    with begin(gateway, "chat", "ping=1") as response:
        pieces = response.iter_raw()
        next(pieces)
        upstream.tell("go")
        rest = b"".join(pieces)
    assert b"whole" in rest
    assert rest.endswith(b"data: [DONE]\n\n")


def test_silence_inside_a_stream_is_bridged_at_the_interval_of_the_caller(gateway: Gateway, upstream: Upstream) -> None:
    start = sse(chunk(role="assistant", content="hello"))
    upstream.script(answer(start, Wait("go"), sse(chunk(reason="stop"), DONE), path="/first"))
    with begin(gateway, "chat", "ping=1") as response:
        pieces = response.iter_raw()
        assert b"hello" in next(pieces)
        assert next(pieces).strip() == b": ping"
        upstream.tell("go")
        assert b"[DONE]" in b"".join(pieces)


def test_a_request_for_a_whole_answer_gets_no_keep_alive(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer('{"error": {"message": "no"}}', status=400, path="/first"))
    assert send_request(gateway, "ping=1").status_code == 400


def test_a_caller_who_leaves_between_keep_alives_leaves_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(Hang(), path="/first"))
    with begin(gateway, "chat", "ping=1") as response:
        next(response.iter_raw())
    upstream.wait_until_closed()
