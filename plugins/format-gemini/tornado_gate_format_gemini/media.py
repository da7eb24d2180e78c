"""Generate requests to models that make pictures or speech and cannot chat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.codec.ids import unique
from tornado_gate.errors import InvalidField
from tornado_gate.http.fetch import pictures
from tornado_gate.streams.events import close, single
from tornado_gate.types import Call, ImageRequest, ImageResult, Reply, SpeechRequest, StreamEvent, WireRequest
from tornado_gate.wire.gemini_generate import (
    parse_images,
    parse_speech,
    render_images,
    render_speech,
    stream_images,
    stream_speech,
)
from tornado_gate_format_gemini.replies import JSON, chunks_reply


class PictureRequest(ImageRequest, frozen=True, kw_only=True):
    """An image request that remembers in which form its answer was asked for.

    `stream` stays false: pictures that are not finished have no place in this format.
    """

    in_chunks: bool = False
    sse_wanted: bool = False


class SpokenRequest(SpeechRequest, frozen=True, kw_only=True):
    """A speech request that remembers in which form its stream was asked for."""

    sse_wanted: bool = False


async def picture_request(call: Call, wire: WireRequest, *, in_chunks: bool, sse_wanted: bool) -> PictureRequest:
    """The common request in a checked body. Raises InvalidField, for a picture that is none too."""
    parsed = parse_images(call, wire.json, model=wire.path_arguments["model"])
    request = parsed.request
    if call.operation == "image_edits" and not request.images:
        name = request.field_name("images")
        raise InvalidField(name, f"'{name}' must hold a picture: the model '{call.model}' only changes those.")
    for path, source in zip(parsed.paths, request.images, strict=True):
        await pictures.check(source, path)
    members = {name: getattr(request, name) for name in ImageRequest.__dataclass_fields__}
    return PictureRequest(**members, in_chunks=in_chunks, sse_wanted=sse_wanted)


def spoken_request(call: Call, wire: WireRequest, *, in_chunks: bool, sse_wanted: bool) -> SpokenRequest:
    """The common request in a checked body. Raises InvalidField."""
    request = parse_speech(call, wire.json, model=wire.path_arguments["model"], stream=in_chunks)
    members = {name: getattr(request, name) for name in SpeechRequest.__dataclass_fields__}
    return SpokenRequest(**members, sse_wanted=sse_wanted)


def _envelope(call: Call, request: ImageRequest | SpeechRequest) -> dict[str, Any]:
    return {"id": unique(), "model": call.model or request.model}


def picture_reply(call: Call, request: ImageRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply with pictures."""
    envelope = _envelope(call, request)
    if isinstance(request, PictureRequest) and request.in_chunks:
        return chunks_reply(call, _picture_chunks(events, envelope), sse_wanted=request.sse_wanted)
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
        wanted = isinstance(request, SpokenRequest) and request.sse_wanted
        return chunks_reply(call, stream_speech(events, **envelope), sse_wanted=wanted)
    return Reply(content_type=JSON, chunks=render_speech(events, **envelope))
