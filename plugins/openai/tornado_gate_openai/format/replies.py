"""Responses of the common lane: stream events to one JSON body, or to server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import GateError
from tornado_gate.streams.events import render_events, render_json
from tornado_gate.types import Call, ChatRequest, ModelList, Reply, StreamEvent
from tornado_gate.wire.server_tools import may_cite
from tornado_gate_openai.format.models import render_models
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.wire.chat import ChatStreamRenderer, is_legacy, mark_legacy_call, render_response

DONE_FRAME: Final = sse.render(b"[DONE]")

JSON_TYPE: Final = "application/json"
EVENT_STREAM_TYPE: Final = "text/event-stream; charset=utf-8"


def render_error_frame(error: GateError) -> bytes:
    """Return the frame that ends a failed stream. No ``[DONE]`` follows it."""
    return sse.render_json({"error": error.body()})


def make_chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a chat request. Its `model` is the name that the caller sent."""
    envelope: dict[str, Any] = {
        "id": f"chatcmpl-{make_unique_id()}",
        "model": call.model or request.model,
        "created": int(time.time()),
    }
    if is_legacy(request):
        events = mark_legacy_call(events)
    if request.stream:
        usage = request.include_usage is True
        writer = ChatStreamRenderer(include_usage=usage, cites=may_cite(request), **envelope)
        chunks = render_events(
            events,
            writer.append_frames,
            lambda: b"".join([*map(sse.render_json, writer.render_last()), DONE_FRAME]),
            render_error_frame,
        )
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=chunks, keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=render_json(events, partial(render_response, **envelope)))


def stream_frames(chunks: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Render chunks as frames, followed by ``[DONE]``.

    A failure before the first chunk is raised and keeps its status; a later one is the last frame.
    """
    return render_events(chunks, _append_frames, lambda: DONE_FRAME, render_error_frame)


def _append_frames(chunks: list[dict[str, Any]], out: list[bytes]) -> None:
    out.extend(map(sse.render_json, chunks))


def make_models_reply(events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a model list request."""
    return Reply(content_type=JSON_TYPE, chunks=_render_models(events))


async def _render_models(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, ModelList):
            yield orjson.dumps(render_models(event))
