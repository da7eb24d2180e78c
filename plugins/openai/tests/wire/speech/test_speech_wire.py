"""The speech wire format: requests, and answers that are the sound itself or events."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate import sse
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams.events import OrderChecker
from tornado_gate.testing import call_to
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
from tornado_gate_openai.wire import speech as wire

BODY: dict[str, Any] = {"model": "m", "input": "Hello", "voice": "alloy"}


def call_for(**fields: Any) -> Call:
    return call_to(operation="speech", model="m", upstream_model="up", **fields)


def read_request(**fields: Any) -> SpeechRequest:
    return wire.parse_request(BODY | fields, model="m")


def heard(pieces: Iterable[bytes], content_type: str = "", **fields: Any) -> list[StreamEvent]:
    async def chunks() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def collect() -> list[StreamEvent]:
        headers = {"content-type": content_type} if content_type else {}
        events = wire.parse_response(UpstreamResponse(chunks=chunks(), headers=headers), read_request(**fields))
        return [event async for event in events]

    return asyncio.run(collect())


def frames(*events: Any) -> list[bytes]:
    return [sse.render_json(event) for event in events]


def delta(sound: bytes) -> dict[str, Any]:
    return {"type": "speech.audio.delta", "audio": base64.b64encode(sound).decode()}


def test_a_request_is_what_is_to_be_spoken() -> None:
    request = read_request(instructions="calmly", response_format="wav", speed=1.5, x_new=1, x_none=None)
    assert request == SpeechRequest(
        model="m",
        wire_format="openai-speech",
        text="Hello",
        voice="alloy",
        instructions="calmly",
        speed=1.5,
        format="wav",
        extra={"x_new": 1},
        names=wire.FIELD_NAMES,
    )
    assert [request.field_name(name) for name in ("text", "format", "stream")] == [
        "input",
        "response_format",
        "stream_format",
    ]


@pytest.mark.parametrize(
    ("fields", "stream"),
    [
        ({}, False),
        ({"stream_format": "sse"}, True),
        ({"stream_format": "audio"}, True),
        ({"response_format": "pcm"}, True),
        ({"response_format": "wav"}, False),
    ],
)
def test_who_says_how_to_stream_gets_the_sound_while_it_is_made(fields: dict[str, Any], stream: bool) -> None:
    assert read_request(**fields).stream is stream


@pytest.mark.parametrize(
    "fields", [{}, {"voice": {"id": "voice_1"}, "speed": 2, "x": [1]}, {"response_format": "flac"}]
)
def test_a_request_goes_up_as_it_was_said(fields: dict[str, Any]) -> None:
    call = call_for()
    assert wire.render_request(call, read_request(**fields)) == BODY | fields | {"model": "up"}
    assert call.losses == []


def test_a_voice_of_ones_own_means_nothing_to_another_vendor() -> None:
    request = read_request(voice={"id": "voice_1"})
    assert (request.voice, request.extra) == (None, {"voice": {"id": "voice_1"}})


def test_what_another_format_says_and_this_one_cannot_is_lost() -> None:
    request = SpeechRequest(model="m", wire_format="gemini", text="a", language="de", extra={"topK": 1})
    call = call_for()
    assert wire.render_request(call, request) == {"model": "up", "input": "a"}
    assert call.losses == ["language", "topK"]


@pytest.mark.parametrize(
    ("content_type", "fields", "media_type"),
    [
        ("audio/mpeg", {}, "audio/mpeg"),
        ("audio/wav; rate=24000", {}, "audio/wav"),
        ("application/octet-stream", {"response_format": "opus"}, "audio/ogg"),
        ("", {"response_format": "pcm"}, "audio/pcm"),
        ("", {}, "audio/mpeg"),
    ],
)
def test_sound_passes_as_it_comes(content_type: str, fields: dict[str, Any], media_type: str) -> None:
    assert heard([b"a", b"", b"b"], content_type, **fields) == [
        SpeechStart(media_type=media_type),
        SpeechChunk(data=b"a"),
        SpeechChunk(data=b"b"),
        SpeechEnd(),
    ]


def test_sound_in_events_is_the_same_sound() -> None:
    usage = {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12}
    pieces = frames(delta(b"a"), {"type": "speech.new"}, delta(b"bc"), {"type": "speech.audio.done", "usage": usage})
    assert heard(pieces, "text/event-stream; charset=utf-8", response_format="aac") == [
        SpeechStart(media_type="audio/aac"),
        SpeechChunk(data=b"a"),
        SpeechChunk(data=b"bc"),
        SpeechEnd(usage=Usage(input_tokens=3, output_tokens=9)),
    ]


@pytest.mark.parametrize(
    ("pieces", "content_type"),
    [
        ([], "audio/mpeg"),
        ([b""], "audio/mpeg"),
        ([b"<html>"], "text/html"),
        ([b"{}"], "application/json"),
        (frames({"type": "speech.audio.done"}), "text/event-stream"),
        (frames(delta(b"a")), "text/event-stream"),
        (frames({"type": "speech.audio.delta", "audio": "!"}), "text/event-stream"),
        (frames({"type": "speech.audio.delta", "audio": 5}), "text/event-stream"),
        (frames({"type": "speech.audio.delta"}), "text/event-stream"),
        ([b"data: oops\n\n"], "text/event-stream"),
    ],
)
def test_an_answer_without_sound_is_the_upstreams_fault(pieces: list[bytes], content_type: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        heard(pieces, content_type)
    assert caught.value.status == 502


@pytest.mark.parametrize(
    ("pieces", "content_type"),
    [
        ([orjson.dumps({"error": {"message": "slow", "code": 429}})], "application/json"),
        (frames(delta(b"a"), {"error": {"message": "slow", "code": 429}}), "text/event-stream"),
        (frames({"type": "error", "message": "slow", "code": "429"}), "text/event-stream"),
        (frames({"type": "error", "error": {"message": "slow", "status": 429}}), "text/event-stream"),
    ],
)
def test_an_error_is_an_error_wherever_it_comes(pieces: list[bytes], content_type: str) -> None:
    with pytest.raises(GateError) as caught:
        heard(pieces, content_type)
    assert (caught.value.status, caught.value.message) == (429, "slow")


@given(
    sound=st.binary(min_size=1, max_size=200_000),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
)
def test_events_that_are_written_are_read_again(sound: bytes, usage: Usage | None) -> None:
    written = frames(*wire.render_deltas(sound), wire.render_done(usage))
    events = heard(written, "text/event-stream")
    checker = OrderChecker()
    for event in events:
        checker.check(event)
    assert checker.is_complete()
    assert b"".join(event.data for event in events if isinstance(event, SpeechChunk)) == sound
    assert events[-1] == SpeechEnd(usage=usage or Usage(input_tokens=0, output_tokens=0))
    assert max(map(len, written)) < wire.DELTA_BYTES * 2


def test_usage_has_all_three_counts() -> None:
    assert wire.render_usage(None) == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert wire.parse_usage({"input_tokens": True}) is None
