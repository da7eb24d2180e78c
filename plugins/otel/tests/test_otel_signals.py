"""Metrics and log records as a collector in another process receives them, by the conventions for generative AI."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Upstream, answer, sse
from tornado_gate.types import Usage
from tornado_gate_otel.measurements import MAX_MODELS, SECONDS, TOKENS, Measurements
from tornado_gate_otel.records import RecordHandler

HEADERS = {"authorization": "Bearer key-of-ann-0123456789"}
CHAT = {"model": "of-chat", "messages": [{"role": "user", "content": "a text that no record may hold"}]}
KEY = "vendors-own-key-of-the-account-0123456789"
CONF = """
plugins:
  openai: true
  otel: {{endpoint: "{collector}/v1/traces", metrics_endpoint: "{collector}/v1/metrics", logs_endpoint: "{collector}/v1/logs",
         interval_seconds: 0.05, metrics_interval_seconds: 0.05, sample: {sample}}}
providers: {{chat: {{plugin: openai, base_url: "{url}/v1", api_key: {key}}}}}
models:
  of-chat: {{provider: chat, model: gpt-4o}}
  of-vectors: {{provider: chat, model: text-embedding-3-small}}
keys: [{{name: ann, key: key-of-ann-0123456789, account: a}}]
"""
Start = Callable[..., Gateway]


@pytest.fixture
def start(upstream: Upstream, collector: Any, tmp_path: Path) -> Iterator[Start]:
    started: list[Gateway] = []

    def start_gateway(sample: float = 1) -> Gateway:
        conf = CONF.format(url=upstream.url, collector=collector.url, sample=sample, key=KEY)
        started.append(Gateway.start(conf, tmp_path))
        return started[-1]

    yield start_gateway
    for gateway in started:
        gateway.stop()


def post(gateway: Gateway, path: str, body: Any) -> httpx.Response:
    return httpx.post(gateway.url + path, json=body, headers=HEADERS, timeout=30, trust_env=False)


def test_requests_are_measured_even_if_their_trace_is_not_recorded(
    start: Start, upstream: Upstream, collector: Any
) -> None:
    gateway = start(sample=0)
    words = sse(chunk(content="Hello"), chunk(reason="stop"), usage_chunk(), DONE)
    vectors = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
    upstream.script(
        answer(completion("Hi")),
        answer(words),
        answer('{"error": {"message": "busy"}}', status=503),
        answer(json.dumps({**vectors, "usage": {"prompt_tokens": 3, "total_tokens": 3}})),
    )
    statuses = [
        post(gateway, "/v1/chat/completions", CHAT | {"stream": streamed}).status_code for streamed in (False, True)
    ]
    statuses.append(post(gateway, "/v1/chat/completions", CHAT).status_code)
    statuses.append(post(gateway, "/v1/embeddings", {"model": "of-vectors", "input": "text"}).status_code)
    assert statuses == [200, 200, 503, 200]
    gateway.stop()  # the last metrics are sent at the end
    points = {
        (point["name"], point["attributes"].get("error.type", "")): point for point in collector.read_kind("points", 1)
    }
    assert collector.read()["spans"] == []
    port = int(upstream.url.rpartition(":")[2])
    chat = {
        **{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"},
        **{"server.address": "127.0.0.1", "server.port": port, "tornado_gate.provider": "chat"},
    }
    duration = points["gen_ai.client.inference.duration", ""]
    assert (duration["attributes"], duration["count"], duration["unit"]) == (chat, 2, "s")
    assert 0 < duration["value"] < 30
    assert duration["bounds"] == list(SECONDS)
    failed = points["gen_ai.client.inference.duration", "upstream_overloaded"]
    assert (failed["count"], failed["attributes"]) == (1, chat | {"error.type": "upstream_overloaded"})
    first_chunk = points["gen_ai.client.inference.time_to_first_chunk", ""]
    assert (first_chunk["count"], first_chunk["attributes"]) == (1, chat)

    used = points["gen_ai.client.inference.usage.input_tokens", ""]
    assert (used["value"], used["monotonic"], used["unit"]) == (18, True, "{token}")
    assert used["attributes"] == chat | {"gen_ai.token.modality": "unknown"}
    sizes = points["gen_ai.client.inference.operation.output_tokens", ""]
    assert (sizes["value"], sizes["count"], sizes["bounds"]) == (8, 3, list(TOKENS))
    embeddings = points["gen_ai.client.embeddings.operation.input_tokens", ""]
    assert (embeddings["value"], embeddings["attributes"]["gen_ai.request.model"]) == (3, "text-embedding-3-small")
    assert points["gen_ai.client.embeddings.duration", ""]["count"] == 1
    assert used["service"]["service.name"] == "tornado-gate"
    assert len(used["service"]["service.instance.id"]) == 36


def test_each_request_has_a_record_with_its_trace_and_the_log_is_sent(
    start: Start, upstream: Upstream, collector: Any
) -> None:
    gateway = start()
    upstream.script(answer(completion("Hi")), answer(json.dumps({"error": {"message": f"no {KEY}"}}), status=500))
    first = post(gateway, "/v1/chat/completions", CHAT)
    assert post(gateway, "/v1/chat/completions", CHAT).status_code >= 500
    gateway.stop()
    spans = {span["attributes"].get("tornado_gate.request_id"): span for span in collector.wait_for(4)}
    records = collector.read_kind("records", 3)
    served, failed = (record for record in records if record["event"] == "tornado_gate.request")
    span = spans[first.headers["x-request-id"]]
    assert (served["trace"], served["span"], served["severity"]) == (span["trace"], span["id"], "INFO")
    assert served["body"] == "POST /v1/chat/completions 200"
    seconds = served["attributes"].pop("tornado_gate.seconds")
    assert served["attributes"] == span["attributes"]
    assert 0 < seconds < 30
    assert (failed["severity"], failed["attributes"]["tornado_gate.outcome"]) == ("ERROR", "failed")
    (logged,) = [record for record in records if record["body"].startswith("target failed")]
    assert logged["attributes"]["logger.name"] == "tornado_gate.targets.outcomes"
    assert logged["attributes"]["tornado_gate.provider"] == "chat"
    text = json.dumps(records)
    for secret in (KEY, "key-of-ann-0123456789", "no record may hold"):
        assert secret not in text, secret


def test_without_their_endpoints_neither_metrics_nor_logs_are_loaded() -> None:
    code = (
        "import sys, tornado_gate_otel as otel; plugin = otel.OpenTelemetry(); plugin._exporting.tracer; "
        "print([name for name in sys.modules if 'otel.measurements' in name or 'otel.records' in name "
        "or 'metric_exporter' in name or '_log_exporter' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def read_points(reader: InMemoryMetricReader) -> dict[tuple[str, str, str], Any]:
    data: Any = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    return {
        (
            metric.name,
            point.attributes["gen_ai.request.model"],
            point.attributes.get("gen_ai.token.modality", ""),
        ): point
        for metric in metrics
        for point in metric.data.data_points
    }


def describe(model: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "tornado_gate.provider": "chat",
    }


def test_names_that_callers_choose_make_a_bounded_number_of_series() -> None:
    reader = InMemoryMetricReader()
    measurements = Measurements(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    for number in range(MAX_MODELS + 50):
        measurements.record_duration(describe(f"m{number}"), 1.0, f"error {number}")
    points = read_points(reader)
    assert len({model for _, model, _ in points}) == MAX_MODELS + 1
    assert points["gen_ai.client.inference.duration", "other", ""].count == 50


def test_tokens_are_divided_by_what_they_stand_for() -> None:
    reader = InMemoryMetricReader()
    measurements = Measurements(MeterProvider([reader], shutdown_on_exit=False).get_meter("test"))
    usage = Usage(input_tokens=100, output_tokens=7, audio_input_tokens=30, image_tokens=20, cache_read_tokens=40)
    measurements.record_usage(describe("m"), usage)
    measurements.record_usage(describe("silent"), None)
    counts = {
        (name.removeprefix("gen_ai.client.inference.usage."), model, modality): point.value
        for (name, model, modality), point in read_points(reader).items()
        if ".usage." in name
    }
    assert counts == {
        ("input_tokens", "m", "audio"): 30,
        ("input_tokens", "m", "image"): 20,
        ("input_tokens", "m", "text"): 50,
        ("output_tokens", "m", "unknown"): 7,
        ("cache_read.input_tokens", "m", "unknown"): 40,
        ("input_tokens", "silent", "unknown"): 0,
        ("output_tokens", "silent", "unknown"): 0,
    }


def test_a_record_that_cannot_be_sent_harms_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def emit(self, _: Any) -> None:
            raise RuntimeError

    handler = RecordHandler(Broken(), logging.INFO)  # type: ignore[arg-type]
    handler.handle(logging.LogRecord("tornado_gate", logging.INFO, "", 0, "text %s", ("x",), None))
    assert capsys.readouterr().err == ""
