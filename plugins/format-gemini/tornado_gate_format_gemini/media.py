"""Generate requests to models that make pictures or speech and cannot chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.codec.ids import unique
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.streams.events import close, single
from tornado_gate.types import Call, ImageRequest, ImageResult, Reply, SpeechRequest, StreamEvent, WireRequest
from tornado_gate.types.value import replace
from tornado_gate.wire.gemini_generate import (
    parse_images,
    parse_speech,
    render_images,
    render_speech,
    stream_images,
    stream_speech,
)
from tornado_gate_format_gemini.replies import JSON, StreamState, chunks_reply, stream_state


async def picture_request(call: Call, wire: WireRequest, state: StreamState) -> ImageRequest:
    """The common request in a checked body. Raises InvalidField, for a picture that is none too.

    Its `stream` stays false: pictures that are not finished have no place in this format.
    """
    parsed = parse_images(call, wire.json, model=wire.path_arguments["model"])
    request = parsed.request
    if call.operation == "image_edits" and not request.images:
        name = request.field_name("images")
        raise InvalidField(name, f"'{name}' must hold a picture: the model '{call.model}' only changes those.")
    for path, source in zip(parsed.paths, request.images, strict=True):
        await pictures.check(source, path)
    return replace(request, reply_state=state)


def spoken_request(call: Call, wire: WireRequest, state: StreamState) -> SpeechRequest:
    """The common request in a checked body. Raises InvalidField."""
    request = parse_speech(call, wire.json, model=wire.path_arguments["model"], stream=state.in_chunks)
    return replace(request, reply_state=state)


def _envelope(call: Call, request: ImageRequest | SpeechRequest) -> dict[str, Any]:
    return {"id": unique(), "model": call.model or request.model}


def picture_reply(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply with pictures."""
    envelope = _envelope(call, request)
    state = stream_state(request)
    if state.in_chunks:
        return chunks_reply(call, _picture_chunks(events, envelope), sse_wanted=state.sse_wanted)
    return Reply(content_type=JSON, chunks=_pictures(events, envelope))


async def _made(events: AsyncIterator[StreamEvent]) -> ImageResult:
    try:
        return await single(events, ImageResult)
    finally:
        await close(events)


async def _pictures(events: AsyncIterator[StreamEvent], envelope: dict[str, Any]) -> AsyncIterator[bytes]:
    async for piece in render_images(await _made(events), **envelope):
        yield piece


async def _picture_chunks(
    events: AsyncIterator[StreamEvent], envelope: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    async for chunk in stream_images(await _made(events), **envelope):
        yield chunk


def spoken_reply(call: Call, request: SpeechRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply with sound."""
    envelope = _envelope(call, request)
    if request.stream:
        return chunks_reply(call, stream_speech(events, **envelope), sse_wanted=stream_state(request).sse_wanted)
    return Reply(content_type=JSON, chunks=render_speech(events, **envelope))
