"""The transcription and translation routes: what a form may hold, and the replies of both lanes."""

from __future__ import annotations

from typing import Any, get_type_hints

import orjson
import pytest
from format_openai_calls import call_for, text_of
from hypothesis import given
from hypothesis import strategies as st
from openai.types.audio.transcription_create_params import TranscriptionCreateParamsNonStreaming
from operation_calls import SECRET, FakeUpload, done, events_of, form_of, frames, make_response, read_frames

from tornado_gate.errors import GateError, InvalidField, UpstreamError, UpstreamTimeout
from tornado_gate.types import Reply, StreamError, TranscriptionRequest, TranscriptionResult, Usage, VerbatimRequest
from tornado_gate_openai.fields.transcriptions import TranscriptionFormSchema
from tornado_gate_openai.format import transcriptions

TRANSCRIPTIONS, TRANSLATIONS = transcriptions.ROUTES
SOUND = FakeUpload(b"ID3\x04\x00\x00rest")
TEXT = "text/plain; charset=utf-8"
SEGMENT = {"start": 0.0, "end": 1.0, "text": "Hello"}
RESULT = TranscriptionResult(text="Hello", usage=Usage(input_tokens=3, output_tokens=1))
TIMED = TranscriptionResult(text="Hello", segments=(SEGMENT,))


def read_request(
    *files: FakeUpload, route: Any = TRANSCRIPTIONS, call: Any = None, **fields: Any
) -> TranscriptionRequest:
    wire = form_of(route, {"model": "m", **fields}, *(files or (SOUND,)))
    request = done(transcriptions.parse(call or call_for(), wire))
    assert isinstance(request, TranscriptionRequest)
    return request


def fault_of(fields: Any, *files: FakeUpload, route: Any = TRANSCRIPTIONS) -> InvalidField:
    for hook in (transcriptions.parse, transcriptions.forward):
        with pytest.raises(InvalidField) as caught:
            done(hook(call_for(""), form_of(route, fields, *files)))
    assert caught.value.status == 400
    return caught.value


def replied(*events: Any, call: Any = None, route: Any = TRANSCRIPTIONS, **fields: Any) -> Reply:
    return transcriptions.reply(call or call_for(), read_request(route=route, **fields), events_of(*events))


def forwarded(raw: Any, content_type: str = "application/json", call: Any = None, **fields: Any) -> Reply:
    request = done(transcriptions.forward(call_for(), form_of(TRANSCRIPTIONS, {"model": "m", **fields}, SOUND)))
    return transcriptions.forward_response(call or call_for(key=SECRET), request, make_response(raw, content_type))


def test_every_field_of_the_vendor_is_known() -> None:
    assert set(get_type_hints(TranscriptionCreateParamsNonStreaming)) == set(TranscriptionFormSchema().fields)


def test_both_routes_take_forms_only() -> None:
    found = [(route.path, route.operation, route.multipart, route.wire_format) for route in transcriptions.ROUTES]
    assert found == [
        (f"/v1/audio/{name}", "transcription", "only", "openai-transcriptions")
        for name in ("transcriptions", "translations")
    ]


@pytest.mark.parametrize(
    ("param", "fields"),
    [
        ("model", {"model": ""}),
        ("model", {"model": ["a", "b"]}),
        ("language", {"language": ""}),
        ("language", {"language": ["de", "en"]}),
        ("prompt", {"prompt": ["a", "b"]}),
        ("response_format", {"response_format": "xml"}),
        ("response_format", {"response_format": ""}),
        ("response_format", {"response_format": ["json"]}),
        ("stream", {"stream": "yes"}),
        ("stream", {"stream": "1"}),
        ("temperature", {"temperature": "warm"}),
        ("temperature", {"temperature": ""}),
        ("temperature", {"temperature": "1.1"}),
        ("temperature", {"temperature": "-0.1"}),
        ("temperature", {"temperature": "nan"}),
        ("temperature", {"temperature": "0_1"}),
        ("temperature", {"temperature": "٠"}),
        ("timestamp_granularities.0", {"timestamp_granularities": "letter"}),
        ("timestamp_granularities.1", {"timestamp_granularities": ["word", "letter"]}),
    ],
)
def test_a_wrong_field_is_named(param: str, fields: dict[str, Any]) -> None:
    assert fault_of({"model": "m", **fields}, SOUND).param == param


def test_a_form_without_a_model_names_it() -> None:
    assert fault_of({}, SOUND).param == "model"


