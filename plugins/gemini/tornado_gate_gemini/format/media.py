"""Generate requests to image and speech models that do not support chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.codec.ids import make_unique_id
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import Call, ImageRequest, ImageResult, Reply, SpeechRequest, StreamEvent, WireRequest
from tornado_gate.types.value import replace
from tornado_gate_gemini.format.replies import JSON_TYPE, StreamState, get_stream_state, make_stream_reply
from tornado_gate_gemini.wire.generate import (
    parse_images,
    parse_speech,
    render_images,
    render_speech,
    stream_images,
    stream_speech,
)


async def parse_image_request(call: Call, wire: WireRequest, state: StreamState) -> ImageRequest:
    """Parse a checked body into the common request. Raises InvalidField, also for image data that is not an image.

    `stream` stays false, because this format has no partial images.
    """
    parsed = parse_images(call, wire.json, model=wire.path_arguments["model"])
    request = parsed.request
    if call.operation == "image_edits" and not request.images:
        name = request.field_name("images")
        raise InvalidField(name, f"'{name}' must contain an image: the model '{call.model}' can only edit images.")
    for path, source in zip(parsed.paths, request.images, strict=True):
        await pictures.check(source, path)
    return replace(request, reply_state=state)


def parse_speech_request(call: Call, wire: WireRequest, state: StreamState) -> SpeechRequest:
    """Parse a checked body into the common request. Raises InvalidField."""
    request = parse_speech(call, wire.json, model=wire.path_arguments["model"], stream=state.in_chunks)
    return replace(request, reply_state=state)


def _make_envelope(call: Call, request: ImageRequest | SpeechRequest) -> dict[str, Any]:
    return {"id": make_unique_id(), "model": call.model or request.model}


def make_image_reply(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response with images as inline data: one JSON body, or a stream of chunks."""
    envelope = _make_envelope(call, request)
    state = get_stream_state(request)
    if state.in_chunks:
        return make_stream_reply(call, _stream_image_chunks(events, envelope), sse_wanted=state.sse_wanted)
    return Reply(content_type=JSON_TYPE, chunks=_render_images(events, envelope))


async def _read_image_result(events: AsyncIterator[StreamEvent]) -> ImageResult:
    try:
        return await read_single_event(events, ImageResult)
    finally:
        await close(events)


async def _render_images(events: AsyncIterator[StreamEvent], envelope: dict[str, Any]) -> AsyncIterator[bytes]:
    async for piece in render_images(await _read_image_result(events), **envelope):
        yield piece


async def _stream_image_chunks(
    events: AsyncIterator[StreamEvent], envelope: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    async for chunk in stream_images(await _read_image_result(events), **envelope):
        yield chunk


def make_speech_reply(call: Call, request: SpeechRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response with audio as inline data: one JSON body, or a stream of chunks."""
    envelope = _make_envelope(call, request)
    if request.stream:
        return make_stream_reply(
            call, stream_speech(events, **envelope), sse_wanted=get_stream_state(request).sse_wanted
        )
    return Reply(content_type=JSON_TYPE, chunks=render_speech(events, **envelope))
