"""The scripted upstream, and gateways that redact requests and responses. `corpus_of_redact` becomes importable: this
folder is not a package, because the core's is called `tests` too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

sys.path.append(str(Path(__file__).parent))

CONF = """
plugins:
  openai: true
  anthropic: true
  gemini: true
  redact: {{required: true, {settings}}}
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
keys:
  - {{name: ann, key: key-of-ann-0123456789, account: a}}
"""


@pytest.fixture(scope="session")
def conf() -> str:
    """Return the configuration, with gaps for `url` and `settings`."""
    return CONF


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
def restoring(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Start a gateway with reversible marks."""
    conf = CONF.format(url=upstream_process.url, settings="restore: true")
    started = Gateway.start(conf, tmp_path_factory.mktemp("restoring"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def masking(upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Start a gateway with fixed marks, and a pattern in conf."""
    settings = 'mark: "<{kind}>", patterns: {employee: "EMP-[0-9]{6}"}'
    conf = CONF.replace("{settings}", settings.replace("{", "{{").replace("}", "}}")).format(url=upstream_process.url)
    started = Gateway.start(conf, tmp_path_factory.mktemp("masking"))
    yield started
    started.stop()
