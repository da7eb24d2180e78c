"""Replies of the common lane: events to a whole answer, or to server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import uuid4

import orjson

from tornado_gate import sse, stream
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.types import Call, ChatRequest, ModelList, ModelsRequest, Reply, StreamEvent, TokenCount
from tornado_gate.wire.anthropic_messages import StreamWriter, render_error, render_response
from tornado_gate_format_anthropic.models import render_models

KEEP_ALIVE: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream; charset=utf-8"


def error_frame(error: GateError, request_id: str) -> bytes:
    """The event that ends a stream which failed."""
    return sse.render_json(render_error(error, request_id), "error")


def chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a messages request, under the name of the model that the caller asked for."""
    envelope: dict[str, Any] = {"id": f"msg_{uuid4().hex[:24]}", "model": call.model or request.model}
    if request.stream:
        return Reply(content_type=EVENTS, chunks=_stream(call, events, envelope), keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON, chunks=_whole(events, envelope))


async def _whole(events: AsyncIterator[StreamEvent], envelope: dict[str, Any]) -> AsyncIterator[bytes]:
    try:
        result = await stream.collect(events)
    finally:
        await stream.close(events)
    yield orjson.dumps(render_response(result, **envelope))


async def _stream(call: Call, events: AsyncIterator[StreamEvent], envelope: dict[str, Any]) -> AsyncIterator[bytes]:
    """What one event becomes is one chunk: each chunk is written by itself."""
    begun = False
    writer = StreamWriter(**envelope)
    try:
        try:
            async for event in events:
                if values := writer.write(event):
                    begun = True
                    yield _frames(values)
        finally:
            await stream.close(events)
        yield _frames(writer.end())
    except GateError as error:
        if not begun:
            raise
        yield error_frame(error, call.id)


def _frames(values: list[dict[str, Any]]) -> bytes:
    return b"".join([sse.render_json(value, value["type"]) for value in values])


def count_reply(events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a request for a token count."""
    return Reply(content_type=JSON, chunks=_count(events))


async def _count(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            if isinstance(event, TokenCount):
                yield orjson.dumps({"input_tokens": event.input_tokens})
                return
    finally:
        await stream.close(events)
    raise UpstreamError("The upstream did not say how many tokens there are.")


def models_reply(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a models request."""
    return Reply(content_type=JSON, chunks=_models(request, events))


async def _models(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            if isinstance(event, ModelList):
                yield orjson.dumps(render_models(event, request))
    finally:
        await stream.close(events)
