"""Replies of the common lane: events to a whole answer, or to server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.codec.ids import unique
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams.events import close, collected, rendered
from tornado_gate.types import Call, ChatRequest, ModelList, ModelsRequest, Reply, StreamEvent, TokenCount
from tornado_gate.wire.anthropic_messages import StreamWriter, as_frame, render_error, render_response
from tornado_gate_format_anthropic.models import render_models

KEEP_ALIVE: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream; charset=utf-8"


def error_frame(error: GateError, request_id: str) -> bytes:
    """The event that ends a stream which failed."""
    return sse.render_json(render_error(error, request_id), "error")


def chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a messages request, under the name of the model that the caller asked for."""
    envelope: dict[str, Any] = {"id": f"msg_{unique()[:24]}", "model": call.model or request.model}
    if request.stream:
        writer = StreamWriter(**envelope)
        chunks = rendered(
            events,
            writer.frames,
            lambda: b"".join(map(as_frame, writer.end())),
            lambda error: error_frame(error, call.id),
        )
        return Reply(content_type=EVENTS, chunks=chunks, keep_alive=KEEP_ALIVE)
    whole = collected(events, lambda result: orjson.dumps(render_response(result, **envelope)))
    return Reply(content_type=JSON, chunks=whole)


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
        await close(events)
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
        await close(events)
