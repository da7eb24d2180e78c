"""Chunks of a stream, both halves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from tests.wire.openai_chat import strategies
from tornado_gate import sse, stream
from tornado_gate.errors import GateError, UpstreamError, UpstreamRefused
from tornado_gate.types import (
    Audio,
    ChatResult,
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
    ToolCall,
    Usage,
    UsageReport,
)
from tornado_gate.wire.openai_chat import parse_chunks, render_chunks


async def aiter_of(items: Iterable[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield item


def blamed(error: stream.OrderError, what: str) -> GateError:
    raise AssertionError(what) from error


def chunks_of(events: Iterable[StreamEvent], include_usage: bool = True) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        chunks = render_chunks(aiter_of(events), id="chatcmpl-made", model="m", created=7, include_usage=include_usage)
        return [chunk async for chunk in chunks]

    return asyncio.run(collect())


def events_of(frames: Iterable[Any]) -> list[StreamEvent]:
    async def collect() -> list[StreamEvent]:
        return [event async for event in stream.checked(parse_chunks(aiter_of(frames)), blamed)]

    return asyncio.run(collect())


def result_of(events: AsyncIterator[StreamEvent]) -> ChatResult:
    async def collect() -> ChatResult:
        return await stream.collect(stream.checked(events, blamed))

    return asyncio.run(collect())


def parts_of(*deltas: dict[str, Any], finish: str = "stop") -> tuple[Any, ...]:
    """The parts of the only choice after these deltas."""
    frames = [chunk(delta) for delta in deltas]
    return result_of(parse_chunks(aiter_of([*frames, chunk({}, finish_reason=finish)]))).choices[0].parts


def chunk(delta: Any, **choice: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, **choice}]}


def tool_delta(text: str | None = None, *, key: str = "function", **fields: Any) -> dict[str, Any]:
    inner = {name: fields.pop(name) for name in ("name",) if name in fields}
    if text is not None:
        inner["arguments"] = text
    return {"tool_calls": [{**fields, key: inner}]}


@given(events=strategies.streams())
def test_parsing_what_was_rendered_gives_the_same_answer(events: list[StreamEvent]) -> None:
    chunks = chunks_of(events)
    for value in chunks:
        ChatCompletionChunk.model_validate(value | {"choices": []})
    parsed = parse_chunks(aiter_of(chunks), audio_media_type=strategies.MEDIA_TYPE)
    assert result_of(parsed) == result_of(aiter_of(events))


@given(result=strategies.results())
def test_a_replayed_answer_survives_the_stream(result: ChatResult) -> None:
    chunks = chunks_of(stream.replay(result))
    parsed = result_of(parse_chunks(aiter_of(chunks), audio_media_type=strategies.MEDIA_TYPE))
    assert [choice.parts for choice in parsed.choices] == [choice.parts for choice in result.choices]
    assert parsed.usage == result.usage


@given(events=strategies.streams(), cut=st.integers(1, 50))
def test_the_cut_of_the_bytes_changes_nothing(events: list[StreamEvent], cut: int) -> None:
    chunks = chunks_of(events)
    raw = b"".join(map(sse.render_json, chunks)) + b"data: [DONE]\n\n"
    pieces = [raw[start : start + cut] for start in range(0, len(raw), cut)]
    whole = result_of(parse_chunks(sse.json_frames(aiter_of([raw]))))
    assert result_of(parse_chunks(sse.json_frames(aiter_of(pieces)))) == whole


def test_one_byte_at_a_time_gives_the_same() -> None:
    raw = b"".join(sse.render_json(chunk({"content": text})) for text in ("é", "\n\n", ""))
    raw += sse.render_json(chunk({}, finish_reason="stop")) + b"data: [DONE]\n\n"
    pieces = [raw[place : place + 1] for place in range(len(raw))]
    result = result_of(parse_chunks(sse.json_frames(aiter_of(pieces))))
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


@pytest.mark.parametrize(
    ("deltas", "arguments"),
    [
        pytest.param(
            [
                tool_delta("", index=0, id="a", name="f"),
                tool_delta('{"x":', index=0),
                tool_delta("1}", index=0),
                tool_delta("", index=1, id="b", name="g"),
                tool_delta("{}", index=1),
            ],
            ['{"x":1}', "{}"],
            id="the vendor's own way",
        ),
        pytest.param(
            [
                tool_delta("", index=0, id="a", name="f"),
                tool_delta("", index=1, id="b", name="g"),
                tool_delta('{"x"', index=1),
                tool_delta('{"y"', index=0),
                tool_delta(":1}", index=1),
                tool_delta(":2}", index=0),
            ],
            ['{"y":2}', '{"x":1}'],
            id="interleaved",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, id="a", name="f"), tool_delta('{"x":2}', index=0, id="b", name="g")],
            ['{"x":1}', '{"x":2}'],
            id="index always 0",
        ),
        pytest.param(
            [
                tool_delta("", id="a", name="f"),
                tool_delta('{"x":1}'),
                tool_delta("", id="b", name="g"),
                tool_delta('{"x":2}'),
            ],
            ['{"x":1}', '{"x":2}'],
            id="no index",
        ),
        pytest.param(
            [
                tool_delta('{"x"', index=0, id="a", name="f"),
                tool_delta(":1}", index=0, id="a", name="f"),
                tool_delta("{", index=1, id="b", name="g"),
                tool_delta("}", index=1, id="b", name="g"),
            ],
            ['{"x":1}', "{}"],
            id="repeated id and name",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, id="f", name="f"), tool_delta('{"x":2}', index=1, id="f", name="f")],
            ['{"x":1}', '{"x":2}'],
            id="two calls with the same id",
        ),
        pytest.param(
            [tool_delta('{"x":1}', name="f"), tool_delta('{"x":2}', name="f")],
            ['{"x":1}', '{"x":2}'],
            id="whole calls without id or index",
        ),
        pytest.param(
            [tool_delta('{"x":1}', index=0, name="f"), tool_delta('{"x":2}', index=0, name="f")],
            ['{"x":1}', '{"x":2}'],
            id="whole calls without id, index 0",
        ),
        pytest.param(
            [
                {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                        {"id": "b", "function": {"name": "g", "arguments": None}},
                    ]
                }
            ],
            ['{"x":1}', ""],
            id="whole calls at once, arguments as an object",
        ),
        pytest.param(
            [tool_delta('{"x":', index=0, id="a"), tool_delta("1}", index=0, name="f"), tool_delta("\n", index=0)],
            ['{"x":1}\n'],
            id="the name comes late",
        ),
        pytest.param([tool_delta("{}", index=0, id="a")], ["{}"], id="the name never comes"),
        pytest.param(
            [
                tool_delta("{}", index=0, id="a", name="f"),
                tool_delta("{}", index=1, id="b", name="g"),
                tool_delta("{}", index=0, id="a", name="f"),
            ],
            ["{}", "{}"],
            id="a whole call is repeated at the end",
        ),
    ],
)
def test_tool_calls_are_told_apart(deltas: list[dict[str, Any]], arguments: list[str]) -> None:
    calls = parts_of(*deltas)
    assert [call.arguments for call in calls] == arguments
    assert [call.name for call in calls] in (["f", "g"], ["f", "f"], ["f"], [""])
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.id for call in calls)


def test_a_call_that_goes_on_after_its_end_is_an_error() -> None:
    events = events_of(
        [
            chunk(tool_delta("{}", index=0, id="a", name="f")),
            chunk(tool_delta("{}", index=1, id="b", name="g")),
            chunk(tool_delta(',"x"', index=0)),
        ]
    )
    assert isinstance(events[-1], StreamError)


def test_a_complete_call_ends_before_the_next_begins() -> None:
    events = events_of(
        [
            chunk(tool_delta("{}", index=0, id="a", name="f")),
            chunk(tool_delta("{}", index=1, id="b", name="g")),
            chunk({}, finish_reason="tool_calls"),
        ]
    )
    order = [type(event).__name__ for event in events]
    assert order == ["ResponseStart", *(["PartStart", "PartDelta", "PartEnd"] * 2), "Finish"]


def test_unknown_members_of_a_call_are_kept() -> None:
    value = {"index": 0, "id": "a", "extra_content": {"x": 1}, "function": {"name": "f", "arguments": "{}"}}
    assert parts_of({"tool_calls": [value]}) == (
        ToolCall(id="a", name="f", arguments="{}", extra={"extra_content": {"x": 1}}),
    )


def test_a_legacy_function_call_survives_both_ways() -> None:
    frames = [
        chunk({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, finish_reason="function_call"),
    ]
    chunks = chunks_of(events_of(frames), include_usage=False)
    assert [value["choices"][0]["delta"] for value in chunks] == [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
        {},
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


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
        Text(text="ab", extra={"annotations": [{"type": "url_citation"}]}),
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
    result = result_of(parse_chunks(aiter_of(frames)))
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


EVENTS: list[StreamEvent] = [
    ResponseStart(model="upstream", id="msg_1", extra={"system_fingerprint": "fp", "container": "x"}),
    PartStart(index=0, kind="thinking"),
    PartDelta(index=0, data="hm"),
    PartEnd(index=0),
    PartStart(index=1, kind="text", choice=0),
    PartDelta(index=1, data="Hi", logprobs=({"token": "Hi"},)),
    PartDelta(index=1, data=""),
    PartEnd(index=1),
    PartStart(index=2, kind="tool_call", id="c1", name="f"),
    PartStart(index=3, kind="tool_call", id="c2", name="g", tool_kind="custom"),
    PartDelta(index=3, data="ls"),
    PartDelta(index=2, data="{}"),
    PartEnd(index=3),
    PartEnd(index=2),
    UsageReport(usage=Usage(input_tokens=1, output_tokens=2)),
    Finish(reason="tool_calls", raw="tool_use"),
    Finish(reason="stop", choice=1),
]


def test_chunks_have_the_vendors_shape() -> None:
    chunks = chunks_of(EVENTS)
    assert [value["choices"][0] for value in chunks[:-1]] == [
        {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        for index, delta, logprobs, finish in [
            (0, {"role": "assistant", "content": None, "reasoning_content": "hm"}, None, None),
            (0, {"content": "Hi"}, {"content": [{"token": "Hi"}], "refusal": None}, None),
            (0, {"tool_calls": [opened(0, "c1", "function", {"name": "f", "arguments": ""})]}, None, None),
            (0, {"tool_calls": [opened(1, "c2", "custom", {"name": "g", "input": ""})]}, None, None),
            (0, {"tool_calls": [{"index": 1, "custom": {"input": "ls"}}]}, None, None),
            (0, {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, None, None),
            (0, {}, None, "tool_calls"),
            (1, {"role": "assistant", "content": ""}, None, "stop"),
        ]
    ]
    assert all(value["usage"] is None for value in chunks[:-1])
    assert chunks[-1] == {
        "id": "chatcmpl-made",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def opened(index: int, call_id: str, kind: str, inner: dict[str, str]) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": kind, kind: inner}


def test_usage_is_absent_unless_it_was_asked_for() -> None:
    chunks = chunks_of(EVENTS, include_usage=False)
    assert all("usage" not in value and value["choices"] for value in chunks)


def test_parts_without_a_word_of_their_own_are_left_out() -> None:
    image = Image(source=Link(url="https://a.example/b"))
    chunks = chunks_of(
        [
            ResponseStart(model="m"),
            PartStart(index=0, kind="thinking", redacted=True),
            PartEnd(index=0),
            PartStart(index=1, kind="image", part=image),
            PartEnd(index=1),
            Finish(reason="stop"),
        ],
        include_usage=False,
    )
    assert [value["choices"][0]["delta"] for value in chunks] == [
        {
            "role": "assistant",
            "content": None,
            "images": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}],
        },
        {},
    ]


def test_a_stream_error_is_raised_and_never_a_finish() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        chunks_of([*EVENTS[:3], StreamError(error=UpstreamError("gone"))])
