"""Chunks of a stream, both halves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from plugins.openai.tests.wire.chat import strategies
from plugins.openai.tests.wire.chat.streaming import chunk, chunks_of, events_of, parts_of, result_of
from tornado_gate import sse
from tornado_gate.errors import UpstreamError, UpstreamRefused
from tornado_gate.streams.events import replay
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Audio,
    ChatResult,
    Citation,
    Data,
    Finish,
    Image,
    Link,
    PartDelta,
    PartEnd,
    PartStart,
    Refusal,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    Usage,
    UsageReport,
)
from tornado_gate_openai.wire.chat import parse_stream


@given(events=strategies.streams())
def test_parsing_what_was_rendered_gives_the_same_answer(events: list[StreamEvent]) -> None:
    chunks = chunks_of(events)
    for value in chunks:
        ChatCompletionChunk.model_validate(value | {"choices": []})
    parsed = parse_stream(iterate(chunks), audio_media_type=strategies.MEDIA_TYPE)
    assert result_of(parsed) == result_of(iterate(events))


@given(result=strategies.results())
def test_a_replayed_answer_survives_the_stream(result: ChatResult) -> None:
    chunks = chunks_of(replay(result))
    parsed = result_of(parse_stream(iterate(chunks), audio_media_type=strategies.MEDIA_TYPE))
    assert [choice.parts for choice in parsed.choices] == [choice.parts for choice in result.choices]
    assert parsed.usage == result.usage


@given(events=strategies.streams(), cut=st.integers(1, 50))
def test_the_cut_of_the_bytes_changes_nothing(events: list[StreamEvent], cut: int) -> None:
    chunks = chunks_of(events)
    raw = b"".join(map(sse.render_json, chunks)) + b"data: [DONE]\n\n"
    pieces = [raw[start : start + cut] for start in range(0, len(raw), cut)]
    whole = result_of(parse_stream(sse.read_json_frames(iterate([raw]))))
    assert result_of(parse_stream(sse.read_json_frames(iterate(pieces)))) == whole


def test_one_byte_at_a_time_gives_the_same() -> None:
    raw = b"".join(sse.render_json(chunk({"content": text})) for text in ("é", "\n\n", ""))
    raw += sse.render_json(chunk({}, finish_reason="stop")) + b"data: [DONE]\n\n"
    pieces = [raw[place : place + 1] for place in range(len(raw))]
    result = result_of(parse_stream(sse.read_json_frames(iterate(pieces))))
    assert result.choices[0].parts == (Text(text="é\n\n"),)


def test_the_vendors_own_stream_is_understood() -> None:
    events = events_of(
        [
            chunk({"role": "assistant", "content": "", "refusal": None}, logprobs=None, finish_reason=None),
            chunk({"content": "Hi"}, finish_reason=None),
            chunk({}, finish_reason="stop"),
            {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        ]
    )
    assert events == [
        ResponseStart(model="m", id="chatcmpl-1"),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hi"),
        PartEnd(index=0),
        Finish(reason="stop", raw="stop"),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    ]


def test_a_first_chunk_without_choices_does_not_start_the_answer() -> None:
    azure = {"choices": [], "created": 0, "id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}]}
    start = events_of([azure, chunk({"content": "Hi"}), chunk({}, finish_reason="stop")])[0]
    assert start == ResponseStart(model="m", id="chatcmpl-1", extra={"prompt_filter_results": [{"prompt_index": 0}]})


def test_usage_in_every_chunk_is_reported_when_it_changes() -> None:
    usages = [{"prompt_tokens": 1, "completion_tokens": count} for count in (0, 1, 1)]
    frames = [chunk({"content": "a"}) | {"usage": usage} for usage in usages]
    frames.append(chunk({}, finish_reason="stop", usage={"prompt_tokens": 1, "completion_tokens": 2}))
    reports = [event.usage.output_tokens for event in events_of(frames) if isinstance(event, UsageReport)]
    assert reports == [0, 1, 2]


def test_words_of_every_kind_become_parts() -> None:
    assert parts_of(
        {"reasoning": "hm"},
        {"reasoning_content": " so", "reasoning": " so"},
        {"reasoning_content": None, "content": "a"},
        {"content": [{"type": "text", "text": "b"}]},
        {"content": "", "annotations": [{"type": "url_citation"}]},
        {"refusal": "No."},
        {"images": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}]},
    ) == (
        Thinking(text="hm so"),
        Text(text="ab", citations=(Citation(wire_format="openai-chat", value={"type": "url_citation"}),)),
        Refusal(text="No."),
        Image(source=Link(url="https://a.example/b")),
    )


def test_audio_may_be_cut_anywhere() -> None:
    assert parts_of(
        {"audio": {"id": "audio_1", "transcript": "he"}},
        {"audio": {"data": "QU"}},
        {"audio": {"data": "JDR", "transcript": "y"}},
        {"audio": {"data": "A"}},
        {"audio": {"expires_at": 5}},
    ) == (
        Audio(
            source=Data(media_type="", base64="QUJDRA=="),
            reference="audio_1",
            transcript="hey",
            extra={"expires_at": 5},
        ),
    )


def test_probabilities_stay_with_their_words() -> None:
    entry = {"token": "a", "logprob": -1, "bytes": None, "top_logprobs": []}
    frames = [
        chunk({"content": "a"}, logprobs={"content": [entry], "refusal": None}),
        chunk({"content": ""}, logprobs={"content": [entry]}),
        chunk({}, logprobs={"content": [entry]}, finish_reason="stop"),
    ]
    result = result_of(parse_stream(iterate(frames)))
    assert result.choices[0].logprobs == {"content": [entry, entry, entry]}
    assert result.choices[0].parts == (Text(text="a"),)


def test_an_error_frame_ends_the_stream() -> None:
    error = {"error": {"message": "Too long", "type": "invalid_request_error", "param": "messages", "code": None}}
    events = events_of([chunk({"content": "a"}), error, chunk({"content": "b"})])
    last = events[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.error, UpstreamRefused)
    assert (last.error.message, last.error.param) == ("Too long", "messages")


def test_an_error_before_anything_was_said_is_raised() -> None:
    with pytest.raises(UpstreamError, match="broken"):
        events_of([{"error": "broken"}])


def test_a_stream_that_just_stops_is_an_error() -> None:
    last = events_of([chunk({"content": "a"})])[-1]
    assert isinstance(last, StreamError)


def test_a_frame_that_is_no_object_is_an_error() -> None:
    with pytest.raises(UpstreamError, match="not an object"):
        events_of([[]])


def test_what_follows_a_finish_is_ignored() -> None:
    frames = [chunk({"content": "a"}), chunk({}, finish_reason="stop"), chunk({"content": "b"}, finish_reason="stop")]
    assert [type(event).__name__ for event in events_of(frames)][-2:] == ["PartEnd", "Finish"]


def test_odd_chunks_do_no_harm() -> None:
    frames = [
        chunk(None),
        {"choices": [1, {"index": "a", "delta": {"tool_calls": [1, {"function": 5}], "audio": 1, "images": [1]}}]},
        {"choices": [{"delta": {"content": 5}, "finish_reason": 7, "logprobs": 3}], "usage": 5},
        chunk({}, finish_reason="stop"),
    ]
    assert isinstance(events_of(frames)[-1], Finish)
