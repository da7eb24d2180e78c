"""Calls, and ways through the events of a stream, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.streams.events import OrderError, check_events
from tornado_gate.streams.events import collect as collect_events
from tornado_gate.testing import call_to, iterate, target_of
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    Message,
    Part,
    ResponseStart,
    StreamEvent,
    Text,
)
from tornado_gate_anthropic.wire.messages import parse_stream, render_stream


def call_for(model: str = "up", strict: bool = False, **facts: Any) -> Call:
    return call_to(model="m", strict=strict, target=target_of(upstream_model=model, facts=facts))


def message(role: Any, *parts: Part | str, **rest: Any) -> Message:
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts), **rest)


def foreign(*messages: Message, **fields: Any) -> ChatRequest:
    """A request that came in another format."""
    return ChatRequest(model="m", messages=messages or (message("user", "Hi"),), wire_format="openai-chat", **fields)


def blamed(error: OrderError, what: str) -> GateError:
    raise AssertionError(what) from error


def events_of(frames: Iterable[Any]) -> list[StreamEvent]:
    """Our events for the upstream's, their order checked."""

    async def collect() -> list[StreamEvent]:
        return [event async for event in check_events(parse_stream(iterate(frames)), blamed)]

    return asyncio.run(collect())


def rendered(events: Iterable[StreamEvent]) -> list[dict[str, Any]]:
    """The format's events for ours."""

    async def collect() -> list[dict[str, Any]]:
        return [value async for value in render_stream(iterate(events), id="msg_made", model="m")]

    return asyncio.run(collect())


def result_of(events: Iterable[StreamEvent]) -> ChatResult:
    async def collect() -> ChatResult:
        return await collect_events(check_events(iterate(events), blamed))

    return asyncio.run(collect())


START = ResponseStart(model="m", id="msg_1")
MESSAGE_START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
}
MESSAGE_STOP = {"type": "message_stop"}


REQUIRED_BLOCK_MEMBERS: dict[str, dict[str, Any]] = {
    "text": {"citations": None},
    "tool_use": {"caller": {"type": "direct"}},
}
UNKNOWN_USAGE: dict[str, Any] = {
    "cache_creation": None,
    "cache_creation_input_tokens": None,
    "cache_read_input_tokens": None,
    "inference_geo": None,
    "output_tokens_details": None,
    "server_tool_use": None,
    "service_tier": None,
    "speed": None,
}
"""The members of a usage that has nothing but the input and output tokens (@anthropic-ai/sdk 1.11, `Usage`)."""

UNKNOWN_DELTA_USAGE: dict[str, Any] = dict.fromkeys(
    ("cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens_details", "server_tool_use")
)
"""The same for the usage of ``message_delta`` (`MessageDeltaUsage`)."""


def opened(index: int, **block: Any) -> dict[str, Any]:
    block |= REQUIRED_BLOCK_MEMBERS.get(block["type"], {})
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def closed(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def stopped(reason: str | None = "end_turn", output_tokens: int = 5, **delta: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None, **delta},
        "usage": {"output_tokens": output_tokens},
    }
