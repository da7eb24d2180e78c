"""Whole answers, usage and finish reasons, both halves."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import pytest
from google.genai import types as vendor
from hypothesis import given
from hypothesis import strategies as st

from plugins.gemini.tests.wire.generate import strategies
from tornado_gate.errors import GateError, UpstreamError, UpstreamRateLimited
from tornado_gate.types import (
    Audio,
    ChatResult,
    Choice,
    Data,
    Image,
    Link,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    Usage,
    VendorPart,
)
from tornado_gate_gemini.wire.generate import (
    parse_finish_reason,
    parse_response,
    parse_usage,
    render_finish_reason,
    render_response,
    render_usage,
)


def answer(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0, **candidate}]}


def rendered(*parts: Any, reason: Any = "stop", **choice: Any) -> dict[str, Any]:
    result = ChatResult(model="up", choices=(Choice(parts=parts, reason=reason, **choice),))
    body = render_response(result, id="made", model="m")
    vendor.GenerateContentResponse.model_validate(body)
    candidate: dict[str, Any] = body["candidates"][0]
    return candidate


@given(result=strategies.results)
def test_parsing_what_was_rendered_gives_the_same_answer(result: ChatResult) -> None:
    body = render_response(result, id="made", model="m", include_thoughts=True)
    vendor.GenerateContentResponse.model_validate(body)
    assert parse_response(body) == result


def test_the_answer_has_the_shape_of_the_contract() -> None:
    result = ChatResult(
        model="up",
        choices=(Choice(parts=(Text(text="Hi"),), reason="stop"),),
        usage=Usage(input_tokens=3, output_tokens=2),
    )
    assert render_response(result, id="made", model="m") == {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "modelVersion": "m",
        "responseId": "made",
    }


def test_calls_end_with_stop_because_clients_go_on_with_nothing_else() -> None:
    call = ToolCall(id="c", name="f", arguments='{"a":1}')
    candidate = rendered(call, reason="tool_calls", raw_reason="tool_use")
    assert candidate["finishReason"] == "STOP"
    assert candidate["content"]["parts"] == [{"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}]


def test_stop_after_calls_means_that_tools_are_called() -> None:
    body = answer({"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "args": {"a": 1}}})
    (choice,) = parse_response(body).choices
    assert (choice.reason, choice.raw_reason) == ("tool_calls", "STOP")
    first, second = choice.parts
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert (first.arguments, second.arguments) == ("{}", '{"a":1}')
    assert first.id.startswith("call_")
    assert first.id != second.id


def test_thoughts_are_shown_to_those_who_asked() -> None:
    choice = Choice(parts=(Thinking(text="hm"), Text(text="Hi")), reason="stop")
    result = ChatResult(model="up", choices=(choice,))
    hidden = render_response(result, id="i", model="m")["candidates"][0]["content"]["parts"]
    shown = render_response(result, id="i", model="m", include_thoughts=True)["candidates"][0]["content"]["parts"]
    assert hidden == [{"text": "Hi"}]
    assert shown == [{"text": "hm", "thought": True}, {"text": "Hi"}]


def test_media_of_an_answer() -> None:
    candidate = rendered(
        Audio(source=Data(media_type="audio/L16;rate=24000", base64="AAEC")),
        Image(source=Data(media_type="image/png", base64="AAEC")),
        Image(source=Link(url="https://e.example/a.png")),
        Refusal(text="No."),
        VendorPart(wire_format="gemini-generate", value={"executableCode": {"code": "1"}}),
        VendorPart(wire_format="other", value={"x": 1}),
    )
    assert candidate["content"]["parts"] == [
        {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "AAEC"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://e.example/a.png"}},
        {"text": "No."},
        {"executableCode": {"code": "1"}},
    ]


def test_arguments_that_are_no_object_are_no_normal_end() -> None:
    candidate = rendered(Text(text="a"), ToolCall(id="c", name="f", arguments="{broken"), reason="tool_calls")
    assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
    assert candidate["content"]["parts"] == [{"text": "a"}]


def test_a_blocked_prompt_has_no_candidates() -> None:
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}
    result = parse_response(body)
    assert result.choices == (Choice(parts=(), reason="content_filter", raw_reason="SAFETY"),)
    assert result.usage == Usage(input_tokens=4)
    again = render_response(result, id="i", model="m")
    assert "candidates" not in again
    assert again["promptFeedback"] == {"blockReason": "SAFETY"}


@pytest.mark.parametrize("content", [{}, {"role": "model"}, {"parts": []}, None])
def test_thinking_until_nothing_is_left_to_say(content: Any) -> None:
    usage = {"promptTokenCount": 1, "thoughtsTokenCount": 50, "totalTokenCount": 51}
    body = {"candidates": [{"content": content, "finishReason": "MAX_TOKENS"}], "usageMetadata": usage}
    result = parse_response(body)
    assert result.choices == (Choice(parts=(), reason="length", raw_reason="MAX_TOKENS"),)
    assert result.usage == Usage(input_tokens=1, output_tokens=50, reasoning_tokens=50)


def test_candidates_are_in_the_order_of_their_indexes() -> None:
    body = {
        "candidates": [answer({"text": text}, index=index)["candidates"][0] for index, text in ((1, "b"), (0, "a"))]
    }
    assert [choice.parts for choice in parse_response(body).choices] == [(Text(text="a"),), (Text(text="b"),)]


def test_probabilities_of_tokens_both_ways() -> None:
    result = {
        "topCandidates": [
            {"candidates": [{"token": "Hi", "logProbability": -0.1}, {"token": "Ho", "logProbability": -2.0}]}
        ],
        "chosenCandidates": [{"token": "Hi", "logProbability": -0.1}],
    }
    body = answer({"text": "Hi"}, logprobsResult=result)
    (choice,) = parse_response(body).choices
    assert choice.logprobs == {
        "content": [
            {
                "token": "Hi",
                "logprob": -0.1,
                "bytes": [72, 105],
                "top_logprobs": [
                    {"token": "Hi", "logprob": -0.1, "bytes": [72, 105]},
                    {"token": "Ho", "logprob": -2.0, "bytes": [72, 111]},
                ],
            }
        ]
    }
    assert rendered(*choice.parts, logprobs=choice.logprobs)["logprobsResult"] == result


def test_what_stands_beside_the_content_comes_along() -> None:
    citations = {"citationMetadata": {"citations": []}, "safetyRatings": []}
    (choice,) = parse_response(answer({"text": "a"}, **citations)).choices
    assert choice.extra == citations
    assert rendered(*choice.parts, extra={**choice.extra, "service_tier": "x"}).items() >= citations.items()


def test_raw_samples_become_a_file_that_plays() -> None:
    samples = bytes(range(8))
    blob = {"mimeType": "audio/L16;codec=pcm;rate=16000", "data": base64.b64encode(samples).decode()}
    (part,) = parse_response(answer({"inlineData": blob}), wav=True).choices[0].parts
    assert isinstance(part, Audio)
    assert isinstance(part.source, Data)
    assert part.source.media_type == "audio/wav"
    with wave.open(io.BytesIO(base64.b64decode(part.source.base64))) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert sound.readframes(100) == samples


def test_sound_that_is_a_file_already_stays_as_it_is() -> None:
    blob = {"mimeType": "audio/mpeg", "data": "AAEC"}
    (part,) = parse_response(answer({"inlineData": blob}), wav=True).choices[0].parts
    assert part == Audio(source=Data(media_type="audio/mpeg", base64="AAEC"))


def test_sound_that_is_no_base64_is_a_fault_of_the_upstream() -> None:
    with pytest.raises(UpstreamError, match="not base64"):
        parse_response(answer({"inlineData": {"mimeType": "audio/pcm", "data": "!"}}))


def test_snake_case_from_an_upstream_is_understood() -> None:
    body = {
        "candidates": [
            {
                "content": {"parts": [{"inline_data": {"mime_type": "image/png", "data": "AAEC"}}]},
                "finish_reason": "STOP",
            }
        ],
        "usage_metadata": {"prompt_token_count": 1, "candidates_token_count": 2},
        "model_version": "up",
    }
    result = parse_response(body)
    assert (result.model, result.usage) == ("up", Usage(input_tokens=1, output_tokens=2))
    assert result.choices[0].parts == (Image(source=Data(media_type="image/png", base64="AAEC")),)


@pytest.mark.parametrize("body", [{}, [], "x", None, {"candidates": []}, {"candidates": 5}, {"candidates": [1]}])
def test_what_is_no_answer_is_a_fault_of_the_upstream(body: Any) -> None:
    with pytest.raises(UpstreamError, match="has no 'candidates'"):
        parse_response(body)


def test_an_error_with_status_200_is_an_error() -> None:
    with pytest.raises(UpstreamRateLimited, match="Slow"):
        parse_response({"error": {"code": 429, "message": "Slow down", "status": "RESOURCE_EXHAUSTED"}})


@given(body=st.dictionaries(st.sampled_from(["candidates", "usageMetadata", "promptFeedback"]), strategies.values))
def test_anything_is_an_answer_or_a_clear_error(body: dict[str, Any]) -> None:
    try:
        parse_response(body)
    except GateError as error:
        assert error.status == 502


@given(
    part=st.dictionaries(
        st.sampled_from(["text", "thought", "inlineData", "functionCall", "thoughtSignature"]), strategies.values
    )
)
def test_any_part_is_taken(part: dict[str, Any]) -> None:
    parse_response(answer(part))


# Finish reasons and usage

REASONS = [reason.value for reason in vendor.FinishReason]


@pytest.mark.parametrize("raw", REASONS)
def test_every_reason_of_the_vendor_survives_a_round_trip(raw: str) -> None:
    reason = parse_finish_reason(raw)
    assert (reason == "stop") is (raw == "STOP")
    assert render_finish_reason(reason, raw) == raw


@pytest.mark.parametrize("raw", ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"])
def test_what_was_filtered_is_told(raw: str) -> None:
    assert parse_finish_reason(raw, calls_tools=True) == "content_filter"


@pytest.mark.parametrize("raw", ["MALFORMED_FUNCTION_CALL", "OTHER", "NO_IMAGE", "A_REASON_OF_TOMORROW"])
def test_an_end_that_is_not_ordinary_is_an_error_and_no_stop(raw: str) -> None:
    assert parse_finish_reason(raw, calls_tools=True) == "error"


@pytest.mark.parametrize(
    ("reason", "raw", "expected"),
    [
        ("stop", "end_turn", "STOP"),
        ("tool_calls", "tool_calls", "STOP"),
        ("tool_calls", "FUNCTION_CALL", "STOP"),
        ("length", "max_tokens", "MAX_TOKENS"),
        ("content_filter", "content_filter", "SAFETY"),
        ("error", "", "OTHER"),
        ("other", "pause_turn", "OTHER"),
    ],
)
def test_reasons_of_others_in_the_vendors_words(reason: Any, raw: str, expected: str) -> None:
    assert render_finish_reason(reason, raw) == expected


def test_thoughts_are_counted_into_the_output_and_out_of_the_candidates() -> None:
    value = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 40,
        "candidatesTokenCount": 10,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 5,
        "totalTokenCount": 145,
    }
    usage = parse_usage(value)
    assert usage == Usage(
        input_tokens=100,
        output_tokens=40,
        cache_read_tokens=40,
        reasoning_tokens=30,
        tool_input_tokens=5,
        extra={"toolUsePromptTokenCount": 5},
    )
    assert render_usage(usage) == value


def test_the_three_totals_are_never_absent() -> None:
    assert render_usage(Usage()) == {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}


@pytest.mark.parametrize("value", [None, 5, {}, {"promptTokenCount": None}, {"promptTokenCount": True}])
def test_what_holds_no_count_is_no_usage(value: Any) -> None:
    assert parse_usage(value) is None


def test_counts_may_be_strings_as_protobuf_writes_them() -> None:
    assert parse_usage({"promptTokenCount": "12"}) == Usage(input_tokens=12)