def test_a_translation_knows_no_speakers() -> None:
    fields = {"model": "m", "response_format": "diarized_json"}
    assert fault_of(fields, SOUND, route=TRANSLATIONS).param == "response_format"
    assert read_request(response_format="diarized_json").reply_state.response_format == "diarized_json"


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("missing_required_parameter", []),
        ("missing_required_parameter", [FakeUpload(b"ID3\x04", field="audio")]),
        ("invalid_value", [SOUND, SOUND]),
        ("invalid_value", [FakeUpload(b"")]),
        ("wrong_media_type", [FakeUpload(b"\x89PNG\r\n\x1a\n0000")]),
        ("wrong_media_type", [FakeUpload(b"%PDF-1.7")]),
    ],
)
def test_what_is_no_sound_is_named(code: str, files: list[FakeUpload]) -> None:
    fault = fault_of({"model": "m"}, *files)
    assert (fault.param, fault.code) == ("file", code)


def test_a_file_that_is_text_is_named() -> None:
    assert "must be a file: its part of the form needs a filename" in fault_of({"model": "m", "file": "hello"}).message


@pytest.mark.parametrize("data", [b"RIFF\0\0\0\0WAVE", b"\0\0\0\x18ftypisom", b"unknown"])
def test_sound_video_and_what_nobody_knows_pass(data: bytes) -> None:
    assert read_request(FakeUpload(data)).audio == FakeUpload(data)


def test_a_request_is_what_the_form_says() -> None:
    request = read_request(
        language="de",
        prompt="p",
        temperature="0.5",
        timestamp_granularities="word",
        include=["logprobs"],
        keywords="gate",
        stream="true",
        response_format="json",
        x_new="1",
    )
    assert (request.model, request.language, request.prompt, request.temperature) == ("m", "de", "p", 0.5)
    assert (request.timestamps, request.stream, request.reply_state.response_format) == (("word",), True, "json")
    assert request.extra == {"include": ["logprobs"], "keywords": ["gate"], "x_new": "1"}
    assert (request.translate, read_request(route=TRANSLATIONS).translate) == (False, True)
    assert read_request(stream="false").stream is False


def test_a_file_that_has_no_meaning_is_lost() -> None:
    call = call_for()
    read_request(SOUND, FakeUpload(b"x", field="other"), call=call)
    assert call.losses == ["other"]


def test_json_is_the_usual_answer() -> None:
    reply = replied(RESULT)
    assert reply.content_type == "application/json"
    assert orjson.loads(text_of(reply)) == {
        "text": "Hello",
        "usage": {"type": "tokens", "input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
    }


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("text", b"Hello\n"),
        ("srt", b"1\n00:00:00,000 --> 00:00:01,000\nHello\n\n"),
        ("vtt", b"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello\n\n"),
    ],
)
def test_text_and_subtitles_are_plain(name: str, written: bytes) -> None:
    reply = replied(TIMED, response_format=name)
    assert (reply.content_type, text_of(reply)) == (TEXT, written)


def test_verbose_json_of_a_translation_says_so() -> None:
    body = orjson.loads(text_of(replied(TIMED, route=TRANSLATIONS, response_format="verbose_json")))
    assert (body["task"], body["segments"], body["duration"]) == ("translate", [SEGMENT], 1.0)


@pytest.mark.parametrize("name", ["srt", "vtt", "diarized_json"])
def test_what_needs_times_that_are_not_there_is_a_400(name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        text_of(replied(RESULT, response_format=name))
    assert caught.value.param == "response_format"
    reply = replied(TranscriptionResult(text=""), response_format=name)  # silence needs no times
    assert b"Hello" not in text_of(reply)


def test_verbose_json_without_times_loses_them() -> None:
    call = call_for()
    body = orjson.loads(text_of(replied(RESULT, call=call, response_format="verbose_json")))
    assert (body["text"], call.losses) == ("Hello", ["timestamp_granularities"])
    with pytest.raises(InvalidField):
        text_of(replied(RESULT, call=call_for(strict=True), response_format="verbose_json"))


def test_a_stream_is_a_delta_and_the_end() -> None:
    reply = replied(RESULT, stream="true")
    assert reply.content_type == "text/event-stream; charset=utf-8"
    delta, last = read_frames(text_of(reply))
    assert delta == {"type": "transcript.text.delta", "delta": "Hello"}
    assert (last["type"], last["text"], last["usage"]["total_tokens"]) == ("transcript.text.done", "Hello", 4)


def test_a_failure_keeps_its_status() -> None:
    with pytest.raises(UpstreamTimeout):
        text_of(replied(StreamError(error=UpstreamTimeout("late"))))


def test_a_form_goes_up_as_it_came() -> None:
    fields = {"model": "m", "include": ["logprobs"], "chunking_strategy[type]": "server_vad", "stream": "true"}
    request: VerbatimRequest = done(transcriptions.forward(call_for(), form_of(TRANSLATIONS, fields, SOUND)))
    assert (request.body, request.files, request.form, request.stream) == (fields, (SOUND,), True, True)
    assert (request.path, request.operation) == ("/v1/audio/translations", "transcription")
    assert request.wire_format == "openai-transcriptions"


def test_a_form_without_a_model_means_the_default() -> None:
    wire = form_of(TRANSCRIPTIONS, {}, SOUND)
    assert done(transcriptions.forward(call_for("conf-default"), wire)).body == {}
    assert done(transcriptions.parse(call_for("conf-default"), wire)).model == "conf-default"


def test_json_passes_as_it_came_and_usage_is_noted() -> None:
    raw = b'{ "text":"\\u0048i", "usage":{"type":"tokens","input_tokens":3,"output_tokens":1},"x":1.50 }\n'
    call = call_for()
    reply = forwarded(raw, "application/json; charset=utf-8", call)
    assert (reply.content_type, text_of(reply)) == ("application/json; charset=utf-8", raw)
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=1)


