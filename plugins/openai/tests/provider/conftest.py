"""What the tests of this plugin share: entries, calls to them, and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tornado_gate_openai.provider as plugin
from tests.support.upstream import Upstream
from tornado_gate import ProviderEntry
from tornado_gate.types import Call, Caller, ChatRequest, Message, Target, Text

BASE = "https://upstream.test/v1"


@pytest.fixture(scope="session")
def upstream_process() -> Iterator[Upstream]:
    started = Upstream.start()
    yield started
    started.stop()


@pytest.fixture
def upstream(upstream_process: Upstream) -> Upstream:
    """The scripted upstream, in a process of its own, with nothing in its script and its records."""
    upstream_process.reset()
    return upstream_process


@pytest.fixture
def entry() -> Callable[..., ProviderEntry]:
    def make(base_url: str = BASE, api_key: str = "upstream-key", **settings: Any) -> ProviderEntry:
        return ProviderEntry(name="ours", base_url=base_url, api_key=api_key, settings=settings)

    return make


@pytest.fixture
def call(entry: Callable[..., ProviderEntry]) -> Callable[..., Call]:
    """A call to an entry with these settings; what is named in the signature is no setting."""

    def make(
        *,
        strict: bool = False,
        headers: dict[str, str] | None = None,
        api_key: str = "upstream-key",
        upstream_model: str = "gpt-4o",
        fetcher: Any = None,
        **settings: Any,
    ) -> Call:
        configured = entry(api_key=api_key, **settings)
        capabilities = plugin.configure(configured)
        assert capabilities.base_url is not None
        target = Target(
            provider=configured.name,
            plugin="openai",
            model="gpt",
            upstream_model=upstream_model,
            base_url=capabilities.base_url,
            api_key=configured.api_key,
            headers=headers or {},
            settings=capabilities.settings,
        )
        caller = Caller(id="key_1", account="a")
        return Call(
            id="r1",
            operation="any",
            format="any",
            model="gpt",
            caller=caller,
            target=target,
            strict=strict,
            fetcher=fetcher,
        )

    return make


@pytest.fixture
def chat() -> Callable[..., ChatRequest]:
    def make(role: Any = "user", **rest: Any) -> ChatRequest:
        return ChatRequest(model="gpt", messages=(Message(role=role, parts=(Text(text="Hi"),)),), **rest)

    return make
