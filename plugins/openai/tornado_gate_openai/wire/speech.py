"""OpenAI's speech API: parsing and rendering of requests and responses. Validation is the format plugin's task.

A response is the audio itself, or with ``stream_format: sse`` events that contain it in base64.

Source: openai-python 3.52, types/audio/speech_create_params.py; for the events, OpenAI's API reference, "Create speech",
``speech.audio.delta`` and ``speech.audio.done``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import sse
from tornado_gate.streams.events import close
from tornado_gate.types import (
    Call,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamEvent,
    UpstreamResponse,
    Usage,
)
from tornado_gate.wire.schemas import wrong_format_error
from tornado_gate_openai.wire import formats
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.chat.parts import drop_none, select_unknown

WIRE_FORMAT: Final = formats.OPENAI_SPEECH
FIELD_NAMES: Final[Mapping[str, str]] = {"text": "input", "format": "response_format", "stream": "stream_format"}

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
"""Opus audio is in an Ogg file, so its media type is the container's (RFC 7845, section 9)."""
DEFAULT_FORMAT: Final = "mp3"

EVENT_STREAM: Final = "text/event-stream"
DELTA_EVENT: Final = "speech.audio.delta"
DONE_EVENT: Final = "speech.audio.done"
DELTA_BYTES: Final = 48 * 1024
"""Most audio bytes in one event, because clients buffer a whole event before they parse it."""

_KNOWN_MEMBERS: Final = ("model", "input", "voice", "instructions", "response_format", "speed", "stream_format")
_UNSPECIFIC_TYPES: Final = ("", "application/octet-stream", "binary/octet-stream")


def parse_request(body: Mapping[str, Any], *, model: str) -> SpeechRequest:
    """Return the common request for a validated body.

    A custom voice of the caller's account, ``{"id": …}``, is kept in `extra`, because other vendors cannot use it. `stream`
    is True if ``stream_format`` is set, or if the format is pcm, which has no header with a length.
    """
    voice = body.get("voice")
    extra = {name: value for name, value in select_unknown(body, *_KNOWN_MEMBERS).items() if value is not None}
    if isinstance(voice, Mapping):
        extra["voice"] = voice
    return SpeechRequest(
        model=model,
        wire_format=WIRE_FORMAT,
        text=body["input"],
        voice=voice if isinstance(voice, str) else None,
        instructions=body.get("instructions"),
        speed=body.get("speed"),
        format=body.get("response_format"),
        stream=body.get("stream_format") is not None or body.get("response_format") == "pcm",
        extra=extra,
        names=FIELD_NAMES,
    )


def render_request(call: Call, request: SpeechRequest) -> dict[str, Any]:
    """Return the body for an upstream. It has no stream field, because upstreams always send audio as they produce it.

    ``language`` and unknown fields of another wire format are not supported and are dropped.
    """
    body = drop_none(
        model=call.target.upstream_model,
        input=request.text,
        voice=request.voice,
        instructions=request.instructions,
        response_format=request.format,
        speed=request.speed,
    )
    if request.language is not None:
        call.drop_field(request.field_name("language"))
    for name, value in request.extra.items():
        if request.wire_format == WIRE_FORMAT:
            body[name] = value  # a custom voice replaces the standard one
        else:
            call.drop_field(name)
    return body


def get_media_type(incoming: UpstreamResponse) -> str:
    """Return a response's media type, lower-case and without parameters; "" if it is missing or unspecific."""
    kind = incoming.media_type
    return "" if kind in _UNSPECIFIC_TYPES else kind


def is_sound(kind: str) -> bool:
    """Return whether a response of this media type can be audio. Ogg files appear under both names."""
    return not kind or kind.startswith("audio/") or kind in ("application/ogg", "video/ogg")


def get_format_media_type(format: str | None) -> str:
    """Return the media type of a requested format, or of the vendor's default format for None."""
    return MEDIA_TYPES.get(format or DEFAULT_FORMAT, MEDIA_TYPES[DEFAULT_FORMAT])


