"""Calls, and ways through the chunks of a stream, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from tornado_gate.errors import GateError
from tornado_gate.streams.events import OrderError, check_events
from tornado_gate.streams.events import collect as collect_events
from tornado_gate.testing import call_to, chat, iterate
from tornado_gate.types import Call, ChatRequest, ChatResult, Message, Part, StreamEvent, ToolResult
from tornado_gate_gemini.wire.generate import (
    MODERN_FEATURES,
    GeminiModelFeatures,
    parse_request,
    parse_stream,
    render_request,
    render_stream,
)


def call_for(strict: bool = False) -> Call:
    return call_to(model="m", upstream_model="up", strict=strict)


def parsed(body: dict[str, Any]) -> ChatRequest:
    return parse_request({"contents": [{"parts": [{"text": "Hi"}]}]} | body, model="m")


def rendered(request: ChatRequest, dialect: GeminiModelFeatures = MODERN_FEATURES) -> tuple[dict[str, Any], list[str]]:
    """The body, and what was lost."""
    call = call_for()
    return render_request(call, request, dialect=dialect), call.losses


def messages_of(*contents: dict[str, Any], **rest: Any) -> tuple[Message, ...]:
    return parsed({"contents": list(contents), **rest}).messages


def only_part(part: dict[str, Any]) -> Part:
    (message,) = messages_of({"role": "user", "parts": [part]})
    return message.parts[0]


def contents_of(
    *messages: Message, dialect: GeminiModelFeatures = MODERN_FEATURES
) -> tuple[list[dict[str, Any]], list[str]]:
    body, losses = rendered(chat(messages=messages), dialect)
    return body["contents"], losses


def user(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


def assistant(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def results(*parts: ToolResult) -> Message:
    return Message(role="tool", parts=parts)


def blamed(error: OrderError, what: str) -> GateError:
    raise AssertionError(what) from error


def chunks_of(events: Iterable[StreamEvent], include_thoughts: bool = True) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        chunks = render_stream(iterate(events), id="made", model="m", include_thoughts=include_thoughts)
        return [chunk async for chunk in chunks]

    return asyncio.run(collect())


def events_of(chunks: Iterable[Any]) -> list[StreamEvent]:
    async def collect() -> list[StreamEvent]:
        return [event async for event in check_events(parse_stream(iterate(chunks)), blamed)]

    return asyncio.run(collect())


def result_of(events: AsyncIterator[StreamEvent]) -> ChatResult:
    async def collect() -> ChatResult:
        return await collect_events(check_events(events, blamed))

    return asyncio.run(collect())


def parts_of(*parts: dict[str, Any], finish: str = "STOP") -> tuple[Any, ...]:
    """The parts of the only candidate after these pieces, one in each chunk."""
    chunks = [*(chunk(part) for part in parts), chunk(finishReason=finish)]
    return result_of(parse_stream(iterate(chunks))).choices[0].parts


def chunk(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "index": 0, **candidate}], "modelVersion": "m", "responseId": "r"}
