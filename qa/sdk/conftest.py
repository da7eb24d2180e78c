"""One gateway for all SDK tests, and what the tests of every language ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.aimock import Aimock
from tests.support.gateway import Gateway
from tests.support.upstream import Upstream

KEY = "test-key-of-the-sdk-tests"

# Each target has a circuit of its own: what fails on purpose is asked under a name of its own ("mock/…", "scripted/…").
CONF = """
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
providers:
  local: {{plugin: local}}
  mock: {{plugin: openai, base_url: "{aimock}/v1", api_key: "{aimock_key}"}}
  scripted: {{plugin: openai, base_url: "{scripted}/v1", api_key: scripted-key}}
  mock-claude: {{plugin: anthropic, base_url: "{aimock}", api_key: "{aimock_key}"}}
  scripted-claude: {{plugin: anthropic, base_url: "{scripted}", api_key: scripted-key}}
  mock-gemini: {{plugin: gemini, base_url: "{aimock}", api_key: "{aimock_key}"}}
  scripted-gemini: {{plugin: gemini, base_url: "{scripted}", api_key: scripted-key}}
models:
  local-chat: {{provider: local}}
  mock-gpt: {{provider: mock, model: gpt-4o}}
  "mock/*": {{provider: mock}}
  "scripted/*": {{provider: scripted}}
  mock-claude: {{provider: mock-claude, model: claude-sonnet-4-5}}
  "mock-claude/*": {{provider: mock-claude}}
  "scripted-claude/*": {{provider: scripted-claude}}
  mock-gemini: {{provider: mock-gemini, model: gemini-2.5-pro}}
  "mock-gemini/*": {{provider: mock-gemini}}
  "scripted-gemini/*": {{provider: scripted-gemini}}
keys:
  - {{name: test, key: "{key}"}}
"""


@pytest.fixture(scope="session")
def gateway(aimock: Aimock, upstream_process: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that serves ``local-chat``, aimock by each of its surfaces, and the scripted upstream by each.

    ``mock-gpt`` and ``mock/*`` are aimock's format O, ``mock-claude`` its A, ``mock-gemini`` its G; so with ``scripted``.
    """
    conf = CONF.format(aimock=aimock.url, aimock_key=aimock.key, scripted=upstream_process.url, key=KEY)
    started = Gateway.start(conf, tmp_path_factory.mktemp("gateway"))
    yield started
    started.stop()


@pytest.fixture(params=["local-chat", "mock-gpt"])
def model(request: pytest.FixtureRequest) -> str:
    """A model of the embedded provider, then one of an independent upstream."""
    name: str = request.param
    return name
