"""Traces as a collector in another process receives them: of every format and lane, whole, streamed, failed and left."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Close, Upstream, Wait, answer, sse
from tests.support.variants import vary
from tests.support.vendor_chats import VENDORS, ask_chat

HEADERS = {"authorization": "Bearer key-of-ann-0123456789", "anthropic-version": "2023-06-01"}
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET_TEXT = "the question that no span may hold"
CHAT = {
    "model": "of-chat",
    "temperature": 0.25,
    "max_tokens": 64,
    "messages": [{"role": "user", "content": SECRET_TEXT}],
}
MODELS = {"chat": "gpt-4o-2024-08-06", "responses": "gpt-5", "messages": "claude-sonnet-4-5", "generate": "gemini"}
BEGIN = sse(chunk(role="assistant", content="Hel"))
END = sse(chunk(content="lo"), chunk(reason="stop"), usage_chunk(), DONE)
Send = Callable[..., httpx.Response]


@pytest.fixture
def send(gateway: Gateway) -> Send:
    def post(path: str, body: Any, **headers: str) -> httpx.Response:
        return httpx.post(gateway.url + path, json=body, headers=HEADERS | headers, timeout=30, trust_env=False)

    return post


def test_each_lane_has_a_span_for_the_request_and_one_for_its_upstream(
    upstream: Upstream, collector: Any, send: Send
) -> None:
    faults = []
    for caller, vendor, streamed in itertools.product(VENDORS, VENDORS, (False, True)):
        collector.reset()
        upstream.reset()
        upstream.script(VENDORS[vendor](streamed=streamed, calls=False))
        exchange = ask_chat(caller, f"of-{vendor}", streamed=streamed)
        response = send(exchange.path, exchange.body)
        server, client = collector.wait_for(2)
        (sent,) = upstream.requests
        attributes = client["attributes"]
        expected = {
            "kinds": ("server", "client"),
            "parents": ("", server["id"]),
            "trace": client["trace"],
            "ends": True,
            "failed": (False, False),
            "sent": f"{client['trace']}-{client['id']}",
            "status": 200,
            "route": exchange.path.partition("?")[0].replace(f"of-{vendor}", "{model}"),
            "tokens": (38 if vendor == "messages" else 30, 12),  # with those written to the vendor's cache
            "operation": "chat",
            "stream": streamed,
            "first chunk": streamed,
            "finish": ["stop"],
        }
        spans = {
            "kinds": (server["kind"], client["kind"]),
            "parents": (server["parent"], client["parent"]),
            "trace": server["trace"],
            "ends": int(server["start"]) <= int(client["start"]) <= int(client["end"]) <= int(server["end"]),
            "failed": (server["failed"], client["failed"]),
            "sent": sent.headers.get("traceparent", "")[3:52],
            "status": server["attributes"]["http.response.status_code"],
            "route": server["attributes"]["http.route"],
            "tokens": (attributes.get("gen_ai.usage.input_tokens"), attributes.get("gen_ai.usage.output_tokens")),
            "operation": attributes["gen_ai.operation.name"],
            "stream": attributes["gen_ai.request.stream"],
            "first chunk": "gen_ai.response.time_to_first_chunk" in attributes,
            "finish": attributes.get("gen_ai.response.finish_reasons"),
        }
        wrong = {name: (spans[name], value) for name, value in expected.items() if spans[name] != value}
        if wrong or not attributes["gen_ai.response.model"].startswith(MODELS[vendor]) or response.status_code != 200:
            faults.append(f"{exchange.name}: {wrong} {attributes}")
    assert not faults, "\n".join(faults)


def test_the_attributes_of_a_chat(upstream: Upstream, collector: Any, send: Send) -> None:
    upstream.script(answer(completion("the answer that no span may hold")))
    response = send("/v1/chat/completions", CHAT)
    server, client = collector.wait_for(2)
    port = int(upstream.url.rpartition(":")[2])
    assert server["name"] == "POST /v1/chat/completions"
    assert client["name"] == "chat gpt-4o"
    seconds = server["attributes"].pop("tornado_gate.time_to_first_chunk")
    assert 0 < seconds <= (int(server["end"]) - int(server["start"])) / 1e9
    assert server["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "tornado_gate.request_id": response.headers["x-request-id"],
        "tornado_gate.format": "format-openai",
        "tornado_gate.operation": "chat",
        "tornado_gate.model": "of-chat",
        "tornado_gate.outcome": "complete",
        "tornado_gate.attempts": 1,
        "tornado_gate.key": "conf:ann",
        "tornado_gate.account": "a",
    }
    assert client["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.request.temperature": 0.25,
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.stream": False,
        "gen_ai.response.model": "scripted-model",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
        "server.address": "127.0.0.1",
        "server.port": port,
        "tornado_gate.provider": "chat",
    }
    assert server["service"]["service.name"] == "tornado-gate"
    assert server["service"]["deployment.environment.name"] == "test"
    received = collector.read()
    assert received["headers"]["X-Token"] == "secret-of-the-collector"
    for text in ("may hold", "key-of-ann-0123456789", "scripted-key"):
        assert text not in json.dumps(received["spans"]), text


def test_the_trace_of_the_caller_is_continued_to_the_upstream(upstream: Upstream, collector: Any, send: Send) -> None:
    upstream.script(answer(completion("Hi")))
    send("/v1/chat/completions", CHAT, traceparent=TRACEPARENT, tracestate="vendor=1")
    server, client = collector.wait_for(2)
    assert (server["trace"], server["parent"], server["state"]) == (TRACE, PARENT, "vendor=1")
    (sent,) = upstream.requests
    assert sent.headers["traceparent"] == f"00-{TRACE}-{client['id']}-01"
    assert sent.headers["tracestate"] == "vendor=1"


def test_a_trace_that_the_caller_does_not_record_is_passed_on_unrecorded(
    upstream: Upstream, collector: Any, send: Send
) -> None:
    upstream.script(answer(completion("Hi"), repeat=True))
    send("/v1/chat/completions", CHAT, traceparent=f"00-{TRACE}-{PARENT}-00")
    (sent,) = upstream.requests
    assert sent.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert sent.headers["traceparent"].endswith("-00")
    send("/v1/chat/completions", CHAT, traceparent="nonsense")
    assert TRACE not in {span["trace"] for span in collector.wait_for(2)}


def test_each_attempt_has_its_own_span(upstream: Upstream, collector: Any, send: Send) -> None:
    busy = answer('{"error": {"message": "busy"}}', status=503, path="/chat")
    upstream.script(busy, answer(completion("Hi"), path="/second"))
    assert send("/v1/chat/completions", CHAT | {"model": "both"}).status_code == 200
    server, first, second = collector.wait_for(3)
    assert (first["parent"], second["parent"]) == (server["id"], server["id"])
    assert (first["failed"], second["failed"], server["failed"]) == (True, False, False)
    assert first["attributes"]["error.type"] == "upstream_overloaded"
    assert "gen_ai.usage.input_tokens" not in first["attributes"]
    assert second["attributes"]["gen_ai.request.model"] == "gpt-4o-mini"
    assert server["attributes"]["tornado_gate.attempts"] == 2
    assert [request.headers["traceparent"][36:52] for request in upstream.requests] == [first["id"], second["id"]]


def test_how_requests_fail_is_in_their_spans(upstream: Upstream, collector: Any, send: Send) -> None:
    upstream.script(answer('{"error": {"message": "bad", "type": "invalid_request_error"}}', status=400))
    send("/v1/chat/completions", CHAT)
    server, client = collector.wait_for(2)
    assert (server["failed"], server["attributes"]["http.response.status_code"]) == (False, 400)
    assert (client["failed"], client["attributes"]["error.type"]) == (True, server["attributes"]["error.type"])

    collector.reset()
    upstream.script(answer(BEGIN, Close(), headers={"content-type": "text/event-stream"}))
    send("/v1/chat/completions", CHAT | {"stream": True})
    server, client = collector.wait_for(2)
    assert (server["failed"], client["failed"]) == (True, True)
    assert server["attributes"]["tornado_gate.outcome"] == "broken"
    assert client["attributes"]["error.type"] == server["attributes"]["error.type"] == "upstream_lost"

    collector.reset()
    send("/v1/chat/completions", CHAT | {"model": "unknown"})
    (refused,) = collector.wait_for(1)
    assert refused["attributes"]["error.type"] == "model_not_found"
    assert refused["attributes"]["http.response.status_code"] == 404


def test_a_request_without_a_key_has_no_span(upstream: Upstream, collector: Any, send: Send) -> None:
    upstream.script(answer(completion("Hi")))
    assert send("/v1/chat/completions", CHAT, authorization="Bearer wrong").status_code == 401
    send("/v1/chat/completions", CHAT)
    assert len(collector.wait_for(2)) == 2


def test_a_stream_that_its_caller_leaves_ends_its_spans(upstream: Upstream, collector: Any, gateway: Gateway) -> None:
    upstream.script(answer(BEGIN, Wait("never"), END))
    url, body = gateway.url + "/v1/chat/completions", CHAT | {"stream": True}
    with httpx.stream("POST", url, json=body, headers=HEADERS, trust_env=False) as response:
        texts = response.iter_text()  # closes the response when it is dropped
        assert next(texts)
        assert collector.read()["spans"] == []
    server, client = collector.wait_for(2)
    assert server["attributes"]["tornado_gate.outcome"] == "aborted"
    assert server["attributes"]["error.type"] == client["attributes"]["error.type"] == "cancelled"
    assert client["attributes"]["gen_ai.response.time_to_first_chunk"] > 0


def test_parallel_requests_do_not_mix(upstream: Upstream, collector: Any, send: Send) -> None:
    upstream.script(answer(completion("Hi"), repeat=True))
    traces = [f"{number:032x}" for number in range(1, 41)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda trace: send("/v1/chat/completions", CHAT, traceparent=f"00-{trace}-{PARENT}-01"), traces))
    spans = collector.wait_for(80)
    servers = {span["trace"]: span for span in spans if span["kind"] == "server"}
    clients = {span["trace"]: span for span in spans if span["kind"] == "client"}
    assert sorted(servers) == sorted(clients) == traces
    assert all(clients[trace]["parent"] == servers[trace]["id"] for trace in traces)
    sent = {request.headers["traceparent"][3:52] for request in upstream.requests}
    assert sent == {f"{trace}-{clients[trace]['id']}" for trace in traces}


@pytest.mark.qa
@pytest.mark.parametrize("state", vary("hangs", "away"))
def test_a_collector_that_does_not_answer_harms_nothing(
    state: str, upstream: Upstream, tmp_path: Path, collector: Any
) -> None:
    hanging = type(collector).start("hang") if state == "hangs" else None
    endpoint = (hanging.url if hanging else "http://127.0.0.1:9") + "/v1"
    conf = f"""
