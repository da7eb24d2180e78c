"""A collector and the scripted upstream, each in a separate process, and a gateway between them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.process import Child
from tests.support.upstream import Upstream

CONF = """
plugins:
  openai: true
  anthropic: true
  gemini: true
  otel: {{endpoint: "{collector}/v1/traces", interval_seconds: 0.05, callers: true, headers: {{x-token: secret-of-the-collector}},
         resource: {{deployment.environment.name: test}}}}
providers:
  chat: {{plugin: openai, base_url: "{url}/chat/v1", api_key: scripted-key-of-chat}}
  second: {{plugin: openai, base_url: "{url}/second/v1", api_key: scripted-key-of-second}}
  responses: {{plugin: openai, base_url: "{url}/responses/v1", api_key: scripted-key-of-responses, api: responses}}
  messages: {{plugin: anthropic, base_url: "{url}", api_key: scripted-key-of-messages}}
  generate: {{plugin: gemini, base_url: "{url}", api_key: scripted-key-of-generate}}
models:
  of-chat: {{provider: chat, model: gpt-4o}}
  of-responses: {{provider: responses, model: gpt-5.2}}
  of-messages: {{provider: messages, model: claude-sonnet-4-5}}
  of-generate: {{provider: generate, model: gemini-3-pro-preview}}
  of-second: {{provider: second, model: gpt-4o-mini}}
  both: {{provider: chat, model: gpt-4o, fallback: [of-second]}}
keys:
  - {{name: ann, key: key-of-ann-0123456789, account: a}}
"""


@dataclass(frozen=True, slots=True)
class Collector:
    child: Child
    url: str

    @classmethod
    def start(cls, *arguments: str) -> Collector:
        child = Child([sys.executable, str(Path(__file__).with_name("otlp_collector.py")), *arguments])
        return cls(child, child.wait_for_line(r"serving (http://\S+)")[1])

    def read(self, count: int = 0) -> dict[str, Any]:
        """Return the received spans and errors, as soon as there are `count` spans."""
        response = httpx.get(f"{self.url}/spans", params={"count": count}, timeout=30, trust_env=False)
        received: dict[str, Any] = response.raise_for_status().json()
        return received

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """Return all spans, as soon as there are `count`, in the order of their begin."""
        spans: list[dict[str, Any]] = self.read(count)["spans"]
        assert len(spans) == count, [span["name"] for span in spans]
        return sorted(spans, key=lambda span: int(span["start"]))

    def read_kind(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Return the received `records` or `points`, as soon as there are `count`."""
        response = httpx.get(f"{self.url}/{kind}", params={"count": count}, timeout=30, trust_env=False)
        received: list[dict[str, Any]] = response.raise_for_status().json()[kind]
        return received

    def wait_for_names(self, *names: str) -> list[dict[str, Any]]:
        """Return all spans, as soon as there is a span of each of these names."""
        count = 0
        while True:
            spans: list[dict[str, Any]] = self.read(count)["spans"]
            if {span["name"] for span in spans} >= set(names):
                return spans
            count = len(spans) + 1

    def reset(self) -> None:
        httpx.delete(f"{self.url}/spans", trust_env=False).raise_for_status()


@pytest.fixture(scope="module")
def collector_process() -> Iterator[Collector]:
    started = Collector.start()
    yield started
    started.child.stop()


@pytest.fixture(scope="module")
def upstream_process() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture
def collector(collector_process: Collector) -> Collector:
    collector_process.reset()
    return collector_process


@pytest.fixture
def upstream(upstream_process: Upstream) -> Upstream:
    upstream_process.reset()
    return upstream_process


@pytest.fixture(scope="module")
def gateway(
    upstream_process: Upstream, collector_process: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    conf = CONF.format(url=upstream_process.url, collector=collector_process.url)
    started = Gateway.start(conf, tmp_path_factory.mktemp("gateway"))
    yield started
    started.stop()
