"""Fixtures for the tests of the embedded provider and of its media: calls, and a way through all hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

import tornado_gate_local as local
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import OrderChecker
from tornado_gate.types import Call, Caller, Request, StreamEvent, Target


@pytest.fixture
def make_call() -> Callable[..., Call]:
    def make(*, strict: bool = False, pace_seconds: float = 0.0) -> Call:
        settings = local.LocalSettings(pace_seconds=pace_seconds)
        return Call(
            id="call-1",
            operation="chat",
            format="format-openai",
            model="local-chat",
            caller=Caller(id="key-1", account="dev"),
            target=Target(
                provider="local", plugin="local", model="local-chat", upstream_model="upstream-name", settings=settings
            ),
            strict=strict,
        )

    return make


@pytest.fixture
def call(make_call: Callable[..., Call]) -> Call:
    return make_call()


@pytest.fixture
def work(call: Call) -> Callable[..., Awaitable[list[StreamEvent]]]:
    """All events of an answer that is no chat, their order checked."""

    async def run(request: Request, call: Call = call) -> list[StreamEvent]:
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        checker, found = OrderChecker(), []
        async for event in local.translate_response(call, request, incoming):
            checker.check(event)
            found.append(event)
        assert checker.is_complete()
        return found

    return run


@pytest.fixture
def refusal(call: Call) -> Callable[[Request], Awaitable[InvalidField]]:
    """The error for a request that is refused before anything is made."""

    async def run(request: Request) -> InvalidField:
        with pytest.raises(InvalidField) as caught:
            await local.translate_request(call, request)
        return caught.value

    return run
