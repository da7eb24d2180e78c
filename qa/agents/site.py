"""The mock upstreams and a gateway in front of them, each in a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qa.agents.upstream_server import UPSTREAM_KEY
from tests.support.gateway import Gateway
from tests.support.process import Child

KEY = "gateway-key-of-the-agent-tests"
UPSTREAMS = ("openai", "compatible", "anthropic", "gemini")
"""Kinds of upstreams: OpenAI's Responses API, a chat completions API with ``reasoning_content``, Anthropic, Gemini."""
MODELS: Mapping[str, Mapping[str, str]] = {
    "": {"openai": "gpt-6-sol", "compatible": "qwen3.6-plus", "anthropic": "claude-opus-5-5", "gemini": "gemini-3.8-flash"},
    "claude": {
        "openai": "claude-sonnet-5-5", "compatible": "claude-haiku-5-5",
        "anthropic": "claude-opus-5-5", "gemini": "claude-opus-5",
    },
    "gpt": {"openai": "gpt-6-sol", "compatible": "gpt-6-luna", "anthropic": "gpt-6-astra", "gemini": "gpt-5.6-sol"},
    "gemini": {
        "openai": "gemini-3.9-openai", "compatible": "gemini-3.9-qwen",
        "anthropic": "gemini-3.9-claude", "gemini": "gemini-3.8-flash",
    },
}  # fmt: skip
"""By the family of the names: the name that the agent asks, for each upstream. "" are the upstreams' own names.

Agents decide by the name what they send: with the names of their own vendor they use everything that its API has.
"""
CONF = """
plugins: {{openai: true, anthropic: true, gemini: true}}
providers:
  openai: {{plugin: openai, base_url: "{url}/v1", api_key: {upstream_key}, openai_models: true}}
  compatible:
    plugin: openai
    base_url: "{url}/compatible/v1"
    api_key: {upstream_key}
    model_rules: {{"*": {{reasoning_content: true}}}}
  anthropic: {{plugin: anthropic, base_url: "{url}", api_key: {upstream_key}}}
  gemini: {{plugin: gemini, base_url: "{url}", api_key: {upstream_key}}}
models: {models}
keys: [{{name: agent, key: {key}}}]
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Running processes. `url` is the gateway's, without a path."""

    upstream_url: str
    gateway: Gateway

    @property
    def url(self) -> str:
        return self.gateway.url

    def begin(self, scenario: str, folder: Path) -> None:
        """Tell the mock what is run; forget what it has seen."""
        self._control({"scenario": scenario, "folder": str(folder)})

    def seen(self) -> dict[str, Any]:
        """``faults`` and ``requests`` (path, headers, body) since `begin`."""
        return self._control(None)

    def _control(self, order: dict[str, Any] | None) -> dict[str, Any]:
        data = None if order is None else json.dumps(order).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.upstream_url}/__control", data, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


def _list_models() -> dict[str, dict[str, str]]:
    names = {names[kind]: kind for names in MODELS.values() for kind in UPSTREAMS}
    return {name: {"provider": kind, "model": MODELS[""][kind]} for name, kind in names.items()}


@contextlib.contextmanager
def running_site(folder: Path) -> Iterator[Site]:
    """Start the upstreams and the gateway; both are stopped at the end."""
    upstream = Child([sys.executable, "-m", "qa.agents.upstream_server"])
    try:
        url = upstream.wait_for_line(r"serving (http://\S+)")[1]
        conf = CONF.format(url=url, key=KEY, upstream_key=UPSTREAM_KEY, models=json.dumps(_list_models()))
        gateway = Gateway.start(conf, folder)
        try:
            yield Site(url, gateway)
        finally:
            gateway.stop()
    finally:
        upstream.stop()
