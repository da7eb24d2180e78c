"""Whole answers, usage, stop reasons and errors, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message as VendorMessage
from hypothesis import given
from hypothesis import strategies as st

from plugins.anthropic.tests.wire.messages import strategies
from plugins.anthropic.tests.wire.messages.support import UNKNOWN_USAGE
from tornado_gate.errors import (
    GateError,
    PluginError,
    RateLimited,
    TooLarge,
    UnknownModel,
    UpstreamError,
    UpstreamKeyRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamTimeout,
)
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    Image,
    Meter,
    Opaque,
    Refusal,
    ServerToolUse,
    Text,
    Thinking,
    ToolCall,
    Usage,
    VendorPart,
)
from tornado_gate_anthropic.wire.messages import (
    MessagesStreamMeter,
    note_body,
    parse_error,
    parse_response,
    parse_stop_reason,
    parse_usage,
    render_error,
    render_response,
    render_stop_reason,
    render_usage,
)

BODY: dict[str, Any] = {
    "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5-20250929",
    "content": [
        {"type": "thinking", "thinking": "A greeting.", "signature": "EqQBCgIYAhIM"},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
        {"type": "text", "text": "Hi!", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"city": "Oslo"}, "caller": {"type": "direct"}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
    "usage": {
        "input_tokens": 3136,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 6752,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 503,
        "output_tokens_details": {"thinking_tokens": 400},
        "server_tool_use": None,
        "service_tier": "standard",
    },
}


def test_a_whole_answer_is_read() -> None:
    result = parse_response(BODY)
    (choice,) = result.choices
    assert choice.parts == (
        Thinking(text="A greeting.", signature=Opaque(issuer="", value="EqQBCgIYAhIM")),
        Thinking(redacted=True, signature=Opaque(issuer="", value="EmwKAhgBEgy3va3pzix")),
        Text(text="Hi!"),
        ToolCall(
            id="toolu_1",
            name="get",
            arguments='{"city":"Oslo"}',
        ),
        VendorPart(
            wire_format="anthropic-messages",
            value=BODY["content"][4],
            server=ServerToolUse(id="srvtoolu_1", kind="web_search", step="call", queries=("x",)),
        ),
    )
    assert (choice.reason, choice.raw_reason, choice.stop_sequence) == ("tool_calls", "tool_use", None)
    assert (result.id, result.model, result.extra) == (BODY["id"], BODY["model"], {})
    assert result.usage == Usage(
        input_tokens=9888,
        output_tokens=503,
        cache_read_tokens=6752,
        cache_write_tokens=0,
        reasoning_tokens=400,
        extra={"cache_creation": BODY["usage"]["cache_creation"], "service_tier": "standard"},
    )


@given(result=strategies.results())
def test_parsing_what_was_rendered_gives_the_result_back(result: ChatResult) -> None:
    assert parse_response(render_response(result, id="msg_made", model="m")) == result


@given(result=strategies.results())
def test_what_is_rendered_is_the_vendors_message(result: ChatResult) -> None:
    body = render_response(result, id="msg_made", model="m")
    body.pop("container", None)  # ours is made up
    VendorMessage.model_validate(body)


@pytest.mark.parametrize("body", [None, [], "x", {}, {"content": "x"}, {"content": [1]}, {"choices": []}])
def test_what_is_no_message_is_an_upstream_error(body: Any) -> None:
    with pytest.raises(UpstreamError, match="not an Anthropic message"):
        parse_response(body)


def test_what_is_nearly_a_message_is_read() -> None:
    body = {"content": [{"type": "tool_use", "name": "f", "input": "oops"}], "usage": {"x": 1}}
    result = parse_response(body)
    (call,) = result.choices[0].parts
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments, call.id[:6]) == ("f", "{}", "toolu_")
    assert result.choices[0].reason == "tool_calls"
    assert result.usage is None


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "length"),
        ("compaction", "other"),
        ("", "stop"),
    ],
)
def test_stop_reasons_are_read(raw: str, reason: str) -> None:
    assert parse_stop_reason(raw) == reason


@pytest.mark.parametrize(
    ("reason", "raw", "stop", "word"),
    [
        ("stop", "stop", None, "end_turn"),
        ("stop", "stop", "END", "stop_sequence"),
        ("stop", "end_turn", None, "end_turn"),
        ("length", "length", None, "max_tokens"),
        ("length", "model_context_window_exceeded", None, "model_context_window_exceeded"),
        ("tool_calls", "STOP", None, "tool_use"),
        ("tool_calls", "end_turn", None, "tool_use"),
        ("content_filter", "SAFETY", None, "refusal"),
        ("length", "pause_turn", None, "pause_turn"),
        ("other", "odd", None, "end_turn"),
    ],
)
def test_stop_reasons_are_said_in_the_vendors_words(reason: Any, raw: str, stop: str | None, word: str) -> None:
    assert render_stop_reason(reason, raw, stop) == word


def test_an_answer_that_the_model_could_not_finish_is_no_normal_end() -> None:
    with pytest.raises(UpstreamError):
        render_response(ChatResult(model="m", choices=(Choice(parts=(), reason="error"),)), id="msg_1", model="m")


@given(usage=strategies.usages())
def test_usage_comes_back(usage: Usage) -> None:
    assert parse_usage(render_usage(usage)) == usage


def test_input_tokens_leave_out_what_the_cache_gave_and_took() -> None:
    usage = Usage(input_tokens=9888, output_tokens=5, cache_read_tokens=6752, cache_write_tokens=100)
    assert render_usage(usage) == UNKNOWN_USAGE | {
        "input_tokens": 3036,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 6752,
        "output_tokens": 5,
    }
    assert render_usage(None) == UNKNOWN_USAGE | {"input_tokens": 0, "output_tokens": 0}
    assert render_usage(Usage(input_tokens=1, cache_read_tokens=5))["input_tokens"] == 0


def test_the_input_counts_add_up_to_the_whole_prompt() -> None:
    overlapping = Usage(input_tokens=1000, output_tokens=1, cache_read_tokens=900, cache_write_tokens=1000)
    value = render_usage(overlapping)
    counts = [value[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    assert counts == [0, 900, 100]


@pytest.mark.parametrize("value", [None, [], {}, {"input_tokens": "5"}, {"output_tokens": True}, {"input_tokens": -1}])
def test_what_holds_no_count_is_no_usage(value: Any) -> None:
    assert parse_usage(value) is None


DIRECT = {"type": "direct"}


def answered(*parts: Any, **rest: Any) -> dict[str, Any]:
    return render_response(
        ChatResult(model="up", choices=(Choice(parts=parts, reason="stop"),), **rest), id="msg_made", model="asked"
    )


def test_an_answer_of_another_provider_has_the_vendors_shape() -> None:
    body = answered(
        Thinking(text="hm"),
        Thinking(),
        Text(text=""),
        Refusal(text="No."),
        ToolCall(id="functions.f:0", name="f", arguments=""),
        ToolCall(id="c", name="g", arguments="ls", kind="custom"),
        VendorPart(wire_format="gemini", value={"executableCode": {}}),
        Audio(transcript="spoken"),
        Image(source=Data(media_type="image/png", base64="AAAA")),
        id="chatcmpl-1",
    )
    assert body == {
        "id": "msg_made",
        "type": "message",
        "role": "assistant",
        "model": "asked",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "No.", "citations": None},
            {"type": "tool_use", "id": "gate-ZnVuY3Rpb25zLmY6MA", "name": "f", "input": {}, "caller": DIRECT},
            {"type": "tool_use", "id": "c", "name": "g", "input": {"input": "ls"}, "caller": DIRECT},
            {"type": "text", "text": "spoken", "citations": None},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ],
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": "No."},
        "container": None,
        "usage": UNKNOWN_USAGE | {"input_tokens": 0, "output_tokens": 0},
    }


@pytest.mark.parametrize("value", ["c2ln", {"a": [1]}, "json:x", 5])
def test_a_signature_of_any_kind_comes_back_as_it_was(value: Any) -> None:
    body = answered(Thinking(text="hm", signature=Opaque(issuer="p", value=value)))
    assert isinstance(body["content"][0]["signature"], str)
    (part,) = parse_response(body).choices[0].parts
    assert part == Thinking(text="hm", signature=Opaque(issuer="", value=value))


# errors


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, UpstreamOverloaded, 503),
        ({"type": "rate_limit_error", "message": "m"}, UpstreamRateLimited, 429),
        ({"type": "timeout_error", "message": "m"}, UpstreamTimeout, 504),
        ({"type": "api_error", "message": "m"}, UpstreamError, 502),
        ({"type": "invalid_request_error", "message": "m"}, UpstreamRefused, 400),
        ({"type": "not_found_error", "message": "m"}, UpstreamRefused, 404),
        ({"type": "request_too_large", "message": "m"}, UpstreamRefused, 413),
        ({"type": "authentication_error", "message": "secret"}, UpstreamKeyRefused, 502),
        ({"type": "permission_error", "message": "secret"}, UpstreamKeyRefused, 502),
        ({"type": "billing_error", "message": "secret"}, UpstreamKeyRefused, 502),
        ({"type": "x_error"}, UpstreamError, 502),
        ("gone", UpstreamError, 502),
        (None, UpstreamError, 502),
        ({"type": 1, "message": 2}, UpstreamError, 502),
    ],
)
def test_an_error_of_the_upstream_is_ours(error: Any, kind: type[GateError], status: int) -> None:
    parsed = parse_error(error)
    assert (type(parsed), parsed.status) == (kind, status)
    assert "secret" not in parsed.message
    with pytest.raises(kind):
        parse_response({"type": "error", "error": error})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownModel("x"), "not_found_error"),
        (TooLarge("x"), "request_too_large"),
        (RateLimited("x", retry_after=1), "rate_limit_error"),
        (UpstreamOverloaded("x"), "overloaded_error"),
        (UpstreamTimeout("x"), "timeout_error"),
        (UpstreamError("x"), "api_error"),
        (PluginError("p", "d"), "overloaded_error"),
        (UpstreamRefused("x", status=422), "invalid_request_error"),
        (UpstreamRefused("x", status=402), "billing_error"),
        (GateError("x"), "api_error"),
    ],
)
def test_an_error_is_told_in_the_vendors_word_for_its_status(error: GateError, kind: str) -> None:
    body = render_error(error, "req_1")
    assert body == {"type": "error", "error": {**error.body(), "type": kind}, "request_id": "req_1"}
    assert all(isinstance(value, str) for value in body["error"].values())
    assert "request_id" not in render_error(error)


# what passes verbatim


def frame(text: str) -> bytes:
    return b"event: x\ndata: " + text.encode() + b"\n\n"


def test_usage_and_stop_reason_are_noted_in_passing() -> None:
    meter = Meter()
    watch = MessagesStreamMeter(meter)
    watch.note(frame('{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":2}}}'))
    assert meter.usage == Usage(input_tokens=5, cache_read_tokens=2)
    watch.note(frame('{"type":"content_block_delta","delta":{"text":"\\"type\\":\\"message_stop\\""}}'))
    watch.note(frame('{"type":"content_block_start","content_block":{"error":{"type":"error"}}}'))
    assert not watch.done
    watch.note(frame('{"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 3}}'))
    assert not watch.finished
    delta = '{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":7,"input_tokens":4}}'
    watch.note(frame(delta))
    assert watch.finished
    assert meter.usage == Usage(input_tokens=6, output_tokens=7, cache_read_tokens=2)
    assert meter.finish_reason == "length"
    watch.note(frame('{"type":"message_stop"}'))
    assert watch.done


@pytest.mark.parametrize(
    "text",
    ['{"type":"error"', '["type":"error"]', '{"type":"message_start"}', '{"type":"message_delta","delta":1,"usage":1}'],
)
def test_frames_that_are_not_what_they_seem_are_passed_over(text: str) -> None:
    watch = MessagesStreamMeter(Meter())
    watch.note(frame(text))
    assert not watch.done


@given(st.binary(max_size=40))
def test_no_frame_can_break_the_meter(raw: bytes) -> None:
    MessagesStreamMeter(Meter()).note(b'data: {"type":"error"}' + raw)


def test_a_whole_answer_is_noted() -> None:
    meter = Meter()
    note_body(meter, BODY)
    assert meter.finish_reason == "tool_calls"
    assert meter.usage is not None
    assert meter.usage.input_tokens == 9888
    with pytest.raises(UpstreamOverloaded):
        note_body(meter, {"type": "error", "error": {"type": "overloaded_error", "message": "m"}})
