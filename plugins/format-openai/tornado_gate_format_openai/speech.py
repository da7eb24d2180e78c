"""The speech route: the check of its body, and the replies of both lanes.

The sound passes as it comes. Where the caller asked for events and the upstream sends the sound itself, or the other way
round, the answer is turned into what was asked for.

Bounds are the vendor's: openai-python 3.52, types/audio/speech_create_params.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from marshmallow import validate

from tornado_gate import passthrough, sse
from tornado_gate.codec.fields import Body, Number, Object, OneOf, String, check
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
    Verbatim,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.openai_speech import (
    DONE,
    EVENT_STREAM,
    MEDIA_TYPES,
    is_sound,
    kind_of,
    media_type,
    not_sound,
    parse_answer,
    parse_request,
    parse_usage,
    render_deltas,
    render_done,
    silent,
)
from tornado_gate_format_openai import paths
from tornado_gate_format_openai.passing import ResultAdapter, verbatim
from tornado_gate_format_openai.replies import EVENTS, KEEP_ALIVE, error_frame

ROUTES: Final = paths.SPEECH

MAX_CHARACTERS: Final = 4096
"""The vendor's bound on a text."""


class SpeechState(Value, frozen=True, kw_only=True):
    """What the answer needs to know: `events` says that the sound is wanted in server-sent events."""

    events: bool = False


class _Voice(Body):
    id = String(required=True, validate=validate.Length(min=1, error="must not be empty"))


class SpeechBody(Body):
    """The body of ``POST /v1/audio/speech``."""

    model = String(required=True, validate=validate.Length(min=1, error="must not be empty"))
    input = String(required=True, longest=MAX_CHARACTERS, validate=validate.Length(min=1, error="must not be empty"))
    voice = OneOf(
        required=True,
        by_type={str: String(validate=validate.Length(min=1, error="must not be empty")), dict: Object(_Voice)},
    )
    instructions = String(allow_none=True)
    response_format = String(choices=tuple(MEDIA_TYPES), allow_none=True)
    speed = Number(least=0.25, most=4, allow_none=True)
    stream_format = String(choices=("sse", "audio"), allow_none=True)


_SCHEMA: Final = SpeechBody()


def parse(call: Call, wire: WireRequest) -> SpeechRequest:
    """The common request. Raises InvalidField."""
    body = wire.json
    if body.get("model") is None:
        body = {**body, "model": call.model}
    check(_SCHEMA, body)
    request = parse_request(body, model=body["model"])
    return replace(request, reply_state=_state_of(body))


def _state_of(body: Mapping[str, Any]) -> SpeechState:
    return SpeechState(events=body.get("stream_format") == "sse")


def reply(call: Call, request: SpeechRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply: events, or the sound itself under the media type that its maker says.

    The type is known with the first piece of sound. Headers are sent after that, so that it can be among them still.
    """
    if request.reply_state.events:
        return Reply(content_type=EVENTS, chunks=_events(call, events), keep_alive=KEEP_ALIVE)
    headers: dict[str, str] = {}
    chunks = _sound(events, headers)
    return Reply(content_type=media_type(request.format), chunks=chunks, headers=headers)


async def _sound(events: AsyncIterator[StreamEvent], headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Raises the error of a StreamError: the connection is closed then, as half a file must not look whole."""
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
        raise silent()


async def _events(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    """A failure before the first event is raised and keeps its status; a later one is the last frame."""
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
                        raise silent()
                    yield sse.render_json(render_done(usage))
                case StreamError(error=error):
                    raise error
    except GateError as error:
        if not begun:
            raise
        yield error_frame(error)
    finally:
        await close(events)


def forward(call: Call, wire: WireRequest) -> Verbatim:
    """The request as it came."""
    request = parse(call, wire)
    return verbatim(wire, raw=wire.raw, body=wire.json, stream=request.reply_state.events)


def forwarded(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer: its bytes when they are what was asked for."""
    kind = kind_of(incoming)
    if request.stream and kind == EVENT_STREAM:
        return passthrough.forward_answer(call, _ADAPTER, request, incoming)
    if kind != EVENT_STREAM and not is_sound(kind):
        return Reply(content_type=EVENTS if request.stream else media_type(None), chunks=_refused(call, incoming))
    asked = _asked(request.body)
    if request.stream or kind == EVENT_STREAM:
        return reply(call, asked, _noted(call, parse_answer(incoming, asked)))
    content_type = incoming.headers["content-type"] if kind else media_type(asked.format)
    return Reply(content_type=content_type, chunks=_passed(incoming.chunks))


def _asked(body: Mapping[str, Any]) -> SpeechRequest:
    return SpeechRequest(
        model=str(body.get("model") or ""),
        text=body["input"],
        format=body.get("response_format"),
        reply_state=_state_of(body),
    )


async def _noted(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """On this lane nobody else reads the events."""
    try:
        async for event in events:
            if isinstance(event, SpeechEnd):
                call.meter.usage = event.usage or call.meter.usage
            yield event
    finally:
        await close(events)


async def _passed(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    heard = False
    try:
        async for chunk in chunks:
            if chunk:
                heard = True
                yield chunk
    finally:
        await close(chunks)
    if not heard:
        raise silent()


async def _refused(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raise await not_sound(incoming)
    yield b""  # what makes this a generator


def _never_whole(body: Any) -> None:
    raise UpstreamError("The upstream's answer is neither sound nor events.")


_ADAPTER: Final = ResultAdapter(check=_never_whole, parse_usage=parse_usage, last=DONE)
