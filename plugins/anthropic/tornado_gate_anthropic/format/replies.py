"""Responses of the common lane: stream events to one JSON body, or to server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import GateError
from tornado_gate.streams.events import close, render_events, render_json, render_single
from tornado_gate.types import Call, ChatRequest, ModelList, ModelsRequest, Reply, StreamEvent, TokenCount
from tornado_gate_anthropic.format.models import render_models
from tornado_gate_anthropic.format.thinking import MessagesState, omit_thinking
from tornado_gate_anthropic.wire.messages import MessagesStreamRenderer, render_error, render_frame, render_response

KEEP_ALIVE: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

JSON_TYPE: Final = "application/json"
EVENT_STREAM_TYPE: Final = "text/event-stream; charset=utf-8"


def render_error_frame(error: GateError, request_id: str) -> bytes:
    """Return the ``error`` event that ends a failed stream."""
    return sse.render_json(render_error(error, request_id), "error")


def make_chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a messages request. Its `model` is the name that the caller sent."""
    if isinstance(request.reply_state, MessagesState) and request.reply_state.omits_thinking:
        events = omit_thinking(events)
    envelope: dict[str, Any] = {"id": f"msg_{make_unique_id()[:24]}", "model": call.model or request.model}
    if request.stream:
        writer = MessagesStreamRenderer(**envelope)
        chunks = render_events(
            events,
            writer.append_frames,
            lambda: b"".join(map(render_frame, writer.end())),
            lambda error: render_error_frame(error, call.id),
        )
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=chunks, keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=render_json(events, partial(render_response, **envelope)))


def count_reply(events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a token count request."""
    return Reply(content_type=JSON_TYPE, chunks=render_single(events, TokenCount, _render_count))


def _render_count(count: TokenCount) -> bytes:
    return orjson.dumps({"input_tokens": count.input_tokens})


def make_models_reply(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a model list request."""
    return Reply(content_type=JSON_TYPE, chunks=_render_models(request, events))


async def _render_models(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        async for event in events:
            if isinstance(event, ModelList):
                yield orjson.dumps(render_models(event, request))
    finally:
        await close(events)
