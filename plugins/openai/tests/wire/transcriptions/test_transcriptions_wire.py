"""The transcription wire format: forms, and answers in every format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio import (
    Transcription,
    TranscriptionDiarized,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.testing import call_to
from tornado_gate.types import Call, Link, TranscriptionRequest, TranscriptionResult, Usage
from tornado_gate_openai.wire import transcriptions as wire

SOUND = Link(url="https://sounds.example/a.mp3")
SEGMENTS: tuple[dict[str, Any], ...] = (
    {"id": 0, "start": 0.0, "end": 1.5, "text": " Hello\nthere ----> you "},
    {"id": 1, "start": 3661.0004, "end": 3662.25, "text": "World"},
)


def call_for(**fields: Any) -> Call:
    return call_to(operation="transcription", model="m", upstream_model="up", **fields)


def read_request(translate: bool = False, **fields: Any) -> TranscriptionRequest:
    return wire.parse_request({"model": "m", **fields}, SOUND, model="m", translate=translate)


def test_a_form_is_a_request() -> None:
    request = read_request(
        language="de",
        prompt="p",
        temperature="0.5",
        timestamp_granularities=["word"],
        include=["logprobs"],
        stream="true",
    )
    assert (request.language, request.prompt, request.temperature) == ("de", "p", 0.5)
    assert (request.timestamps, request.extra, request.audio) == (("word",), {"include": ["logprobs"]}, SOUND)
    assert (request.field_name("audio"), request.field_name("timestamps")) == ("file", "timestamp_granularities")


@pytest.mark.parametrize("name", ["srt", "vtt", "verbose_json", "diarized_json"])
def test_a_format_that_needs_times_asks_for_segments(name: str) -> None:
    request = read_request(response_format=name)
    assert (request.timestamps, request.field_name("timestamps")) == (("segment",), "response_format")


@pytest.mark.parametrize("name", ["json", "text", None])
def test_a_format_that_needs_none_asks_for_none(name: str | None) -> None:
    request = read_request(response_format=name)
    assert request.timestamps == ()
    assert wire.render_request(call_for(), request) == {"model": "up", "response_format": "json"}


def test_the_fields_of_a_form_go_up() -> None:
    call = call_for()
    fields = wire.render_request(
        call, read_request(language="de", prompt="p", temperature="0.5", response_format="srt", include=["logprobs"])
    )
    assert fields == {
        "model": "up",
        "response_format": "verbose_json",
        "language": "de",
        "prompt": "p",
        "temperature": "0.5",
        "timestamp_granularities": ["segment"],
        "include": ["logprobs"],
    }
    assert call.losses == []


def test_a_translation_has_no_language_to_choose() -> None:
    call = call_for()
    fields = wire.render_request(call, read_request(translate=True, language="de", response_format="verbose_json"))
    assert fields == {"model": "up", "response_format": "verbose_json"}
    assert call.losses == ["language"]


def test_unknown_fields_of_another_format_are_lost() -> None:
    call = call_for()
    request = TranscriptionRequest(model="m", wire_format="else", audio=SOUND, extra={"x": "1"})
    assert wire.render_request(call, request) == {"model": "up", "response_format": "json"}
    assert call.losses == ["x"]


def test_an_answer_is_read_whole() -> None:
    body = {
        "task": "transcribe",
        "text": "Hello",
        "language": "english",
        "duration": "1.5",
        "segments": [{"start": 0, "end": 1, "text": "Hello"}, {"text": "no times"}],
        "words": [{"word": "Hello", "start": 0.0, "end": 0.5}],
        "usage": {"type": "tokens", "input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        "logprobs": [],
    }
    assert wire.parse_response(body) == TranscriptionResult(
        text="Hello",
        language="english",
        duration=1.5,
        segments=({"start": 0, "end": 1, "text": "Hello"},),
        words=({"word": "Hello", "start": 0.0, "end": 0.5},),
        usage=Usage(input_tokens=5, output_tokens=2),
        extra={"logprobs": []},
    )


@pytest.mark.parametrize("body", [None, [], {}, {"text": None}, {"text": 5}])
def test_an_answer_without_text_is_the_upstreams_fault(body: Any) -> None:
    with pytest.raises(UpstreamError):
        wire.parse_response(body)


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(GateError) as caught:
        wire.parse_response({"error": {"message": "slow", "code": 429}})
    assert caught.value.status == 429


def test_what_is_not_of_its_type_is_left_out() -> None:
    result = wire.parse_response({"text": "a", "duration": True, "language": 5, "segments": "x", "usage": 1})
    assert result == TranscriptionResult(text="a")


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        ({"type": "duration", "seconds": 4}, Usage(extra={"type": "duration", "seconds": 4})),
        (
            {"type": "tokens", "input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_token_details": {}},
            Usage(input_tokens=1, output_tokens=2, extra={"input_token_details": {}}),
        ),
        ({"type": "tokens"}, None),
        (None, None),
    ],
)
def test_usage_is_in_tokens_or_in_seconds(value: Any, usage: Usage | None) -> None:
    assert wire.parse_usage(value) == usage
    if usage is not None:
        assert wire.render_usage(usage) == value


RESULT = TranscriptionResult(
    text="Hello World",
    language="english",
    duration=9.5,
    segments=SEGMENTS,
    usage=Usage(input_tokens=5, output_tokens=2),
)


def test_json_is_text_and_usage() -> None:
    body = wire.render_response(RESULT, "json")
    assert body == {
        "text": "Hello World",
        "usage": {"type": "tokens", "input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
    }
    Transcription.model_validate(body, strict=True)


def test_verbose_json_has_times() -> None:
    body = wire.render_response(RESULT, "verbose_json", translate=True)
    assert {name: value for name, value in body.items() if name != "usage"} == {
        "task": "translate",
        "language": "english",
        "duration": 9.5,
        "text": "Hello World",
        "segments": list(SEGMENTS),
    }
    TranscriptionVerbose.model_validate(
        wire.render_response(TranscriptionResult(text="a"), "verbose_json"), strict=True
    )


def test_diarized_json_says_who_spoke() -> None:
    spoken = {"type": "transcript.text.segment", "id": "s", "speaker": "A", "start": 0.0, "end": 2.5, "text": "Hi"}
    body = wire.render_response(TranscriptionResult(text="Hi", segments=(spoken,)), "diarized_json")
    answer = TranscriptionDiarized.model_validate(body, strict=True)
    assert (answer.duration, answer.segments[0].speaker) == (2.5, "A")
    assert "language" not in body


def test_subtitles_are_made_of_segments() -> None:
    assert wire.render_plain(RESULT, "srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello there -> you\n\n2\n01:01:01,000 --> 01:01:02,250\nWorld\n\n"
    )
    assert wire.render_plain(RESULT, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there -> you\n\n01:01:01.000 --> 01:01:02.250\nWorld\n\n"
    )
    assert wire.render_plain(RESULT, "text") == "Hello World\n"


def test_a_stream_is_a_delta_and_the_end() -> None:
    delta, done = wire.render_stream(RESULT)
    assert TranscriptionTextDeltaEvent.model_validate(delta, strict=True).delta == "Hello World"
    answer = TranscriptionTextDoneEvent.model_validate(done, strict=True)
    assert answer.text == "Hello World"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 7


def test_silence_is_an_end_without_a_delta() -> None:
    result = TranscriptionResult(text="", extra={"languages": [], "x": 1})
    assert list(wire.render_stream(result)) == [{"type": "transcript.text.done", "text": "", "languages": []}]


_seconds = st.floats(0, 1e6)
_segments = st.lists(
    st.fixed_dictionaries({"start": _seconds, "end": _seconds, "text": st.text(max_size=9)}), max_size=3
)


@given(
    text=st.text(max_size=20),
    language=st.text(max_size=9),
    duration=_seconds,
    segments=_segments,
    words=_segments,
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 99), output_tokens=st.integers(0, 99)),
    extra=st.dictionaries(st.sampled_from(["x", "logprobs"]), st.integers()),
)
def test_what_is_written_is_read_again(segments: Any, words: Any, **fields: Any) -> None:
    result = TranscriptionResult(segments=tuple(segments), words=tuple(words), **fields)
    assert wire.parse_response(wire.render_response(result, "verbose_json")) == result


@given(segments=_segments)
def test_no_text_breaks_a_subtitle(segments: Any) -> None:
    result = TranscriptionResult(text="", segments=tuple(segments))
    for name in ("srt", "vtt"):
        written = wire.render_plain(result, name)
        assert written.count(" --> ") == len(segments)
        assert written.count("-->") == len(segments)
