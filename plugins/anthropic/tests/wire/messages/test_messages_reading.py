"""Events of a stream to ours: the client half."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.anthropic.tests.wire.messages.support import (
    MESSAGE_START,
    MESSAGE_STOP,
    closed,
    delta,
    events_of,
    opened,
    result_of,
    stopped,
)
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.types import (
    Citation,
    Finish,
    Opaque,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    ServerToolUse,
    StreamError,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UsageReport,
    VendorPart,
)

DONE = Finish(reason="stop", raw="end_turn")


def parts_of(*frames: Any, reason: str = "end_turn") -> tuple[Any, ...]:
    return result_of(events_of([MESSAGE_START, *frames, stopped(reason), MESSAGE_STOP])).choices[0].parts


def test_a_stream_becomes_events() -> None:
    frames = [
        MESSAGE_START,
        {"type": "ping"},
        opened(0, type="text", text=""),
        delta(0, "text_delta", text="Hello"),
        delta(0, "text_delta", text="!"),
        closed(0),
        stopped(output_tokens=15),
        MESSAGE_STOP,
    ]
    assert events_of(frames) == [
        ResponseStart(model="m", id="msg_1"),
        UsageReport(usage=Usage(input_tokens=3, output_tokens=1)),
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hello"),
        PartDelta(index=0, data="!"),
        PartEnd(index=0),
        UsageReport(usage=Usage(input_tokens=3, output_tokens=15)),
        Finish(reason="stop", raw="end_turn"),
    ]


def test_arguments_of_a_tool_come_as_they_were_written() -> None:
    assert parts_of(
        opened(0, type="tool_use", id="toolu_1", name="f", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"city": '),
        delta(0, "input_json_delta", partial_json='"Oslo"}'),
        closed(0),
        reason="tool_use",
    ) == (ToolCall(id="toolu_1", name="f", arguments='{"city": "Oslo"}'),)


@pytest.mark.parametrize(("given_input", "arguments"), [({}, "{}"), ({"a": 1}, '{"a":1}'), (None, "{}")])
def test_a_tool_without_deltas_has_the_input_of_its_start(given_input: Any, arguments: str) -> None:
    block = opened(0, type="tool_use", id="toolu_1", name="f", input=given_input)
    assert parts_of(block, closed(0)) == (ToolCall(id="toolu_1", name="f", arguments=arguments),)


def test_thinking_has_its_signature_and_redacted_thinking_its_data() -> None:
    assert parts_of(
        opened(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="c2ln"),
        closed(0),
        opened(1, type="redacted_thinking", data="ZW5j"),
        closed(1),
    ) == (
        Thinking(text="hm", signature=Opaque(issuer="", value="c2ln")),
        Thinking(redacted=True, signature=Opaque(issuer="", value="ZW5j")),
    )


def test_citations_belong_to_their_text() -> None:
    citation = {"type": "char_location", "cited_text": "x"}
    assert parts_of(
        opened(0, type="text", text="", citations=[]),
        delta(0, "citations_delta", citation=citation),
        delta(0, "text_delta", text="Hi"),
        closed(0),
    ) == (Text(text="Hi", citations=(Citation(quote="x", wire_format="anthropic-messages", value=citation),)),)


def test_blocks_of_the_vendors_own_come_whole() -> None:
    assert parts_of(
        opened(0, type="server_tool_use", id="s", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":'),
        delta(0, "input_json_delta", partial_json='"x"}'),
        closed(0),
        opened(1, type="web_search_tool_result", tool_use_id="s", content=[]),
        closed(1),
    ) == (
        VendorPart(
            wire_format="anthropic-messages",
            value={"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
            server=ServerToolUse(id="s", kind="web_search", step="call", queries=("x",)),
        ),
        VendorPart(
            wire_format="anthropic-messages",
            value={"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            server=ServerToolUse(id="s", kind="web_search", step="result"),
        ),
    )


def test_what_is_unknown_is_passed_over() -> None:
    assert parts_of(
        {"type": "x_event", "data": 1},
        {},
        opened(0, type="text", text=""),
        delta(0, "x_delta", text="no"),
        {"type": "content_block_delta", "index": 0, "delta": None},
        delta(0, "text_delta", text="Hi"),
        delta(7, "input_json_delta", partial_json="{}"),
        closed(0),
        closed(7),
    ) == (Text(text="Hi"),)


def test_a_start_or_end_that_was_left_out_is_made_up_for() -> None:
    assert parts_of(
        delta(0, "thinking_delta", thinking="hm"),
        delta(1, "text_delta", text="Hi"),
        opened(2, type="tool_use", id="t", name="f", input={}),
    ) == (Thinking(text="hm"), Text(text="Hi"), ToolCall(id="t", name="f", arguments="{}"))


def test_usage_is_cumulative_and_never_added_up() -> None:
    frames = [
        MESSAGE_START,
        opened(0, type="text", text="Hi"),
        stopped(None, output_tokens=4),
        closed(0),
        {**stopped(output_tokens=9), "usage": {"output_tokens": 9, "input_tokens": 30, "cache_read_input_tokens": 6}},
        stopped(None, output_tokens=10),
        MESSAGE_STOP,
    ]
    result = result_of(events_of(frames))
    assert result.usage == Usage(input_tokens=36, output_tokens=10, cache_read_tokens=6)
    assert result.choices[0].raw_reason == "end_turn"


def test_a_met_stop_sequence_and_why_a_model_refused_are_told() -> None:
    details = {"type": "refusal", "category": "cyber"}
    frames = [MESSAGE_START, stopped("refusal", stop_details=details, stop_sequence="END"), MESSAGE_STOP]
    assert events_of(frames)[-1] == Finish(
        reason="content_filter", raw="refusal", stop_sequence="END", extra={"stop_details": details}
    )


def test_a_stop_reason_is_enough_for_an_end() -> None:
    assert events_of([MESSAGE_START, stopped()])[-1] == DONE
    assert events_of([MESSAGE_START, MESSAGE_STOP])[-1] == Finish(reason="stop")


def test_nothing_is_read_after_the_end() -> None:
    assert events_of([MESSAGE_START, stopped(), MESSAGE_STOP, {"type": "error", "error": {}}])[-1] == DONE


def test_a_stream_that_just_stops_is_no_normal_end() -> None:
    events = events_of([MESSAGE_START, opened(0, type="text", text=""), delta(0, "text_delta", text="Hi")])
    assert isinstance(events[-1], StreamError)
    with pytest.raises(UpstreamError, match="ended before the response was complete"):
        events_of([MESSAGE_START])


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_an_error_inside_a_stream_ends_it() -> None:
    events = events_of([MESSAGE_START, opened(0, type="text", text="Hi"), OVERLOADED, closed(0)])
    assert isinstance(events[-1], StreamError)
    assert isinstance(events[-1].error, UpstreamOverloaded)


def test_an_error_before_the_first_block_keeps_its_status() -> None:
    with pytest.raises(UpstreamOverloaded):
        events_of([MESSAGE_START, {"type": "ping"}, OVERLOADED])


def test_an_end_without_a_beginning_is_an_upstream_error() -> None:
    with pytest.raises(UpstreamError, match="before its beginning"):
        events_of([MESSAGE_STOP, MESSAGE_START])


@pytest.mark.parametrize("frame", [1, "x", [], None])
def test_what_is_no_event_is_an_upstream_error(frame: Any) -> None:
    with pytest.raises(UpstreamError, match="not a JSON object"):
        events_of([frame])


def test_input_of_a_server_tool_that_is_no_json_is_an_upstream_error() -> None:
    block = opened(0, type="server_tool_use", id="s", name="web_search", input={})
    frames = [MESSAGE_START, block, delta(0, "input_json_delta", partial_json="{"), closed(0)]
    last = events_of(frames)[-1]
    assert isinstance(last, StreamError)
    assert "not JSON" in last.error.message
