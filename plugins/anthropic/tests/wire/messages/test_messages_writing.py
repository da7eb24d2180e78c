"""Our events as events of a stream: the server half, and back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from hypothesis import given
from pydantic import TypeAdapter

from plugins.anthropic.tests.wire.messages import strategies
from plugins.anthropic.tests.wire.messages.support import (
    MESSAGE_STOP,
    START,
    UNKNOWN_DELTA_USAGE,
    UNKNOWN_USAGE,
    closed,
    delta,
    opened,
    rendered,
    result_of,
)
from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.testing import iterate
from tornado_gate.types import (
    Finish,
    Image,
    Link,
    Opaque,
    PartDelta,
    PartEnd,
    PartStart,
    StreamError,
    StreamEvent,
    Usage,
    UsageReport,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages import parse_stream, render_response

DONE = Finish(reason="stop", raw="end_turn")
VENDOR: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def as_bytes(values: list[dict[str, Any]]) -> bytes:
    return b"".join(sse.render_json(value, value["type"]) for value in values)


@given(events=strategies.streams())
def test_a_stream_that_was_rendered_says_the_same_one_byte_at_a_time(events: list[StreamEvent]) -> None:
    raw = as_bytes(rendered(events))

    async def read() -> list[StreamEvent]:
        pieces = iterate(raw[place : place + 1] for place in range(len(raw)))
        return [event async for event in parse_stream(sse.read_json_frames(pieces))]

    expected, found = result_of(events), result_of(asyncio.run(read()))
    assert found.choices == expected.choices
    assert found.usage is not None
    assert expected.usage is not None
    assert found.usage.output_tokens == expected.usage.output_tokens


# the server half


@given(events=strategies.streams())
def test_blocks_never_overlap_and_their_indexes_count_up(events: list[StreamEvent]) -> None:
    values = rendered(events)
    kinds = [value["type"] for value in values]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    open_index, next_index = None, 0
    for value in values[1:-2]:
        match value["type"]:
            case "content_block_start":
                assert open_index is None
                assert value["index"] == next_index
                open_index, next_index = next_index, next_index + 1
            case "content_block_delta":
                assert value["index"] == open_index
            case kind:
                assert kind == "content_block_stop"
                assert value["index"] == open_index
                open_index = None
    assert open_index is None


@given(events=strategies.streams())
def test_the_vendors_own_sdk_puts_the_stream_together(events: list[StreamEvent]) -> None:
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for value in rendered(events):
        event = VENDOR.validate_python(value)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    whole = render_response(result_of(events), id="msg_1", model="m")
    said = json.loads(snapshot.to_json())
    assert said["stop_reason"] == whole["stop_reason"]
    assert said["usage"]["output_tokens"] == whole["usage"]["output_tokens"]
    for block, expected in zip(said["content"], whole["content"], strict=True):
        assert {name: block.get(name) for name in expected} == expected


def text_part(index: int, *pieces: str) -> list[StreamEvent]:
    deltas = [PartDelta(index=index, data=piece) for piece in pieces]
    return [PartStart(index=index, kind="text"), *deltas, PartEnd(index=index)]


def test_events_have_the_vendors_shape() -> None:
    usage = Usage(input_tokens=9, output_tokens=5, cache_read_tokens=4)
    events = [START, *text_part(0, "Hi", "!"), UsageReport(usage=usage), Finish(reason="stop", stop_sequence="END")]
    assert rendered(events) == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "stop_details": None,
                "container": None,
                "usage": UNKNOWN_USAGE | {"input_tokens": 0, "output_tokens": 0},
            },
        },
        opened(0, type="text", text=""),
        delta(0, "text_delta", text="Hi"),
        delta(0, "text_delta", text="!"),
        closed(0),
        {
            "type": "message_delta",
            "delta": {
                "stop_reason": "stop_sequence",
                "stop_sequence": "END",
                "stop_details": None,
                "container": None,
            },
            "usage": UNKNOWN_DELTA_USAGE | {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 5},
        },
        MESSAGE_STOP,
    ]


def test_the_prompts_usage_stands_in_the_first_event_when_it_is_known_early() -> None:
    first = UsageReport(usage=Usage(input_tokens=7, output_tokens=1))
    values = rendered([START, first, *text_part(0, "Hi"), DONE])
    assert values[0]["message"]["usage"] == UNKNOWN_USAGE | {"input_tokens": 7, "output_tokens": 1}


def test_usage_that_comes_after_the_finish_is_told() -> None:
    values = rendered([START, *text_part(0, "Hi"), DONE, UsageReport(usage=Usage(input_tokens=7, output_tokens=3))])
    assert values[-2]["usage"] == UNKNOWN_DELTA_USAGE | {"input_tokens": 7, "output_tokens": 3}


def test_without_any_usage_none_of_the_prompt_is_told() -> None:
    assert rendered([START, *text_part(0, "Hi"), DONE])[-2]["usage"] == UNKNOWN_DELTA_USAGE | {
        "input_tokens": None,
        "output_tokens": 0,
    }


def test_overlapping_calls_come_one_after_the_other() -> None:
    events: list[StreamEvent] = [
        START,
        PartStart(index=0, kind="tool_call", id="a", name="f"),
        PartStart(index=1, kind="tool_call", id="b", name="g"),
        PartDelta(index=1, data='{"x":'),
        PartDelta(index=0, data="{}"),
        PartDelta(index=1, data="1}"),
        PartEnd(index=1),
        PartStart(index=2, kind="text"),
        PartDelta(index=2, data="so"),
        PartEnd(index=0),
        PartDelta(index=2, data="on"),
        PartEnd(index=2),
        Finish(reason="tool_calls"),
    ]
    assert rendered(events)[1:-2] == [
        opened(0, type="tool_use", id="a", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        closed(0),
        opened(1, type="tool_use", id="b", name="g", input={}),
        delta(1, "input_json_delta", partial_json='{"x":'),
        delta(1, "input_json_delta", partial_json="1}"),
        closed(1),
        opened(2, type="text", text=""),
        delta(2, "text_delta", text="so"),
        delta(2, "text_delta", text="on"),
        closed(2),
    ]


def test_a_signature_goes_out_on_its_own_block_before_that_ends() -> None:
    events: list[StreamEvent] = [
        START,
        PartStart(index=0, kind="thinking"),
        PartDelta(index=0, data="hm"),
        PartEnd(index=0, signature=Opaque(issuer="p", value="c2ln")),
        PartStart(index=1, kind="thinking", redacted=True),
        PartDelta(index=1, data=""),
        PartEnd(index=1, signature=Opaque(issuer="p", value="ZW5j")),
        DONE,
    ]
    assert rendered(events)[1:-2] == [
        opened(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="c2ln"),
        closed(0),
        opened(1, type="redacted_thinking", data="ZW5j"),
        closed(1),
    ]


def test_free_text_for_a_tool_is_wrapped_in_an_object() -> None:
    events: list[StreamEvent] = [
        START,
        PartStart(index=0, kind="tool_call", id="a", name="f", tool_kind="custom"),
        PartDelta(index=0, data="ls"),
        PartDelta(index=0, data=" -l"),
        PartEnd(index=0),
        Finish(reason="tool_calls"),
    ]
    assert rendered(events)[1] == opened(0, type="tool_use", id="a", name="f", input={"input": "ls -l"})


def test_parts_without_a_word_of_their_own_are_left_out_and_take_no_index() -> None:
    events: list[StreamEvent] = [
        START,
        PartStart(index=0, kind="thinking", redacted=True),
        PartEnd(index=0),
        PartStart(index=1, kind="vendor", part=VendorPart(wire_format="other", value={})),
        PartEnd(index=1),
        PartStart(index=2, kind="text"),
        PartEnd(index=2),
        PartStart(index=3, kind="audio", media_type="audio/wav"),
        PartDelta(index=3, data=b"\0", transcript="spoken"),
        PartEnd(index=3),
        PartStart(index=4, kind="image", part=Image(source=Link(url="https://a.example/b"))),
        PartEnd(index=4),
        PartStart(index=5, kind="text", choice=1),
        PartDelta(index=5, data="another choice"),
        PartEnd(index=5),
        DONE,
        Finish(reason="stop", choice=1),
    ]
    assert rendered(events)[1:-2] == [
        opened(0, type="text", text=""),
        delta(0, "text_delta", text="spoken"),
        closed(0),
        opened(1, type="image", source={"type": "url", "url": "https://a.example/b"}),
        closed(1),
    ]


def test_a_stream_error_is_raised_and_never_a_normal_end() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        rendered([START, *text_part(0, "Hi"), StreamError(error=UpstreamError("gone"))])


@pytest.mark.parametrize("last", [[Finish(reason="error")], []])
def test_an_answer_that_was_not_finished_is_never_a_normal_end(last: list[StreamEvent]) -> None:
    with pytest.raises(UpstreamError):
        rendered([START, *text_part(0, "Hi"), *last])