@pytest.mark.parametrize("raw", [b"Hello\n", b"", b"5\n", b"<laughs>", b'{"not": "ours"', b'{"text": "Hello"}'])
@pytest.mark.parametrize("content_type", [TEXT, "application/json", ""])
def test_text_passes_as_it_came(raw: bytes, content_type: str) -> None:
    reply = forwarded([raw], content_type, response_format="text")
    assert (reply.content_type, text_of(reply)) == (content_type or TEXT, raw)


def test_events_pass_as_they_came_and_usage_is_noted() -> None:
    usage = {"type": "tokens", "input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    pieces = frames(
        {"type": "transcript.text.delta", "delta": '"error" transcript.text.done'},
        {"type": "transcript.text.done", "text": "Hi", "usage": usage},
    )
    call = call_for()
    reply = forwarded([*pieces, b"data: [DONE]\n\n"], "text/event-stream", call, stream="true")
    assert text_of(reply) == b"".join(pieces) + b"data: [DONE]\n\n"
    assert call.meter.usage == Usage(input_tokens=3, output_tokens=1)


def test_events_that_stop_end_with_an_error() -> None:
    raw = text_of(
        forwarded(frames({"type": "transcript.text.delta", "delta": "a"}), "text/event-stream", stream="true")
    )
    assert read_frames(raw)[-1]["error"]["type"] == "upstream_error"


@pytest.mark.parametrize(
    ("raw", "content_type", "fields"),
    [
        (b'{"text":"Hello","usage":{"type":"duration","seconds":2}}', "application/json", {}),
        (b"Hello\n", TEXT, {"response_format": "text"}),
    ],
)
def test_a_whole_answer_where_a_stream_was_asked_for_is_made_one(raw: bytes, content_type: str, fields: Any) -> None:
    reply = forwarded(raw, content_type, stream="true", **fields)
    assert reply.content_type == "text/event-stream; charset=utf-8"
    delta, last = read_frames(text_of(reply))
    assert (delta["delta"], last["text"]) == ("Hello", "Hello")


@pytest.mark.parametrize(
    ("raw", "content_type", "fields"),
    [
        (b"", "application/json", {}),
        (b"Hello", TEXT, {}),
        (b"{}", "application/json", {}),
        (b"[]", "application/json", {"response_format": "verbose_json"}),
        (b"<html>", "text/html", {"response_format": "text"}),
        (b"{}", "application/json", {"stream": "true"}),
    ],
)
def test_what_is_no_transcript_is_the_upstreams_fault(raw: bytes, content_type: str, fields: Any) -> None:
    with pytest.raises(UpstreamError) as caught:
        text_of(forwarded(raw, content_type, **fields))
    assert caught.value.status == 502


@pytest.mark.parametrize("fields", [{}, {"response_format": "text"}, {"stream": "true"}])
def test_an_error_with_status_200_is_an_error(fields: Any) -> None:
    raw = orjson.dumps({"error": {"message": "slow", "code": 429}})
    with pytest.raises(GateError) as caught:
        text_of(forwarded(raw, "application/json", **fields))
    assert (caught.value.status, caught.value.message) == (429, "slow")


_words = st.text(max_size=4) | st.sampled_from(["true", "0.5", "word", "srt"])


@given(
    fields=st.dictionaries(
        st.sampled_from([*TranscriptionFormSchema().fields, "x"]),
        _words | st.lists(_words, min_size=1),
    )
)
def test_no_form_raises_anything_but_a_400_that_names_a_field(fields: dict[str, Any]) -> None:
    try:
        done(transcriptions.parse(call_for(), form_of(TRANSCRIPTIONS, {"model": "m"} | fields, SOUND)))
    except GateError as error:
        assert error.status == 400
        assert error.param
