"""Streams of the responses wire format, both halves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from plugins.openai.tests.wire.responses import strategies
from plugins.openai.tests.wire.responses.streaming import RESPONSE_ID, collected, read, result_of, written
from tornado_gate.errors import UpstreamError, UpstreamRateLimited
from tornado_gate.types import (
    ChatResult,
    Citation,
    Finish,
    Opaque,
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
    replace,
)
from tornado_gate_openai.wire.responses import render_response

ADAPTER: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
START = ResponseStart(model="m", id="up", created=5)


def text(index: int, *pieces: str, **start: Any) -> list[StreamEvent]:
    deltas = [PartDelta(index=index, data=piece) for piece in pieces]
    return [PartStart(index=index, **{"kind": "text", **start}), *deltas, PartEnd(index=index)]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


@given(events=strategies.streams())
def test_parsing_what_was_written_gives_the_same_answer(events: list[StreamEvent]) -> None:
    result = collected(events)
    assert result_of(written(events)) == replace(result, extra={"service_tier": "default", **result.extra})


@given(events=strategies.streams())
def test_a_stream_ends_with_the_whole_answer(events: list[StreamEvent]) -> None:
    result = collected(events)
    asked: dict[str, Any] = {}
    whole = render_response(result, id=RESPONSE_ID, model="m", created=7, asked=asked)
    assert written(events)[-1]["response"] == whole


@given(events=strategies.streams())
def test_numbers_places_and_ids_agree(events: list[StreamEvent]) -> None:
    said = written(events)
    assert [event["sequence_number"] for event in said] == list(range(len(said)))
    assert {event["response"]["id"] for event in said if "response" in event} == {RESPONSE_ID}
    output = said[-1]["response"]["output"]
    added = [event for event in said if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(len(output)))
    for place, item in enumerate(output):
        mine = [event for event in said if event.get("output_index") == place]
        assert mine[0]["type"] == "response.output_item.added"
        assert mine[-1] == {**mine[-1], "type": "response.output_item.done", "item": item}
        assert {event.get("item_id", item.get("id")) for event in mine} == {item.get("id")}


@settings(deadline=None)  # the vendor's types take their time
@given(events=strategies.streams())
def test_the_vendors_helper_understands_every_stream(events: list[StreamEvent]) -> None:
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=[], text_format=omit)
    said = written([event for event in events if not (isinstance(event, PartStart) and event.part)])
    for value in said:
        event = ADAPTER.validate_python(value)
        state.handle_event(event)


def test_a_text_goes_through_every_event() -> None:
    events = [START, *text(0, "He", "llo"), UsageReport(usage=Usage(input_tokens=1)), Finish(reason="stop")]
    said = written(events)
    assert kinds(said) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["delta"] for event in said if "delta" in event] == ["He", "llo"]
    assert said[6]["text"] == "Hello"
    assert said[0]["response"]["status"] == "in_progress"
    assert said[0]["response"]["output"] == []
    assert said[0]["response"]["created_at"] == 5
    assert said[-1]["response"]["usage"]["prompt_tokens"] == 1
    for event in said:
        ADAPTER.validate_python(event)


def test_thinking_refusals_and_calls_have_events_of_their_own() -> None:
    events = [
        START,
        PartStart(index=0, kind="thinking"),
        PartDelta(index=0, data="hm"),
        PartEnd(index=0, signature=Opaque(issuer="p", value="e")),
        PartStart(index=1, kind="thinking", redacted=True),
        PartEnd(index=1, signature=Opaque(issuer="p", value="f")),
        *text(2, "No.", kind="refusal"),
        *text(3, "{}", kind="tool_call", id="call_1", name="f"),
        *text(4, "ls", kind="tool_call", id="call_2", name="g", tool_kind="custom"),
        Finish(reason="tool_calls"),
    ]
    said = written(events)
    assert kinds(said)[2:-1] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    items = said[-1]["response"]["output"]
    assert [item.get("encrypted_content") for item in items[:2]] == ["e", "f"]
    call = items[3]
    assert (call["call_id"], call["name"]) == ("call_1", "f")
    assert call["id"] not in ("call_1", "")
    for event in said:
        ADAPTER.validate_python(event)


def test_calls_that_overlap_keep_their_places() -> None:
    events = [
        START,
        PartStart(index=0, kind="text"),
        PartStart(index=1, kind="tool_call", id="a", name="f"),
        PartStart(index=2, kind="tool_call", id="b", name="g"),
        PartDelta(index=2, data="{2}"),
        PartDelta(index=0, data="Hi"),
        PartDelta(index=1, data="{1}"),
        PartEnd(index=2),
        PartEnd(index=0),
        PartEnd(index=1),
        *text(3, "Bye"),
        Finish(reason="tool_calls"),
    ]
    output = written(events)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call", "message"]
    assert [item.get("arguments") for item in output] == [None, "{1}", "{2}", None]
    assert [item["content"][0]["text"] for item in output if "content" in item] == ["Hi", "Bye"]


@pytest.mark.parametrize(("reason", "detail"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_is_incomplete(reason: Any, detail: str) -> None:
    last = written([START, *text(0, "Hi"), Finish(reason=reason)])[-1]
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": detail}
    assert last["response"]["output"][0]["status"] == "incomplete"


def test_a_stream_that_fails_ends_with_its_error_and_a_failed_response() -> None:
    error = UpstreamRateLimited("slow down", param="p")
    said = written([START, *text(0, "Hi"), *text(1, "half")[:2], StreamError(error=error)])
    assert kinds(said)[-2:] == ["error", "failed"]
    assert said[-2] == {
        "type": "error",
        "code": "upstream_rate_limited",
        "message": "slow down",
        "param": "p",
        "sequence_number": said[-1]["sequence_number"] - 1,
    }
    assert said[-1]["response"]["status"] == "failed"
    assert said[-1]["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    assert "completed" not in kinds(said)
    for event in said:
        ADAPTER.validate_python(event)


def test_a_finish_with_an_error_is_no_normal_end() -> None:
    assert kinds(written([START, *text(0, "Hi"), Finish(reason="error")]))[-2:] == ["error", "failed"]


def test_a_failure_before_anything_was_said_is_raised() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        written([START, StreamError(error=UpstreamError("gone"))])


def test_a_stream_that_just_stops_failed() -> None:
    assert kinds(written([START, *text(0, "Hi")]))[-1] == "failed"


def test_a_second_choice_has_no_place() -> None:
    events = [START, *text(0, "Hi"), *text(1, "Ho", choice=1), Finish(reason="stop", choice=1), Finish(reason="stop")]
    assert len(written(events)[-1]["response"]["output"]) == 1


def test_logprobs_and_annotations_are_told() -> None:
    entry = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    events = [
        START,
        PartStart(index=0, kind="text"),
        PartDelta(index=0, data="Hi", logprobs=(entry,)),
        PartEnd(index=0, citations=(Citation(file_id="f", title="f.txt"),)),
        Finish(reason="stop"),
    ]
    said = written(events)
    assert said[4]["logprobs"] == [{"token": "Hi", "logprob": -0.5, "bytes": [], "top_logprobs": []}]
    assert "output_text.annotation.added" in kinds(said)
    content = said[-1]["response"]["output"][0]["content"][0]
    assert content["logprobs"] == said[4]["logprobs"]
    assert content["annotations"] == [{"type": "file_citation", "file_id": "f", "filename": "f.txt", "index": 2}]


# The client half


def event(kind: str, place: int | None = None, **members: Any) -> dict[str, Any]:
    where = {} if place is None else {"output_index": place}
    return {"type": f"response.{kind}", "sequence_number": 0, **where, **members}


def ended(*output: dict[str, Any], kind: str = "completed") -> dict[str, Any]:
    return event(kind, response={"id": "resp_up", "model": "m", "status": kind, "output": list(output)})


CREATED = event("created", response={"id": "resp_up", "model": "m", "created_at": 5})
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}


def parts_of(*frames: dict[str, Any]) -> tuple[Any, ...]:
    return result_of([CREATED, *frames]).choices[0].parts


def test_a_bare_stream_is_enough() -> None:
    result = result_of([event("output_text.delta", 0, delta="Hi"), event("completed")])
    assert result == ChatResult(model="", choices=result.choices)
    assert result.choices[0].parts == (Text(text="Hi"),)


def test_items_that_only_the_end_tells_are_made_up_for() -> None:
    assert parts_of(ended(MESSAGE, CALL)) == (Text(text="Hi"), ToolCall(id="call_1", name="f", arguments="{}"))


def test_items_that_only_their_own_end_tells_are_made_up_for() -> None:
    done = event("output_item.done", 0, item=MESSAGE)
    assert parts_of(done, event("output_item.done", 1, item=CALL), ended(MESSAGE, CALL)) == (
        Text(text="Hi"),
        ToolCall(id="call_1", name="f", arguments="{}"),
    )


def test_deltas_that_did_not_all_come_are_made_up_for() -> None:
    frames = [
        event("output_item.added", 0, item=CALL | {"arguments": ""}),
        event("function_call_arguments.delta", 0, delta="{"),
        event("output_item.done", 0, item=CALL),
        event("output_text.delta", 1, content_index=0, delta="H"),
        event("output_item.done", 1, item=MESSAGE),
    ]
    assert parts_of(*frames, ended()) == (ToolCall(id="call_1", name="f", arguments="{}"), Text(text="Hi"))


def test_paragraphs_of_a_summary_are_one_text_with_one_signature() -> None:
    item = {"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "e"}
    frames = [
        event("output_item.added", 0, item={"type": "reasoning", "summary": []}),
        event("reasoning_summary_text.delta", 0, summary_index=0, delta="a"),
        event("reasoning_summary_text.delta", 0, summary_index=1, delta="b"),
        event("output_item.done", 0, item=item),
    ]
    assert parts_of(*frames, ended()) == (Thinking(text="a\n\nb", signature=Opaque(issuer="", value="e")),)


def test_reasoning_that_shows_nothing_is_redacted_or_nothing() -> None:
    hidden = event("output_item.done", 0, item={"type": "reasoning", "summary": [], "encrypted_content": "e"})
    assert parts_of(hidden, ended()) == (Thinking(redacted=True, signature=Opaque(issuer="", value="e")),)
    assert parts_of(event("output_item.done", 0, item={"type": "reasoning", "summary": []}), ended()) == ()


def test_unknown_events_and_frames_after_the_end_are_ignored() -> None:
    frames = [event("web_search_call.searching", 0), {"type": "x"}, event("output_text.delta", 1, delta="Hi")]
    assert parts_of(*frames, ended(), event("output_text.delta", 1, delta="more")) == (Text(text="Hi"),)


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "code": "server_error", "message": "gone", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"message": "gone", "type": "server_error"}},
        {"error": {"message": "gone"}},
        event("failed", response={"status": "failed", "error": {"code": "server_error", "message": "gone"}}),
    ],
)
def test_a_failure_in_a_stream_is_one(failure: dict[str, Any]) -> None:
    last = read([CREATED, event("output_text.delta", 0, delta="Hi"), failure])[-1]
    assert isinstance(last, StreamError)
    assert last.error.message == "gone"


@pytest.mark.parametrize("frame", [None, [], "text", 5])
def test_what_is_no_event_is_an_upstream_error(frame: Any) -> None:
    with pytest.raises(UpstreamError, match="not an object"):
        read([frame])


def test_a_stream_that_just_stops_is_an_error() -> None:
    last = read([CREATED, event("output_text.delta", 0, delta="Hi")])[-1]
    assert isinstance(last, StreamError)


def test_an_incomplete_response_says_why() -> None:
    details = {"incomplete_details": {"reason": "max_output_tokens"}, "usage": {"input_tokens": 1, "output_tokens": 2}}
    last = ended(kind="incomplete")
    last["response"] |= details
    result = result_of([CREATED, event("output_text.delta", 0, delta="Hi"), last])
    assert (result.choices[0].reason, result.choices[0].raw_reason) == ("length", "max_output_tokens")
    assert result.usage == Usage(input_tokens=1, output_tokens=2)
