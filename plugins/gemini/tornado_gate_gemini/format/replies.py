"""Responses of the common lane: stream events to one JSON body, to server-sent events, or to a streamed JSON array."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import GateError
from tornado_gate.streams.events import close, render_events, render_json, render_single
from tornado_gate.types import (
    Call,
    ChatRequest,
    CommonRequest,
    ModelList,
    ModelsRequest,
    Reply,
    StreamEvent,
    TokenCount,
)
from tornado_gate.types.value import Value
from tornado_gate.wire.server_tools import may_cite
from tornado_gate_gemini.format.envelope import render_error_body, render_error_frame
from tornado_gate_gemini.format.models import render_models
from tornado_gate_gemini.format.paths import KEEP_ALIVE
from tornado_gate_gemini.wire.generate import render_response, render_stream

JSON_TYPE: Final = "application/json"
EVENT_STREAM_TYPE: Final = "text/event-stream; charset=utf-8"

ARRAY_KEEP_ALIVE: Final = b"\n"
"""A separate chunk after each array element. The core writes a chunk when the next one arrives, so this flushes the element."""


class StreamState(Value, frozen=True, kw_only=True):
    """Response state: whether the response is a stream of chunks, and whether these are server-sent events."""

    in_chunks: bool = False
    sse_wanted: bool = False


def get_stream_state(request: CommonRequest) -> StreamState:
    """Return the stream state of `request`; the default state when another plugin made the request."""
    state = request.reply_state
    return state if isinstance(state, StreamState) else StreamState()


def make_chat_reply(call: Call, request: ChatRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a generate request. Its `modelVersion` is the model name that the caller sent."""
    shown = request.reasoning is not None and request.reasoning.summary is not None
    envelope: dict[str, Any] = {
        "id": make_unique_id(),
        "model": call.model or request.model,
        "include_thoughts": shown,
    }
    if not request.stream:
        return Reply(content_type=JSON_TYPE, chunks=render_json(events, partial(render_response, **envelope)))
    chunks = render_stream(events, cites=may_cite(request), **envelope)
    return make_stream_reply(call, chunks, sse_wanted=get_stream_state(request).sse_wanted)


def _append_frames(chunks: list[dict[str, Any]], out: list[bytes]) -> None:
    out.extend(map(sse.render_json, chunks))


async def _stream_array(call: Call, chunks: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Yield a JSON array. A failure before the first chunk is raised and keeps its status; a later one is the last element."""
    begun = False
    try:
        async for chunk in chunks:
            yield (b"," if begun else b"[") + orjson.dumps(chunk)
            yield ARRAY_KEEP_ALIVE
            begun = True
    except GateError as error:
        if not begun:
            raise
        yield b"," + render_error_body(call, error)
    finally:
        await close(chunks)
    yield b"]"


def make_stream_reply(call: Call, chunks: AsyncIterator[dict[str, Any]], *, sse_wanted: bool) -> Reply:
    """Return a response that streams chunks: server-sent events when `sse_wanted`, else a JSON array."""
    if sse_wanted:
        frames = render_events(chunks, _append_frames, bytes, partial(render_error_frame, call))
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=frames, keep_alive=KEEP_ALIVE)
    return Reply(content_type=JSON_TYPE, chunks=_stream_array(call, chunks))


def count_reply(events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a token count request."""
    return Reply(content_type=JSON_TYPE, chunks=render_single(events, TokenCount, _render_count))


_COUNT_EXTRA: Final = ("cachedContentTokenCount", "promptTokensDetails", "cacheTokensDetails")


def _render_count(count: TokenCount) -> bytes:
    extra = {name: count.extra[name] for name in _COUNT_EXTRA if name in count.extra}
    return orjson.dumps({"totalTokens": count.input_tokens, **extra})


def make_models_reply(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a model list request."""
    return Reply(content_type=JSON_TYPE, chunks=_render_models(request, events))


async def _render_models(request: ModelsRequest, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, ModelList):
            yield orjson.dumps(render_models(event, request))
