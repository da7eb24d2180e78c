"""Chunks of a stream, both halves."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types as vendor
from hypothesis import given
from hypothesis import strategies as st

from plugins.gemini.tests.wire.generate import strategies
from plugins.gemini.tests.wire.generate.streaming import chunk, chunks_of, events_of, parts_of, result_of
from tornado_gate import sse
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.streams.events import replay
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    Finish,
    Image,
    Opaque,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    VendorPart,
    replace,
)
from tornado_gate_gemini.wire.generate import parse_stream


def merged(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Neighbours of one kind are one part in a stream, unless the first was signed."""
    result: list[Part] = []
    for part in parts:
        last = result[-1] if result else None
        if isinstance(part, Text | Thinking) and type(last) is type(part) and last.signature is None:
            result[-1] = replace(part, text=last.text + part.text)
        else:
            result.append(part)
    return tuple(result)


@given(result=strategies.results)
def test_parsing_what_was_rendered_gives_the_same_answer(result: ChatResult) -> None:
    chunks = chunks_of(replay(result))
    for value in chunks:
        vendor.GenerateContentResponse.model_validate(value)
    parsed = result_of(parse_stream(iterate(chunks)))
    expected = tuple(replace(choice, parts=merged(choice.parts)) for choice in result.choices)
    assert parsed == replace(result, choices=expected)


@given(result=strategies.results, cut=st.integers(1, 50))
def test_the_cut_of_the_bytes_changes_nothing(result: ChatResult, cut: int) -> None:
    raw = b"".join(map(sse.render_json, chunks_of(replay(result))))
    pieces = [raw[start : start + cut] for start in range(0, len(raw), cut)]
    whole = result_of(parse_stream(sse.read_json_frames(iterate([raw]))))
    assert result_of(parse_stream(sse.read_json_frames(iterate(pieces)))) == whole


def test_one_byte_at_a_time_gives_the_same() -> None:
    raw = b"".join(map(sse.render_json, [chunk({"text": "é"}), chunk({"text": "\n\n"}), chunk(finishReason="STOP")]))
    pieces = [raw[place : place + 1] for place in range(len(raw))]
    result = result_of(parse_stream(sse.read_json_frames(iterate(pieces))))
    assert result.choices[0].parts == (Text(text="é\n\n"),)


def test_the_vendors_own_stream_is_understood() -> None:
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    events = events_of(
        [
            chunk({"text": "H"}) | {"usageMetadata": usage},
            chunk({"text": "i"}) | {"usageMetadata": usage},
            chunk({"text": ""}, finishReason="STOP") | {"usageMetadata": usage | {"candidatesTokenCount": 2}},
        ]
    )
    assert events == [
        ResponseStart(model="m", id="r"),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=1)),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="H"),
        PartDelta(index=0, data="i"),
        UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
        PartEnd(index=0),
        Finish(reason="stop", raw="STOP"),
    ]


