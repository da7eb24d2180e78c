"""Replies of the common lane: events to a whole answer, or to server-sent chunks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.codec.ids import unique
from tornado_gate.errors import GateError
from tornado_gate.streams.events import collected, rendered
from tornado_gate.types import Call, ChatRequest, ModelList, Reply, StreamEvent
from tornado_gate.wire.openai_chat import ChunkWriter, render_response
from tornado_gate_format_openai.models import render_models

DONE: Final = sse.render(b"[DONE]")
KEEP_ALIVE: Final = b": ping\n\n"

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream; charset=utf-8"


def error_frame(error: GateError) -> bytes:
    """The frame that ends a stream which failed. No ``[DONE]`` follows it."""
    return sse.render_json({"error": error.body()})


def chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a chat request, under the name of the model that the caller asked for."""
    envelope: dict[str, Any] = {
        "id": f"chatcmpl-{unique()}",
        "model": call.model or request.model,
        "created": int(time.time()),
    }
    if request.stream:
        writer = ChunkWriter(include_usage=request.include_usage is True, **envelope)
        chunks = rendered(
            events, writer.frames, lambda: b"".join([*map(sse.render_json, writer.last()), DONE]), error_frame
        )
        return Reply(content_type=EVENTS, chunks=chunks, keep_alive=KEEP_ALIVE)
    whole = collected(events, lambda result: orjson.dumps(render_response(result, **envelope)))
    return Reply(content_type=JSON, chunks=whole)


def sent(chunks: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Chunks as frames, with what ends them.

    A failure before the first chunk is raised and keeps its status; a later one is the last frame.
    """
    return rendered(chunks, _frames, lambda: DONE, error_frame)


def _frames(chunks: list[dict[str, Any]], out: list[bytes]) -> None:
    out.extend(map(sse.render_json, chunks))


def models_reply(events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply to a models request."""
    return Reply(content_type=JSON, chunks=_models(events))


async def _models(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, ModelList):
            yield orjson.dumps(render_models(event))
