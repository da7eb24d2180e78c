"""What the tests of this plugin share: entries, and calls to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tornado_gate_anthropic.provider as plugin
from tornado_gate import ProviderEntry
from tornado_gate.types import Call, Caller, ChatRequest, Message, Target, Text

BASE = "https://upstream.test"


@pytest.fixture
def entry() -> Callable[..., ProviderEntry]:
    def make(base_url: str = BASE, api_key: str = "upstream-key", **settings: Any) -> ProviderEntry:
        return ProviderEntry(name="ours", base_url=base_url, api_key=api_key, settings=settings)

    return make


@pytest.fixture
def call(entry: Callable[..., ProviderEntry]) -> Callable[..., Call]:
    """A call to an entry with these settings; the arguments that are named here are no settings."""

    def make(
        *,
        strict: bool = False,
        headers: dict[str, str] | None = None,
        callers: dict[str, str] | None = None,
        api_key: str = "upstream-key",
        upstream_model: str = "claude-sonnet-4-5",
        facts: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Call:
        configured = entry(api_key=api_key, **settings)
        capabilities = plugin.configure(configured)
        assert capabilities.base_url is not None
        target = Target(
            provider=configured.name,
            plugin="anthropic",
            model="sonnet",
            upstream_model=upstream_model,
            base_url=capabilities.base_url,
            api_key=configured.api_key,
            headers=headers or {},
            settings=capabilities.settings,
            facts=facts or {},
        )
        return Call(
            id="r1",
            operation="chat",
            format="any",
            model="sonnet",
            caller=Caller(id="key_1", account="a"),
            target=target,
            strict=strict,
            headers=callers or {},
        )

    return make


@pytest.fixture
def chat() -> Callable[..., ChatRequest]:
    def make(role: Any = "user", **rest: Any) -> ChatRequest:
        return ChatRequest(model="sonnet", messages=(Message(role=role, parts=(Text(text="Hi"),)),), **rest)

    return make