def test_words_of_every_kind_become_parts() -> None:
    signature = Opaque(issuer="", value="AAEC")
    assert parts_of(
        {"text": "h", "thought": True},
        {"text": "m", "thought": True, "thoughtSignature": "AAEC"},
        {"text": "a"},
        {"text": "b"},
        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "thoughtSignature": "AAEC"},
        {"functionCall": {"id": "d", "name": "g"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAEC"}},
        {"toolCall": {"toolType": "URL_CONTEXT"}},
        {"text": "c"},
        {"text": "", "thoughtSignature": "AAEC"},
    ) == (
        Thinking(text="hm", signature=signature),
        Text(text="ab"),
        ToolCall(id="c", name="f", arguments='{"a":1}', signature=signature),
        ToolCall(id="d", name="g", arguments="{}"),
        Image(source=Data(media_type="image/png", base64="AAEC")),
        Audio(source=Data(media_type="audio/wav", base64="AAEC")),
        VendorPart(wire_format="gemini-generate", value={"toolCall": {"toolType": "URL_CONTEXT"}}),
        Text(text="c", signature=signature),
    )


def test_calls_that_ended_with_stop_are_tool_calls_in_a_stream_too() -> None:
    last = events_of([chunk({"functionCall": {"name": "f"}}), chunk(finishReason="STOP")])[-1]
    assert last == Finish(reason="tool_calls", raw="STOP")


def test_a_blocked_prompt_is_a_filtered_end() -> None:
    events = events_of([{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": "m"}])
    assert events[-1] == Finish(reason="content_filter", raw="PROHIBITED_CONTENT")
    (last,) = chunks_of(events)
    assert "candidates" not in last
    assert last["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}


def test_probabilities_stay_with_their_words() -> None:
    entry = {"token": "a", "logProbability": -1.0}
    logprobs = {"chosenCandidates": [entry], "topCandidates": [{"candidates": [entry]}]}
    events = events_of([chunk({"text": "a"}, logprobsResult=logprobs), chunk(finishReason="STOP")])
    result = result_of(iterate(events))
    assert result.choices[0].logprobs is not None
    assert [one["token"] for one in result.choices[0].logprobs["content"]] == ["a"]
    assert chunks_of(events)[0]["candidates"][0]["logprobsResult"] == logprobs


def test_interleaved_candidates_are_told_apart() -> None:
    chunks = [chunk({"text": text}, index=index) for index, text in ((0, "l"), (1, "r"), (0, "eft"), (1, "ight"))]
    ends = [chunk(index=index, finishReason="STOP") for index in (1, 0)]
    result = result_of(parse_stream(iterate([*chunks, *ends])))
    assert [choice.parts for choice in result.choices] == [(Text(text="left"),), (Text(text="right"),)]


def test_metadata_beside_the_words_is_in_the_finish() -> None:
    grounding = {"groundingMetadata": {"webSearchQueries": ["q"]}}
    events = events_of([chunk({"text": "a"}, **grounding), chunk(finishReason="STOP", avgLogprobs=-0.1)])
    assert events[-1] == Finish(reason="stop", raw="STOP", extra={**grounding, "avgLogprobs": -0.1})


def test_an_error_chunk_ends_the_stream() -> None:
    error = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
    last = events_of([chunk({"text": "a"}), error, chunk({"text": "b"})])[-1]
    assert isinstance(last, StreamError)
    assert isinstance(last.error, UpstreamOverloaded)


def test_an_error_before_anything_was_said_is_raised() -> None:
    with pytest.raises(UpstreamError, match="broken"):
        events_of([{"error": "broken"}])


def test_a_stream_that_just_stops_is_an_error() -> None:
    assert isinstance(events_of([chunk({"text": "a"})])[-1], StreamError)


def test_a_chunk_that_is_no_object_is_an_error() -> None:
    with pytest.raises(UpstreamError, match="not a JSON object"):
        events_of([5])


def test_what_follows_a_finish_is_ignored() -> None:
    chunks = [chunk({"text": "a"}), chunk(finishReason="STOP"), chunk({"text": "b"}, finishReason="STOP")]
    assert [type(event).__name__ for event in events_of(chunks)][-2:] == ["PartEnd", "Finish"]


@given(
    chunks=st.lists(
        st.dictionaries(st.sampled_from(["candidates", "usageMetadata", "modelVersion"]), strategies.values), max_size=3
    )
)
def test_odd_chunks_do_no_harm(chunks: list[dict[str, Any]]) -> None:
    assert isinstance(events_of([*chunks, chunk({"text": "a"}, finishReason="STOP")])[-1], Finish)


# The server half


def streamed(*parts: Part, reason: Any = "stop", **options: Any) -> list[dict[str, Any]]:
    result = ChatResult(model="up", choices=(Choice(parts=parts, reason=reason),), usage=Usage(input_tokens=1))
    return chunks_of(replay(result), **options)


def said(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]


def test_each_piece_of_text_is_a_chunk_at_once() -> None:
    events: list[StreamEvent] = [
        ResponseStart(model="up"),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="a"),
        PartDelta(index=0, data="b"),
        PartEnd(index=0),
        Finish(reason="stop"),
    ]
    assert said(chunks_of(events)) == [{"text": "a"}, {"text": "b"}, {"text": ""}]


def test_the_last_chunk_alone_has_the_reason_and_the_usage() -> None:
    *chunks, last = streamed(Text(text="a"), Text(text="b"))
    assert all("finishReason" not in one["candidates"][0] and "usageMetadata" not in one for one in chunks)
    assert last["candidates"][0]["finishReason"] == "STOP"
    assert last["usageMetadata"]["promptTokenCount"] == 1
    assert {(one["modelVersion"], one["responseId"]) for one in (*chunks, last)} == {("m", "made")}


def test_usage_that_comes_after_the_finish_is_in_the_last_chunk() -> None:
    events: list[StreamEvent] = [
        ResponseStart(model="up", id="theirs"),
        Finish(reason="stop"),
        UsageReport(usage=Usage(input_tokens=7)),
    ]
    (last,) = chunks_of(events)
    assert (last["usageMetadata"]["promptTokenCount"], last["responseId"]) == (7, "theirs")


def test_a_call_comes_whole_however_it_was_cut_and_overlapping_calls_stay_apart() -> None:
    events: list[StreamEvent] = [
        ResponseStart(model="up"),
        PartStart(index=0, kind="tool_call", id="c0", name="f"),
        PartDelta(index=0, data='{"a"'),
        PartStart(index=1, kind="tool_call", id="c1", name="g"),
        PartDelta(index=1, data='{"b":2}'),
        PartDelta(index=0, data=":1}"),
        PartEnd(index=0, signature=Opaque(issuer="p", value="AAEC")),
        PartEnd(index=1),
        Finish(reason="tool_calls"),
    ]
    chunks = chunks_of(events)
    assert said(chunks[:-1]) == [
        {"functionCall": {"id": "c0", "name": "f", "args": {"a": 1}}, "thoughtSignature": "AAEC"},
        {"functionCall": {"id": "c1", "name": "g", "args": {"b": 2}}},
    ]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_broken_arguments_end_the_stream_with_their_own_reason() -> None:
    chunks = streamed(ToolCall(id="c", name="f", arguments="{"), reason="tool_calls")
    assert [one["candidates"][0].get("finishReason") for one in chunks] == ["MALFORMED_FUNCTION_CALL"]


def test_thoughts_are_streamed_to_those_who_asked() -> None:
    thought = Thinking(text="hm", signature=Opaque(issuer="p", value="AAEC"))
    assert said(streamed(thought, Text(text="a"), include_thoughts=False)) == [{"text": "a"}, {"text": ""}]
    assert said(streamed(thought, Text(text="a"), include_thoughts=True)) == [
        {"text": "hm", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "AAEC"},
        {"text": "a"},
        {"text": ""},
    ]


def test_a_failure_is_raised_and_no_normal_end_follows() -> None:
    events: list[StreamEvent] = [ResponseStart(model="up"), StreamError(error=UpstreamError("gone"))]
    with pytest.raises(UpstreamError, match="gone"):
        chunks_of(events)
