"""Whole answers of the responses wire format, both halves, and usage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from openai.types.responses import Response

from plugins.openai.tests.wire.responses import strategies
from tornado_gate.errors import GateError, UpstreamError, UpstreamRateLimited, UpstreamRefused
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    FinishReason,
    Image,
    Link,
    Meter,
    Opaque,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
    VendorPart,
    replace,
)
from tornado_gate_openai.wire.responses import (
    find_error,
    get_response_id,
    note_body,
    parse_response,
    parse_usage,
    render_response,
    render_usage,
)

RESPONSE_ID = "resp_" + "0" * 32


def rendered(result: ChatResult, **asked: Any) -> dict[str, Any]:
    return render_response(result, id=RESPONSE_ID, model="m", created=7, asked=asked)


def of(*parts: Any, reason: FinishReason = "stop", **rest: Any) -> ChatResult:
    return ChatResult(model="m", choices=(Choice(parts=parts, reason=reason),), **rest)


@given(result=strategies.results())
def test_parsing_what_was_rendered_gives_the_result_back(result: ChatResult) -> None:
    extra = {"service_tier": "default", **result.extra}
    assert parse_response(rendered(result)) == replace(result, extra=extra)


@given(usage=strategies.usages)
def test_parsing_rendered_usage_gives_it_back(usage: Usage) -> None:
    assert parse_usage(render_usage(usage)) == usage


def test_an_answer_has_the_vendors_whole_shape() -> None:
    result = of(
        Thinking(text="hm", signature=Opaque(issuer="p", value="e")),
        Text(text="Hi", extra={"x_foreign": 1}),
        Refusal(text="No."),
        ToolCall(id="call_1", name="f", arguments='{"a" : 1}', extra={"extra_content": {}}),
        ToolCall(id="call_2", name="g", arguments="ls", kind="custom"),
        reason="tool_calls",
        usage=Usage(input_tokens=3, output_tokens=2, reasoning_tokens=1),
    )
    tool = {"type": "function", "name": "f", "parameters": {}, "strict": True}
    body = rendered(result, instructions="Be brief.", tools=[tool], text={"verbosity": "low"}, temperature=0.5)
    Response.model_validate(body)
    stem = "0" * 32
    assert body["output"] == [
        {
            "id": f"rs_{stem}0001",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "e",
        },
        {
            "id": f"msg_{stem}0002",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {
            "id": f"fc_{stem}0003",
            "call_id": "call_1",
            "name": "f",
            "type": "function_call",
            "arguments": '{"a" : 1}',
            "status": "completed",
        },
        {
            "id": f"ctc_{stem}0004",
            "call_id": "call_2",
            "name": "g",
            "type": "custom_tool_call",
            "input": "ls",
            "status": "completed",
        },
    ]
    assert (body["status"], body["error"], body["incomplete_details"]) == ("completed", None, None)
    assert (body["instructions"], body["temperature"], body["tools"]) == (
        "Be brief.",
        0.5,
        [tool | {"description": None}],
    )
    assert body["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert (body["parallel_tool_calls"], body["tool_choice"], body["truncation"]) == (True, "auto", "disabled")
    assert body["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_the_id_of_an_item_tells_its_response() -> None:
    (item,) = rendered(of(Text(text="Hi")))["output"]
    assert get_response_id(item["id"]) == RESPONSE_ID
    assert get_response_id("nonsense") == "resp_"


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("other", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
        ("error", "failed", None),
    ],
)
def test_every_reason_is_a_status(reason: FinishReason, status: str, details: Any) -> None:
    body = rendered(of(Text(text="Hi"), reason=reason))
    assert (body["status"], body["incomplete_details"]) == (status, details)
    assert (body["error"] is None) == (status != "failed")
    assert body["output"][0]["status"] == ("completed" if status == "completed" else "incomplete")


def test_pictures_and_sound_have_a_place() -> None:
    result = of(
        Image(source=Data(media_type="image/png", base64="AAAA")),
        Image(source=Link(url="https://a.example/b")),
        Audio(source=Data(media_type="audio/wav", base64="AAAA"), transcript="Hi"),
        VendorPart(wire_format="other", value={}),
    )
    picture, message = rendered(result)["output"]
    assert (picture["type"], picture["result"]) == ("image_generation_call", "AAAA")
    assert [part["text"] for part in message["content"]] == ["![image](https://a.example/b)", "Hi"]


def test_a_signature_that_is_no_string_stays_here() -> None:
    (item,) = rendered(of(Thinking(text="hm", signature=Opaque(issuer="p", value={"a": 1}))))["output"]
    assert "encrypted_content" not in item


def test_reasoning_that_shows_nothing_is_no_part() -> None:
    body = {"output": [{"type": "reasoning", "id": "rs_1", "summary": []}], "status": "completed"}
    assert parse_response(body).choices[0].parts == ()


@pytest.mark.parametrize(
    "body",
    [None, [], "text", {}, {"output": None}, {"output": [], "status": "queued"}, {"object": "list", "data": []}],
)
def test_what_is_no_response_is_an_upstream_error(body: Any) -> None:
    with pytest.raises(UpstreamError, match="not a finished response"):
        parse_response(body)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ({"error": {"message": "m", "type": "invalid_request_error"}}, UpstreamRefused, 400),
        ({"type": "error", "message": "m", "code": "rate_limit_exceeded"}, UpstreamRateLimited, 429),
        ({"type": "error", "error": {"message": "m", "code": "429"}}, UpstreamRateLimited, 429),
        ({"status": "failed", "error": {"code": "server_error", "message": "m"}}, UpstreamError, 502),
        ({"status": "failed", "error": {"code": "invalid_prompt", "message": "m"}}, UpstreamRefused, 400),
        (
            {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded", "message": "m"}}},
            UpstreamRateLimited,
            429,
        ),
    ],
)
def test_every_failure_has_its_class(body: Any, kind: type[GateError], status: int) -> None:
    error = find_error(body)
    assert type(error) is kind
    assert (error.status, error.message) == (status, "m")
    with pytest.raises(kind):
        note_body(Meter(), body)


@pytest.mark.parametrize("body", [{"status": "cancelled"}, {"type": "response.failed"}, {"status": "failed"}])
def test_a_failure_without_words_gets_some(body: Any) -> None:
    error = find_error(body)
    assert error is not None
    assert error.message == "The upstream sent an error without a message."


def test_what_is_no_failure_is_none() -> None:
    assert find_error({"status": "completed", "error": None, "output": []}) is None
    assert find_error("text") is None


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 1, "completion_tokens": 2}, Usage(input_tokens=1, output_tokens=2)),
        (
            {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}, "total_tokens": 3},
            Usage(input_tokens=1, output_tokens=2, cache_read_tokens=1),
        ),
    ],
)
def test_usage_is_read_in_both_spellings(value: Any, usage: Usage | None) -> None:
    assert parse_usage(value) == usage


def test_a_whole_answer_is_noted() -> None:
    meter = Meter()
    note_body(meter, {"status": "completed", "output": [{"type": "function_call"}], "usage": {"input_tokens": 1}})
    assert (meter.usage, meter.finish_reason) == (Usage(input_tokens=1), "tool_calls")
