"""The speech route: what its body may hold, and the replies of both lanes."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, get_type_hints

import orjson
import pytest
from format_openai_calls import call_for, chunks_of, text_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr
from openai.types.audio import SpeechCreateParams
from operation_calls import SECRET, done, events_of, frames, make_response, read_frames, wire_of

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamTimeout
from tornado_gate.types import Reply, SpeechChunk, SpeechEnd, SpeechRequest, SpeechStart, StreamError, Usage
from tornado_gate_openai.fields.speech import SpeechBodySchema
from tornado_gate_openai.format import speech

(ROUTE,) = speech.ROUTES
BODY: dict[str, Any] = {"model": "m", "input": "Hello", "voice": "alloy"}
WRONG: dict[str, list[Any]] = {
    "model": [True, 1, [], {}, ""],
    "input": [True, 1, [], {}, "", None],
    "voice": [True, 1, [], "", None],
    "instructions": [True, 1, [], {}],
    "response_format": [True, 1, []],
    "speed": [True, "1", []],
    "stream_format": [True, 1, []],
}
START = SpeechStart(media_type="audio/mpeg")
EVENTS = "text/event-stream; charset=utf-8"


def read_request(**fields: Any) -> SpeechRequest:
    return speech.parse(call_for(), wire_of(ROUTE, BODY | fields))


def fault_of(body: Any) -> InvalidField:
    for hook in (speech.parse, speech.forward):
        with pytest.raises(InvalidField) as caught:
            done(hook(call_for(), wire_of(ROUTE, body)))
    assert caught.value.status == 400
    return caught.value


def replied(*events: Any, **fields: Any) -> Reply:
    return speech.reply(call_for(key=SECRET), read_request(**fields), events_of(*events))


def forwarded(chunks: Any, content_type: str, call: Any = None, **fields: Any) -> Reply:
    request = speech.forward(call_for(), wire_of(ROUTE, BODY | fields))
    return speech.forward_response(call or call_for(key=SECRET), request, make_response(chunks, content_type))


def delta(sound: bytes) -> dict[str, Any]:
    return {"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()}


DONE = {"type": "speech.audio.done", "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}}


def test_every_field_of_the_vendor_is_checked() -> None:
    assert set(get_type_hints(SpeechCreateParams)) == set(SpeechBodySchema().fields) == set(WRONG)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_named(name: str, value: Any) -> None:
    assert fault_of(BODY | {name: value}).param == name


@pytest.mark.parametrize("voice", [{}, {"id": 5}, {"id": ""}])
def test_a_voice_of_ones_own_needs_an_id(voice: Any) -> None:
    assert fault_of(BODY | {"voice": voice}).param == "voice.id"


@pytest.mark.parametrize("name", ["input", "voice"])
def test_a_required_field_must_be_there(name: str) -> None:
    fault = fault_of({other: value for other, value in BODY.items() if other != name})
    assert (fault.param, fault.code) == (name, "missing_required_parameter")


@pytest.mark.parametrize("name", ["instructions", "response_format", "speed", "stream_format"])
def test_null_says_nothing(name: str) -> None:
    assert read_request(**{name: None}) == read_request()


@pytest.mark.parametrize(("name", "value"), [("speed", 0.25), ("speed", 4), ("input", "ü" * 4096), ("x_new", [1])])
def test_values_up_to_the_bounds_pass(name: str, value: Any) -> None:
    assert speech.forward(call_for(), wire_of(ROUTE, BODY | {name: value})).body[name] == value


def test_a_body_without_a_model_means_the_default() -> None:
    wire = wire_of(ROUTE, {"input": "Hi", "voice": "alloy"})
    assert speech.parse(call_for("conf-default"), wire).model == "conf-default"
    assert speech.forward(call_for("conf-default"), wire).body == wire.json


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        (None, "audio/mpeg"),
        ("mp3", "audio/mpeg"),
        ("opus", "audio/ogg"),
        ("aac", "audio/aac"),
        ("flac", "audio/flac"),
        ("wav", "audio/wav"),
        ("pcm", "audio/pcm"),
    ],
)
def test_each_format_has_its_media_type(name: str | None, content_type: str) -> None:
    assert replied(START, response_format=name).content_type == content_type
    assert forwarded(b"a", "application/octet-stream", response_format=name).content_type == content_type


def test_sound_is_passed_piece_by_piece_under_the_type_that_its_maker_says() -> None:
    reply = replied(SpeechStart(media_type="audio/wav"), SpeechChunk(data=b"a"), SpeechChunk(data=b"b"), SpeechEnd())

    async def first() -> tuple[bytes, dict[str, str]]:
        chunk = await anext(aiter(reply.chunks))
        return chunk, dict(reply.headers)

    assert asyncio.run(first()) == (b"a", {"Content-Type": "audio/wav"})
    assert chunks_of(replied(START, SpeechChunk(data=b"a"), SpeechChunk(data=b"b"), SpeechEnd())) == [b"a", b"b"]


def test_sound_that_breaks_off_raises_so_that_half_a_file_does_not_look_whole() -> None:
    for events in ([], [SpeechChunk(data=b"a")]):
        with pytest.raises(UpstreamTimeout):
            text_of(replied(START, *events, StreamError(error=UpstreamTimeout("late"))))


@pytest.mark.parametrize("fields", [{}, {"stream_format": "sse"}])
def test_silence_is_the_upstreams_fault(fields: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError, match="without audio"):
        text_of(replied(START, SpeechChunk(data=b""), SpeechEnd(), **fields))


def test_events_carry_the_sound_and_the_usage() -> None:
    sound = bytes(range(256)) * 1000
    end = SpeechEnd(usage=Usage(input_tokens=1, output_tokens=2))
    reply = replied(START, SpeechChunk(data=sound), end, stream_format="sse")
    assert (reply.content_type, reply.keep_alive) == (EVENTS, b": ping\n")
    *deltas, last = read_frames(text_of(reply))
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in deltas) == sound
    assert last == DONE


def test_a_stream_that_fails_ends_with_its_error() -> None:
    error = StreamError(error=UpstreamError("gone"))
    first, last = read_frames(text_of(replied(START, SpeechChunk(data=b"a"), error, stream_format="sse")))
    assert first == delta(b"a")
    assert last["error"]["message"] == "gone"
    with pytest.raises(UpstreamError):
        text_of(replied(START, error, stream_format="sse"))


def test_a_body_goes_up_as_it_came() -> None:
    raw = b'{ "voice":{"id":"v"}, "input":"\\u0048i", "model" : "m","x":1.0e3 }'
    request = speech.forward(call_for(), wire_of(ROUTE, raw))
    assert (request.raw, request.operation, request.wire_format) == (raw, "speech", "openai-speech")
    assert request.stream is False
    assert speech.forward(call_for(), wire_of(ROUTE, BODY | {"stream_format": "sse"})).stream is True


def test_the_upstreams_bytes_pass_as_they_come() -> None:
    reply = forwarded([b"a", b"", b"\x00\xff"], "audio/opus; x=1", response_format="opus")
    assert (reply.content_type, chunks_of(reply)) == ("audio/opus; x=1", [b"a", b"\x00\xff"])


def test_the_upstreams_events_pass_as_they_came_and_usage_is_noted() -> None:
    raw = b'event: x\ndata: {"type":"speech.audio.delta", "audio":"AAAA"}\n\n' + b"".join(frames(DONE))
    call = call_for()
    reply = forwarded([raw[:30], raw[30:]], "text/event-stream", call, stream_format="sse")
    assert (reply.content_type, text_of(reply)) == ("text/event-stream", raw)
    assert call.meter.usage == Usage(input_tokens=1, output_tokens=2)


def test_events_that_stop_end_with_an_error() -> None:
    raw = text_of(forwarded(frames(delta(b"a")), "text/event-stream", stream_format="sse"))
    first, last = read_frames(raw)
    assert first == delta(b"a")
    assert last["error"]["type"] == "upstream_error"


def test_nothing_follows_an_error_among_the_events() -> None:
    failure = {"type": "error", "error": {"message": "gone"}}
    raw = text_of(forwarded(frames(delta(b"a"), failure, delta(b"b")), "text/event-stream", stream_format="sse"))
    assert read_frames(raw) == [delta(b"a"), failure]


def test_an_error_as_the_first_event_keeps_its_status() -> None:
    pieces = frames({"error": {"message": "slow", "code": 429}})
    with pytest.raises(GateError) as caught:
        text_of(forwarded(pieces, "text/event-stream", stream_format="sse"))
    assert (caught.value.status, caught.value.message) == (429, "slow")


def test_an_upstream_that_sends_sound_where_events_were_asked_for_is_turned_into_events() -> None:
    reply = forwarded([b"a", b"b"], "audio/mpeg", stream_format="sse")
    assert reply.content_type == EVENTS
    *deltas, last = read_frames(text_of(reply))
    assert deltas == [delta(b"a"), delta(b"b")]
    assert last["usage"] == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


def test_an_upstream_that_sends_events_where_sound_was_asked_for_is_turned_into_sound() -> None:
    call = call_for()
    reply = forwarded(frames(delta(b"a"), delta(b"b"), DONE), "text/event-stream", call, response_format="wav")
    assert (reply.content_type, chunks_of(reply)) == ("audio/wav", [b"a", b"b"])
    assert call.meter.usage == Usage(input_tokens=1, output_tokens=2)


@pytest.mark.parametrize("fields", [{}, {"stream_format": "sse"}])
@pytest.mark.parametrize(
    ("raw", "content_type"), [(b"", "audio/mpeg"), (b"<html>", "text/html"), (b"{}", "application/json"), (b"", "")]
)
def test_what_is_no_sound_is_the_upstreams_fault(raw: bytes, content_type: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError) as caught:
        text_of(forwarded(raw, content_type, **fields))
    assert caught.value.status == 502


@pytest.mark.parametrize("fields", [{}, {"stream_format": "sse"}])
def test_an_error_with_status_200_is_an_error(fields: dict[str, Any]) -> None:
    raw = orjson.dumps({"error": {"message": "slow", "code": 429}})
    with pytest.raises(GateError) as caught:
        text_of(forwarded(raw, "application/json; charset=utf-8", **fields))
    assert (caught.value.status, caught.value.message) == (429, "slow")


_json = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.lists(st.none())
)


@given(body=st.dictionaries(st.sampled_from([*WRONG]), _json | st.fixed_dictionaries({"id": _json})))
def test_no_body_raises_anything_but_a_400_that_names_a_field(body: dict[str, Any]) -> None:
    wire = wire_of(ROUTE, {})
    force_setattr(wire, "json", BODY | body)
    try:
        speech.parse(call_for(), wire)
    except GateError as error:
        assert error.status == 400
        assert error.param
