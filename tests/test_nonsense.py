"""Whatever an upstream says, the caller gets a well-formed error of its own format: never a hang, never a normal finish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import EVENT_STREAM, JSON, Close, Upstream, answer
from tests.test_crossings import CONF, GOOD_ENDS, KEY, QUESTION
from tornado_gate.streams.sse import MAX_FRAME_BYTES

HTML = {"content-type": "text/html"}
PAGE = "<!doctype html><title>502 Bad Gateway</title><h1>nginx</h1>"
WHOLE: dict[str, tuple[dict[str, str], tuple[Any, ...]]] = {
    "a page": (HTML, (PAGE,)),
    "a page that says it is JSON": (JSON, (PAGE,)),
    "nothing": (JSON, ("",)),
    "null": (JSON, ("null",)),
    "an empty object": (JSON, ("{}",)),
    "an array": (JSON, ("[1, 2]",)),
    "half of a JSON": (JSON, ('{"id": "x", "choices": [{',)),
    "wrong types": (
        JSON,
        ('{"choices": "x", "content": 5, "candidates": {"a": 1}, "output": "x", "usage": [], "type": "message"}',),
    ),
    "wrong types inside": (
        JSON,
        ('{"choices": [5], "content": [5], "candidates": [5], "output": [5], "type": "message", "role": "assistant"}',),
    ),
    "an error with status 200": (JSON, ('{"type": "error", "error": {"type": "api_error", "message": "boom"}}',)),
    "a body that breaks off": (JSON, ('{"id": "x", ', Close())),
}
STREAMS: dict[str, tuple[dict[str, str], tuple[Any, ...]]] = {
    "a page": (HTML, (PAGE,)),
    "a page that says it is a stream": (EVENT_STREAM, (PAGE,)),
    "nothing": (EVENT_STREAM, ("",)),
    "comments alone": (EVENT_STREAM, (": hello\n\n: hello\n\n",)),
    "no JSON": (EVENT_STREAM, ("data: {oops\n\n",)),
    "null": (EVENT_STREAM, ("data: null\n\n",)),
    "numbers": (EVENT_STREAM, ("data: 5\n\ndata: []\n\n",)),
    "unknown events alone": (EVENT_STREAM, ('event: new\ndata: {"type": "new.event", "odd": 1}\n\n',)),
    "wrong types": (
        EVENT_STREAM,
        ('data: {"type": "content_block_delta", "index": "x", "delta": 5, "choices": "x", "candidates": 5}\n\n',),
    ),
    "members without values": (
        EVENT_STREAM,
        (
            'data: {"type": "message_start", "message": 5, "choices": [{"index": "a", "delta": {"tool_calls": [5]}}], '
            '"candidates": [{"content": {"parts": 5}, "index": "b"}]}\n\n',
            'data: {"type": "content_block_start", "content_block": [], "choices": [{"finish_reason": 5}], '
            '"candidates": [{"finishReason": []}], "usageMetadata": "x", "usage": [1]}\n\n',
        ),
    ),
    "no UTF-8": (
        EVENT_STREAM,
        (b'data: {"type": "ping", "choices": [{"delta": {"content": "\xff"}}], "candidates": [{"a": "\xff"}]}\n\n',),
    ),
    "an error": (EVENT_STREAM, ('event: error\ndata: {"type": "error", "error": {"message": "boom"}}\n\n',)),
    "a stream that breaks off": (EVENT_STREAM, ('data: {"type": "ping"}\n\ndata: {"ty', Close())),
    "a line without end": (EVENT_STREAM, ("data: ", *["x" * 1024 * 1024] * (MAX_FRAME_BYTES // 1024 // 1024 + 1))),
}
BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", "", {"messages": [QUESTION]}),
    "messages": ("/v1/messages", "", {"messages": [QUESTION], "max_tokens": 50}),
    "responses": ("/v1/responses", "", {"input": "Look"}),
    "generateContent": (
        "/v1beta/models/MODEL:generateContent",
        "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Look"}]}]},
    ),
}
MODELS = ("o-model", "a-model", "g-model")


@pytest.fixture(scope="module")
def one_gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, key=KEY)
    gateway = Gateway.start(conf, tmp_path_factory.mktemp("nonsense"))
    yield gateway
    gateway.stop()


def send_request(gateway: Gateway, way: str, model: str, *, stream: bool) -> httpx.Response:
    whole, streamed, body = BODIES[way]
    path = (streamed if stream and streamed else whole).replace("MODEL", model)
    if way != "generateContent":
        body = {**body, "model": model, "stream": stream}
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
    return httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=40)


def check(response: httpx.Response) -> None:
    if response.status_code == 200:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "error" in response.text
        assert "plugin_failed" not in response.text
        assert not any(end in response.text for end in GOOD_ENDS), response.text[:500]
        return
    assert response.status_code in (502, 503, 504), response.text[:500]
    error = response.json()["error"]
    assert all(isinstance(error[name], str) for name in ("message", "type", "param", "code"))
    assert error["code"] != "plugin_failed", response.text  # the upstream's fault is not the provider plugin's
    assert "nginx" not in response.text


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", BODIES)
@pytest.mark.parametrize("nonsense", WHOLE)
def test_nonsense_instead_of_an_answer(
    one_gateway: Gateway, upstream: Upstream, way: str, model: str, nonsense: str
) -> None:
    headers, steps = WHOLE[nonsense]
    upstream.script(answer(*steps, headers=headers))
    check(send_request(one_gateway, way, model, stream=False))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("way", BODIES)
@pytest.mark.parametrize("nonsense", STREAMS)
def test_nonsense_instead_of_a_stream(
    one_gateway: Gateway, upstream: Upstream, way: str, model: str, nonsense: str
) -> None:
    headers, steps = STREAMS[nonsense]
    upstream.script(answer(*steps, headers=headers))
    check(send_request(one_gateway, way, model, stream=True))


def test_the_log_names_the_target(one_gateway: Gateway, upstream: Upstream) -> None:
    upstream.script(answer(PAGE, headers=HTML))
    send_request(one_gateway, "chat", "a-model", stream=False)
    line = one_gateway.child.wait_for_line('target failed.*"provider":"a"')
    assert json.loads(line.string)["model"] == "a-model"
