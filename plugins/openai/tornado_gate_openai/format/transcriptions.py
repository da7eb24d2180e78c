"""The transcription and translation routes: the file of the form, and the responses of both lanes.

Source: openai-python 3.52, types/audio/transcription_create_params.py and translation_create_params.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import passthrough, sse
from tornado_gate.codec import media_types
from tornado_gate.codec.checks import raise_invalid, raise_missing
from tornado_gate.codec.fields import parse_form
from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import (
    Call,
    Reply,
    StreamEvent,
    TranscriptionRequest,
    TranscriptionResult,
    Upload,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate_openai.fields.transcriptions import TranscriptionFormSchema, check_transcription, check_translation
from tornado_gate_openai.format import paths
from tornado_gate_openai.format.passing import ResultAdapter, make_media_verbatim
from tornado_gate_openai.format.paths import KEEP_ALIVE
from tornado_gate_openai.format.replies import EVENT_STREAM_TYPE, JSON_TYPE
from tornado_gate_openai.wire.chat.errors import find_error
from tornado_gate_openai.wire.transcriptions import (
    DONE_EVENT,
    PLAIN_FORMATS,
    TIMED_FORMATS,
    check_response,
    parse_request,
    parse_response,
    parse_usage,
    read_duration,
    render_plain,
    render_response,
    render_stream,
)

ROUTES: Final = paths.TRANSCRIPTION_ROUTES

TEXT_TYPE: Final = "text/plain; charset=utf-8"
_EVENT_STREAM_TYPE: Final = "text/event-stream"


class TranscriptionState(Value, frozen=True, kw_only=True):
    """Response state: `response_format` of a response that is not a stream."""

    response_format: str = "json"


async def check_file(wire: WireRequest) -> Upload:
    """Return the form's file. Raises InvalidField for no file, for several, and for one whose content is not audio or video."""
    files = [file for file in wire.files if file.field.removesuffix("[]") == "file"]
    if not files:
        raise_missing("file")
    if len(files) > 1:
        raise_invalid("file", f"has {len(files)} files; 1 is allowed")
    if not files[0].size:
        raise_invalid("file", "must not be empty")
    seen = media_types.sniff(await files[0].read(media_types.SNIFFED_BYTES))
    if seen and not seen.startswith(("audio/", "video/")):
        message = f"'file' is of type '{seen}', which has no audio. Send an audio file, such as mp3, wav, m4a or webm."
        raise InvalidField("file", message, code="wrong_media_type")
    return files[0]


def _read_fields(call: Call, wire: WireRequest, *, translate: bool) -> dict[str, Any]:
    """Return the checked text fields of the form. Raises InvalidField."""
    fields = parse_form(TranscriptionFormSchema, {**wire.json, "model": wire.json.get("model") or call.model})
    check = check_translation if translate else check_transcription
    check(fields)
    return fields


async def parse(call: Call, wire: WireRequest) -> TranscriptionRequest:
    """Parse the form into the common request. Other files are reported as dropped. Raises InvalidField."""
    translate = _is_translation(wire.path)
    fields = _read_fields(call, wire, translate=translate)
    file = await check_file(wire)
    for other in wire.files:
        if other is not file:
            call.drop_field(other.field)
    request = parse_request(fields, file, model=fields["model"], translate=translate)
    state = TranscriptionState(response_format=fields.get("response_format") or "json")
    return replace(request, stream=fields.get("stream") == "true", reply_state=state)


def _is_translation(path: str) -> bool:
    return path.rstrip("/") == paths.TRANSLATIONS_PATH


def reply(call: Call, request: TranscriptionRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response in the requested format."""
    if request.stream:
        return Reply(
            content_type=EVENT_STREAM_TYPE, chunks=_render_answer(call, request, events), keep_alive=KEEP_ALIVE
        )
    content_type = TEXT_TYPE if request.reply_state.response_format in PLAIN_FORMATS else JSON_TYPE
    return Reply(content_type=content_type, chunks=_render_answer(call, request, events))


async def _render_answer(
    call: Call, request: TranscriptionRequest, events: AsyncIterator[StreamEvent]
) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, TranscriptionResult)
    finally:
        await close(events)
    _require_times(call, request, result)
    written_as = request.reply_state.response_format
    if request.stream:
        for event in render_stream(result):
            yield sse.render_json(event)
    elif written_as in PLAIN_FORMATS:
        yield render_plain(result, written_as).encode()
    else:
        yield orjson.dumps(render_response(result, written_as, translate=request.translate))


def _require_times(call: Call, request: TranscriptionRequest, result: TranscriptionResult) -> None:
    """Raise InvalidField when the format needs timestamps (subtitles, speaker labels) and the result lacks them."""
    response_format = request.reply_state.response_format
    if result.segments or not result.text or request.stream:
        return
    if response_format == "verbose_json":
        if not result.words:
            call.drop_field("timestamp_granularities")
    elif response_format in TIMED_FORMATS:
        message = (
            f"The model '{call.model}' returns no timestamps, which '{response_format}' requires. Use 'json' or 'text'."
        )
        raise InvalidField("response_format", message, code="unsupported_value")


async def forward(call: Call, wire: WireRequest) -> VerbatimRequest:
    """Check the form and return the request unchanged. Raises InvalidField."""
    fields = _read_fields(call, wire, translate=_is_translation(wire.path))
    await check_file(wire)
    return make_media_verbatim(wire, raw=wire.raw, body=wire.json, stream=fields.get("stream") == "true")


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response unchanged: JSON, text or server-sent events.

    Some models return a complete transcript although the request was for a stream. It is converted to a stream, because a
    client that reads a stream would find no events in it.
    """
    content_type, kind = incoming.headers.get("content-type", ""), incoming.media_type
    plain = request.body.get("response_format") in PLAIN_FORMATS
    if kind == _EVENT_STREAM_TYPE or (request.stream and kind == JSON_TYPE and not plain):
        return passthrough.forward_answer(call, _ADAPTER, request, incoming)
    if request.stream:
        return Reply(content_type=EVENT_STREAM_TYPE, chunks=_stream_of_text(call, incoming), keep_alive=KEEP_ALIVE)
    return Reply(
        content_type=content_type or (TEXT_TYPE if plain else JSON_TYPE), chunks=_forward_whole(call, incoming, plain)
    )


async def _forward_whole(call: Call, incoming: UpstreamResponse, plain: bool) -> AsyncIterator[bytes]:
    yield await _check_whole(call, incoming, plain)


async def _stream_of_text(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raw = await _check_whole(call, incoming, plain=True)
    for event in render_stream(TranscriptionResult(text=raw.decode("utf-8", "replace").strip("\r\n"))):
        yield sse.render_json(event)


async def _check_whole(call: Call, incoming: UpstreamResponse, plain: bool) -> bytes:
    """Return the body and record its usage. Raises GateError for an error body or a body not in the requested format."""
    raw = await incoming.read()
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if plain and "html" not in incoming.media_type:
            return raw
        raise UpstreamError("The upstream's response is not a transcript. Try again.") from error
    if (failure := find_error(body)) is not None:
        raise failure
    if not plain:
        call.meter.record_usage(parse_usage(check_response(body).get("usage")))
        call.meter.record_seconds(read_duration(body))
    return raw


def _iterate_events(body: Any) -> Iterator[Mapping[str, Any]]:
    return render_stream(parse_response(body))


_ADAPTER: Final = ResultAdapter(
    check=check_response, parse_usage=parse_usage, last=DONE_EVENT, events_of=_iterate_events
)
