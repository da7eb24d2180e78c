"""Whole answers of the chat wire format, both halves, and usage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from openai.types.chat import ChatCompletion

from plugins.openai.tests.wire.chat import strategies
from tornado_gate.errors import UpstreamError, UpstreamOverloaded
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Citation,
    Data,
    FinishReason,
    Image,
    Link,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
    VendorPart,
)
from tornado_gate_openai.wire.chat import (
    parse_finish_reason,
    parse_response,
    parse_usage,
    render_finish_reason,
    render_response,
    render_usage,
)


def rendered(result: ChatResult) -> dict[str, Any]:
    return render_response(result, id="chatcmpl-made", model="m", created=7)


def answer(message: Any, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, **choice}]}


def parts_of(message: Any) -> tuple[Any, ...]:
    return parse_response(answer(message)).choices[0].parts


@given(result=strategies.results())
def test_parsing_what_was_rendered_gives_the_result_back(result: ChatResult) -> None:
    body = rendered(result)
    ChatCompletion.model_validate(body | {"choices": []})
    assert parse_response(body, audio_media_type=strategies.MEDIA_TYPE) == result


@given(usage=strategies.usages())
def test_parsing_rendered_usage_gives_it_back(usage: Usage) -> None:
    assert parse_usage(render_usage(usage)) == usage


def test_a_whole_answer_has_the_vendors_full_shape() -> None:
    result = ChatResult(
        model="upstream-name",
        choices=(Choice(parts=(Text(text="Hi"), Text(text="!")), reason="stop"),),
        usage=Usage(input_tokens=3, output_tokens=2, cache_read_tokens=1, reasoning_tokens=0),
        extra={"system_fingerprint": "fp", "service_tier": "default", "stop_details": {"of": "another format"}},
    )
    body = rendered(result)
    assert body == {
        "id": "chatcmpl-made",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi!", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp",
    }
    ChatCompletion.model_validate(body)


def test_every_part_has_its_place_in_the_message() -> None:
    parts = (
        Thinking(text="hm "),
        Thinking(text="so"),
        Refusal(text="No."),
        Audio(source=Data(media_type="audio/wav", base64="AAAA"), reference="audio_1", transcript="hi"),
        Image(source=Link(url="https://example.com/a.png")),
        ToolCall(id="c", name="f", arguments="{}", extra={"extra_content": {"a": 1}, "caller": "another format's"}),
        VendorPart(wire_format="gemini", value={}),
    )
    result = ChatResult(model="", choices=(Choice(parts=parts, reason="tool_calls"),))
    assert rendered(result)["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
        "reasoning_content": "hm so",
        "audio": {"id": "audio_1", "data": "AAAA", "expires_at": 7, "transcript": "hi"},
        "images": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        "tool_calls": [
            {
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"a": 1},
            }
        ],
    }


def test_an_id_of_another_shape_is_replaced() -> None:
    choice = Choice(parts=(), reason="stop")
    assert rendered(ChatResult(model="", id="msg_1", choices=(choice,)))["id"] == "chatcmpl-made"
    assert rendered(ChatResult(model="", id="chatcmpl-1", created=9, choices=(choice,)))["id"] == "chatcmpl-1"


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"content": None}, ()),
        ({"content": ""}, ()),
        ({}, ()),
        (None, ()),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 5]}, (Text(text="ab"),)),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, 1]},
                    {"type": "text", "text": "a"},
                ]
            },
            (Thinking(text="hm"), Text(text="a")),
        ),
        ({"content": "a", "reasoning_content": "hm"}, (Thinking(text="hm"), Text(text="a"))),
        ({"content": "a", "reasoning": "hm"}, (Thinking(text="hm"), Text(text="a"))),
        ({"content": "a", "reasoning": {"effort": "low"}}, (Text(text="a"),)),
        ({"content": None, "refusal": "No."}, (Refusal(text="No."),)),
        (
            {"content": "a", "annotations": [{"type": "url_citation"}]},
            (Text(text="a", citations=(Citation(wire_format="openai-chat", value={"type": "url_citation"}),)),),
        ),
        (
            {"images": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}, "odd"]},
            (Image(source=Link(url="https://a.example/b")),),
        ),
        (
            {"audio": {"id": "a", "data": "AAAA", "transcript": "", "expires_at": 1}},
            (Audio(source=Data(media_type="", base64="AAAA"), reference="a", extra={"expires_at": 1}),),
        ),
    ],
)
def test_messages_of_many_shapes_are_understood(message: Any, parts: tuple[Any, ...]) -> None:
    assert parts_of(message) == parts


def test_a_tool_call_without_id_and_type_is_mended() -> None:
    (call,) = parts_of({"tool_calls": [{"function": {"name": "f", "arguments": {"a": [1]}}}]})
    assert call.id.startswith("call_")
    assert (call.name, call.arguments, call.kind) == ("f", '{"a":[1]}', "function")


def test_two_calls_with_one_id_get_two() -> None:
    value = {"id": "f", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    first, second = parts_of({"tool_calls": [value, value]})
    assert first.id == "f"
    assert second.id.startswith("call_")


def test_a_custom_tool_call_keeps_its_text() -> None:
    (call,) = parts_of({"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "ls"}}]})
    assert call == ToolCall(id="c", name="f", arguments="ls", kind="custom")


def test_a_legacy_function_call_comes_back_as_one() -> None:
    body = answer({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, finish_reason="function_call")
    result = parse_response(body)
    assert result.choices[0].reason == "tool_calls"
    again = rendered(result)["choices"][0]
    assert again["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert (again["finish_reason"], "tool_calls" in again["message"]) == ("function_call", False)


def test_a_bare_answer_is_enough() -> None:
    result = parse_response({"choices": [{"message": {"content": "Hi"}}]})
    assert result == ChatResult(model="", choices=(Choice(parts=(Text(text="Hi"),), reason="stop"),))


def test_choices_come_in_the_order_of_their_indexes() -> None:
    choices = [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]
    assert [choice.parts[0] for choice in parse_response({"choices": choices}).choices] == [
        Text(text="a"),
        Text(text="b"),
    ]


def test_a_stop_string_that_was_met_is_known() -> None:
    choice = parse_response(answer({"content": "a"}, finish_reason="stop", stop_reason="END")).choices[0]
    assert choice.stop_sequence == "END"


@pytest.mark.parametrize(
    "body", [None, [], "text", {}, {"choices": []}, {"choices": None}, {"choices": [1]}, {"object": "list"}]
)
def test_what_is_no_chat_completion_is_an_upstream_error(body: Any) -> None:
    with pytest.raises(UpstreamError, match="without chat completion choices"):
        parse_response(body)


def test_an_error_with_status_200_is_raised() -> None:
    with pytest.raises(UpstreamOverloaded, match="busy"):
        parse_response({"error": {"message": "busy", "code": 503}})


def test_audio_that_is_no_base64_is_an_upstream_error() -> None:
    with pytest.raises(UpstreamError, match="base64"):
        parts_of({"audio": {"id": "a", "data": "A"}})


@pytest.mark.parametrize(
    ("raw", "calls_tools", "reason"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("length", True, "length"),
        ("function_call", False, "tool_calls"),
        ("content_filter", False, "content_filter"),
        ("max_tokens", False, "length"),
        ("surprise", False, "other"),
    ],
)
def test_finish_reasons_are_understood(raw: str, calls_tools: bool, reason: FinishReason) -> None:
    assert parse_finish_reason(raw, calls_tools) == reason


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [
        ("stop", "end_turn", "stop"),
        ("other", "pause_turn", "stop"),
        ("tool_calls", "tool_use", "tool_calls"),
        ("tool_calls", "function_call", "function_call"),
    ],
)
def test_finish_reasons_are_said_in_the_vendors_words(reason: FinishReason, raw: str, word: str) -> None:
    assert render_finish_reason(reason, raw) == word


@pytest.mark.parametrize(
    ("value", "usage"),
    [
        (None, None),
        ([], None),
        ({}, None),
        ({"prompt_tokens": True}, None),
        ({"prompt_tokens": 1}, Usage(input_tokens=1)),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(input_tokens=0, output_tokens=0)),
        ({"input_tokens": 1, "output_tokens": 2.0}, None),
        (
            {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9},
            Usage(input_tokens=1, output_tokens=2, extra={"total_tokens": 9}),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4, "prompt_tokens_details": None},
            Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4, extra={"prompt_cache_hit_tokens": 4}),
        ),
    ],
)
def test_usage_of_many_shapes_is_understood(value: Any, usage: Usage | None) -> None:
    if isinstance(value, dict) and "input_tokens" in value:
        found = parse_usage(value)
        assert found is not None
        assert (found.input_tokens, found.output_tokens) == (1, 2)
    else:
        assert parse_usage(value) == usage