async def parse_response(incoming: UpstreamResponse, request: SpeechRequest) -> AsyncIterator[StreamEvent]:
    """Yield the stream events of a response, which is either plain audio or server-sent events with audio.

    Raises UpstreamError for a response that is not audio or is empty.
    """
    kind = get_media_type(incoming)
    if kind != EVENT_STREAM and not is_sound(kind):
        raise await find_non_audio_error(incoming)
    yield SpeechStart(media_type=get_format_media_type(request.format) if kind in ("", EVENT_STREAM) else kind)
    events = (
        _parse_audio(incoming.chunks)
        if kind != EVENT_STREAM
        else _parse_events(sse.read_json_frames(incoming.chunks, incoming.provider))
    )
    heard = False
    async for event in events:
        if isinstance(event, SpeechEnd) and not heard:
            raise no_audio_error()
        heard = True
        yield event


def no_audio_error() -> UpstreamError:
    """Return the error for a response without audio; an empty file would look like a success."""
    return UpstreamError("The upstream returned a response without audio. Retry the request.")


async def find_non_audio_error(incoming: UpstreamResponse) -> GateError:
    """Return the error for a response of another media type: the error in its JSON body if there is one."""
    try:
        return find_error(orjson.loads(await incoming.read())) or wrong_format_error()
    except orjson.JSONDecodeError:
        return UpstreamError("The upstream returned neither audio nor JSON.", advice="Check the provider's base_url.")


async def _parse_audio(chunks: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    async for chunk in chunks:
        if chunk:
            yield SpeechChunk(data=chunk)
    yield SpeechEnd()


async def _parse_events(frames: AsyncIterator[Any]) -> AsyncIterator[StreamEvent]:
    try:
        async for frame in frames:
            if (error := find_frame_error(frame)) is not None:
                raise error
            kind = frame.get("type") if isinstance(frame, Mapping) else None
            if kind == DELTA_EVENT:
                if sound := _decode_base64(frame.get("audio")):
                    yield SpeechChunk(data=sound)
            elif kind == DONE_EVENT:
                yield SpeechEnd(usage=parse_usage(frame.get("usage")))
                return
    finally:
        await close(frames)
    raise UpstreamError("The upstream's audio stream ended before it was complete. Retry the request.")


def find_frame_error(frame: Any) -> GateError | None:
    """Return the error in a frame, or None."""
    if isinstance(frame, Mapping) and frame.get("type") == "error":
        return find_error({"error": frame.get("error") or frame})
    return find_error(frame)


def _decode_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise UpstreamError("The upstream sent an audio chunk that is not valid base64. Retry the request.") from error


def parse_usage(value: Any) -> Usage | None:
    """Return the usage of a stream's last event; None if there is no token count."""
    counts = value if isinstance(value, Mapping) else {}
    read, made = counts.get("input_tokens"), counts.get("output_tokens")
    if type(read) is not int and type(made) is not int:
        return None
    return Usage(
        input_tokens=read if type(read) is int else None,
        output_tokens=made if type(made) is int else None,
        extra=select_unknown(counts, "input_tokens", "output_tokens", "total_tokens"),
    )


def render_usage(usage: Usage | None) -> dict[str, Any]:
    """Return the vendor's usage object; its three counts are always present."""
    known = usage or Usage()
    counts = {"input_tokens": known.input_tokens or 0, "output_tokens": known.output_tokens or 0}
    return {**known.extra, **counts, "total_tokens": known.total_tokens or 0}


def render_deltas(sound: bytes) -> Iterator[dict[str, Any]]:
    """Yield the delta events for `sound`, with at most `DELTA_BYTES` bytes of audio each."""
    for start in range(0, len(sound), DELTA_BYTES):
        piece = sound[start : start + DELTA_BYTES]
        yield {"type": DELTA_EVENT, "audio": base64.b64encode(piece).decode("ascii")}


def render_done(usage: Usage | None) -> dict[str, Any]:
    """Return the last event of a stream."""
    return {"type": DONE_EVENT, "usage": render_usage(usage)}
