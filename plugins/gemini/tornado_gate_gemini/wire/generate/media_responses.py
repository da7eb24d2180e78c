"""Images and speech as generateContent responses: the server half. Pure.

A whole response is rendered in chunks, one part at a time, because a part may have tens of megabytes; joined, the chunks are
one JSON text. In a stream, each image or piece of audio is its own chunk; the last chunk has usage and finish reason.

Source: google-genai 3.4, types.GenerateContentResponse.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.streams.events import close
from tornado_gate.types import ImageResult, SpeechChunk, SpeechEnd, SpeechStart, StreamError, StreamEvent, Usage
from tornado_gate_gemini.wire.generate.audio import DEFAULT_SAMPLE_RATE, SAMPLE_BYTES, is_raw, parse_sample_rate
from tornado_gate_gemini.wire.generate.base64_slices import SLICE_BYTES, encode_in_slices
from tornado_gate_gemini.wire.generate.usage import render_usage

_SAMPLES_TYPE: Final = "audio/L16;codec=pcm;rate={rate}"
_CHUNK_START: Final = b'{"candidates":[{"content":{"role":"model","parts":['
_CHUNK_STOP: Final = b']},"finishReason":"STOP","index":0}]'


async def render_blob(data: bytes, media_type: str) -> dict[str, Any]:
    """A part with an embedded file; `orjson.dumps` copies its base64 unchanged."""
    text = await encode_in_slices(data)
    return {"inlineData": {"mimeType": media_type, "data": orjson.Fragment(b'"' + text.encode("ascii") + b'"')}}


def render_audio_type(media_type: str) -> str:
    """The media type of audio in the vendor's form, with the rate for raw samples."""
    if not is_raw(media_type):
        return media_type
    return _SAMPLES_TYPE.format(rate=parse_sample_rate(media_type) if "rate=" in media_type else DEFAULT_SAMPLE_RATE)


async def render_images(result: ImageResult, *, id: str, model: str) -> AsyncIterator[bytes]:
    """The pieces of a whole response with images, after the model's text."""
    yield _CHUNK_START
    if result.text:
        yield orjson.dumps({"text": result.text}) + (b"," if result.images else b"")
    for number, image in enumerate(result.images):
        yield (b"," if number else b"") + orjson.dumps(await render_blob(image.data, image.media_type))
    yield _render_end(result.usage, id, model)


async def stream_images(result: ImageResult, *, id: str, model: str) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream with images; the last has the finish reason."""
    last = len(result.images) - 1
    envelope = {"modelVersion": model, "responseId": id}
    if result.text:
        yield _render_chunk([{"text": result.text}], envelope)
    for number, image in enumerate(result.images):
        part = await render_blob(image.data, image.media_type)
        yield _render_chunk([part], envelope) if number < last else _render_last_chunk([part], result.usage, envelope)


async def render_speech(events: AsyncIterator[StreamEvent], *, id: str, model: str) -> AsyncIterator[bytes]:
    """The pieces of a whole response with the audio in one part. Raises the error of a StreamError before the first piece."""
    media_type, pieces, usage = "", [], None
    try:
        async for event in events:
            match event:
                case SpeechStart(media_type=said):
                    media_type = render_audio_type(said)
                case SpeechChunk(data=data):
                    pieces.append(data)
                case SpeechEnd(usage=counted):
                    usage = counted
                case StreamError(error=error):
                    raise error
    finally:
        await close(events)
    if not any(pieces):
        raise UpstreamError("The upstream's response contains no audio. Retry the request.")
    yield _CHUNK_START + b'{"inlineData":{"mimeType":' + orjson.dumps(media_type) + b',"data":"'
    data = b"".join(pieces)
    for start in range(0, len(data), SLICE_BYTES):
        yield (await encode_in_slices(data[start : start + SLICE_BYTES])).encode("ascii")
    yield b'"}}' + _render_end(usage, id, model)


async def stream_speech(events: AsyncIterator[StreamEvent], *, id: str, model: str) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream with audio, in whole samples. Raises the error of a StreamError."""
    envelope = {"modelVersion": model, "responseId": id}
    media_type, whole, left = "", 1, b""
    try:
        async for event in events:
            match event:
                case SpeechStart(media_type=said):
                    media_type = render_audio_type(said)
                    whole = SAMPLE_BYTES if is_raw(media_type) else 1
                case SpeechChunk(data=data):
                    data = left + data
                    ready = len(data) - len(data) % whole
                    left = data[ready:]
                    if ready:
                        yield _render_chunk([await render_blob(data[:ready], media_type)], envelope)
                case SpeechEnd(usage=usage):
                    yield _render_last_chunk([{"text": ""}], usage, envelope)
                case StreamError(error=error):
                    raise error
    finally:
        await close(events)


def _render_end(usage: Usage | None, id: str, model: str) -> bytes:
    rest = orjson.dumps({"usageMetadata": render_usage(usage or Usage()), "modelVersion": model, "responseId": id})
    return _CHUNK_STOP + b"," + rest[1:]


def _render_chunk(parts: Sequence[Any], envelope: dict[str, str]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], **envelope}


def _render_last_chunk(parts: Sequence[Any], usage: Usage | None, envelope: dict[str, str]) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": render_usage(usage or Usage()), **envelope}
