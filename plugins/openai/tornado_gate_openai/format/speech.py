"""The speech route: the requests and the responses of both lanes.

Audio is forwarded chunk by chunk. When the caller requested server-sent events and the upstream sends audio bytes, or the other
way round, the response is converted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams.events import close
from tornado_gate.types import (
    Call,
    Reply,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamError,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.fields.speech import check_speech
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.passing import ResultAdapter, make_media_verbatim
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, render_error_frame
from tornado_gate_openai.wire.speech import (
    DONE_EVENT,
    EVENT_STREAM,
    find_non_audio_error,
    get_format_media_type,
    get_media_type,
    is_sound,
    no_audio_error,
    parse_request,
    parse_response,
    parse_usage,
    render_deltas,
    render_done,
)

ROUTES: Final = paths.SPEECH_ROUTES


class SpeechState(Value, frozen=True, kw_only=True):
    """Response state: `events` is whether the caller requested server-sent events."""

    events: bool = False


def parse(call: Call, wire: WireRequest) -> SpeechRequest:
    """Parse the body into the common request. Raises InvalidField."""
    body = _add_default_model(call, wire)
    check_speech(body)
    request = parse_request(body, model=body["model"])
    return replace(request, reply_state=_make_state(body))


def _add_default_model(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    return wire.json if wire.json.get("model") is not None else {**wire.json, "model": call.model}


def _make_state(body: Mapping[str, Any]) -> SpeechState:
    return SpeechState(events=body.get("stream_format") == "sse")


def reply(call: Call, request: SpeechRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response: server-sent events, or audio bytes with the provider's media type.

    The media type is set when the first audio chunk arrives. Headers are sent after the first chunk, so they include it.
    """
    if request.reply_state.events:
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=_stream_frames(call, events), keep_alive=KEEP_ALIVE)
    headers: dict[str, str] = {}
    chunks = _stream_audio(events, headers)
    return Reply(content_type=get_format_media_type(request.format), chunks=chunks, headers=headers)


async def _stream_audio(events: AsyncIterator[StreamEvent], headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Yield audio bytes. Raises the error of a StreamError; the server then closes the connection to mark the file incomplete."""
    heard = False
    try:
        async for event in events:
            match event:
                case SpeechStart():
                    headers["Content-Type"] = event.media_type
                case SpeechChunk(data=data) if data:
                    heard = True
                    yield data
                case StreamError(error=error):
                    raise error
    finally:
        await close(events)
    if not heard:
        raise no_audio_error()


async def _stream_frames(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    """Yield frames. A failure before the first frame is raised and keeps its status; a later one is the last frame."""
    begun = False
    try:
        async for event in events:
            match event:
                case SpeechChunk(data=data):
                    for delta in render_deltas(data):
                        begun = True
                        yield sse.render_json(delta)
                case SpeechEnd(usage=usage):
                    if not begun:
                        raise no_audio_error()
                    yield sse.render_json(render_done(usage))
                case StreamError(error=error):
                    raise error
    except GateError as error:
        if not begun:
            raise
        yield render_error_frame(error)
    finally:
        await close(events)


def forward(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Check the body and return the request unchanged. Raises InvalidField."""
    body = _add_default_model(call, wire)
    check_for_upstream(check_speech, body)
    call.meter.record_characters(len(body["input"]) if isinstance(body.get("input"), str) else 0)
    return make_media_verbatim(wire, raw=wire.raw, body=wire.json, stream=_make_state(body).events)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response, converted when its form (events or audio bytes) is not the requested one."""
    kind = get_media_type(incoming)
    if request.stream and kind == EVENT_STREAM:
        return passthrough.forward_answer(call, _ADAPTER, request, incoming)
    if kind != EVENT_STREAM and not is_sound(kind):
        return Reply(
            content_type=EVENT_STREAM_TYPE if request.stream else get_format_media_type(None),
            chunks=_raise_refusal(call, incoming),
        )
    speech_request = _make_request(request.body)
    if request.stream or kind == EVENT_STREAM:
        return reply(call, speech_request, _note_usage(call, parse_response(incoming, speech_request)))
    content_type = incoming.headers["content-type"] if kind else get_format_media_type(speech_request.format)
    return Reply(content_type=content_type, chunks=_forward_audio(incoming.chunks))


def _make_request(body: Mapping[str, Any]) -> SpeechRequest:
    return SpeechRequest(
        model=str(body.get("model") or ""),
        text=body["input"],
        format=body.get("response_format"),
        reply_state=_make_state(body),
    )


async def _note_usage(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """Yield `events` and record their usage, because the core does not read events on the verbatim lane."""
    try:
        async for event in events:
            if isinstance(event, SpeechEnd):
                call.meter.record_usage(event.usage)
            yield event
    finally:
        await close(events)


async def _forward_audio(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    heard = False
    try:
        async for chunk in chunks:
            if chunk:
                heard = True
                yield chunk
    finally:
        await close(chunks)
    if not heard:
        raise no_audio_error()


async def _raise_refusal(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raise await find_non_audio_error(incoming)
    yield b""  # makes this function a generator


def _refuse_whole(body: Any) -> None:
    raise UpstreamError("The upstream's speech response is neither audio nor server-sent events. Try again.")


_ADAPTER: Final = ResultAdapter(check=_refuse_whole, parse_usage=parse_usage, last=DONE_EVENT)