plugins:
  openai: true
  otel: {{endpoint: "{endpoint}/traces", metrics_endpoint: "{endpoint}/metrics", logs_endpoint: "{endpoint}/logs",
         interval_seconds: 0.05, metrics_interval_seconds: 0.05, queue_spans: 10, propagate: false}}
providers: {{chat: {{plugin: openai, base_url: "{upstream.url}/v1", api_key: scripted-key-of-chat}}}}
models: {{of-chat: {{provider: chat, model: gpt-4o}}}}
keys: [{{name: ann, key: key-of-ann-0123456789, account: a}}]
"""
    upstream.script(answer(completion("Hi"), repeat=True))
    gateway = Gateway.start(conf, tmp_path)
    with httpx.Client(headers=HEADERS, trust_env=False, timeout=30) as client:
        for _ in range(50):
            assert client.post(gateway.url + "/v1/chat/completions", json=CHAT).status_code == 200
    assert all("traceparent" not in request.headers for request in upstream.requests)
    began = time.monotonic()
    output = gateway.stop()
    assert time.monotonic() - began < 10, output[-2000:]
    assert "Traceback" not in output
    if hanging is not None:
        assert hanging.read()["exports"] > 0
        hanging.child.stop()


def test_the_last_spans_are_sent_when_the_gateway_ends(upstream: Upstream, collector: Any, tmp_path: Path) -> None:
    conf = f"""
plugins: {{openai: true, otel: {{endpoint: "{collector.url}/v1/traces", interval_seconds: 60}}}}
providers: {{chat: {{plugin: openai, base_url: "{upstream.url}/v1", api_key: scripted-key-of-chat}}}}
models: {{of-chat: {{provider: chat, model: gpt-4o}}}}
keys: [{{name: ann, key: key-of-ann-0123456789, account: a}}]
"""
    upstream.script(answer(completion("Hi")))
    gateway = Gateway.start(conf, tmp_path)
    httpx.post(gateway.url + "/v1/chat/completions", json=CHAT, headers=HEADERS, trust_env=False)
    gateway.stop()
    assert len(collector.wait_for(2)) == 2
