"""What the tests of this plugin share: calls, requests and a way through all hooks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tornado_gate_local as local
from tests.support.local_provider import call, make_call, refusal, work
from tornado_gate.streams.events import OrderChecker, collect
from tornado_gate.types import Call, ChatRequest, ChatResult, Message, StreamEvent, Text

__all__ = ["call", "make_call", "refusal", "work"]


@pytest.fixture
def chat() -> Callable[..., ChatRequest]:
    """A request of one user message, or of the `messages` given."""

    def make(text: str = "Tell me something.", **rest: Any) -> ChatRequest:
        rest.setdefault("messages", (Message(role="user", parts=(Text(text=text),)),))
        return ChatRequest(model="local-chat", **rest)

    return make


@pytest.fixture
def stream_events(call: Call) -> Callable[[ChatRequest], Awaitable[list[StreamEvent]]]:
    """All events of an answer, their order checked."""

    async def run(request: ChatRequest) -> list[StreamEvent]:
        outgoing = await local.translate_request(call, request)
        incoming = await local.call_upstream(call, outgoing)
        checker, found = OrderChecker(), []
        async for event in local.translate_response(call, request, incoming):
            checker.check(event)
            found.append(event)
        assert checker.is_complete()
        return found

    return run


@pytest.fixture
def ask(call: Call) -> Callable[[ChatRequest], Awaitable[ChatResult]]:
    """The whole answer, through all hooks."""

    async def run(request: ChatRequest) -> ChatResult:
        incoming = await local.call_upstream(call, await local.translate_request(call, request))
        return await collect(local.translate_response(call, request, incoming))

    return run
