"""The scripted upstream, and a gateway with chats of four vendors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

CONF = """
plugins:
  openai: true
  anthropic: true
  gemini: true
  cache: {{caches: {{chat: all, embeddings: all}}, answer_bytes: 100_000, models: ["of-*", embed]}}
providers:
  chat: {{plugin: openai, base_url: "{url}/chat/v1", api_key: scripted-key-of-chat}}
  responses: {{plugin: openai, base_url: "{url}/responses/v1", api_key: scripted-key-of-responses, api: responses}}
  messages: {{plugin: anthropic, base_url: "{url}", api_key: scripted-key-of-messages}}
  generate: {{plugin: gemini, base_url: "{url}", api_key: scripted-key-of-generate}}
models:
  of-chat: {{provider: chat, model: gpt-4o}}
  of-responses: {{provider: responses, model: gpt-5.2}}
  of-messages: {{provider: messages, model: claude-sonnet-4-5}}
  of-generate: {{provider: generate, model: gemini-3-pro-preview}}
  embed: {{provider: chat, model: text-embedding-3-small}}
  uncovered: {{provider: chat, model: gpt-4o}}
prices:
  gpt-4o: {{input: 2.5, output: 10}}
keys:
  - {{name: ann, key: key-of-ann-0123456789, account: a, role: administrator, tokens_per_minute: 1000000}}
  - {{name: amy, key: key-of-amy-0123456789, account: a}}
  - {{name: bob, key: key-of-bob-0123456789, account: b}}
"""


@pytest.fixture(scope="module")
def upstream_process() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture
def upstream(upstream_process: Upstream) -> Upstream:
    upstream_process.reset()
    return upstream_process


@pytest.fixture(scope="module")
def gateway(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    started = Gateway.start(CONF.format(url=upstream_process.url), tmp_path_factory.mktemp("gateway"))
    yield started
    started.stop()
