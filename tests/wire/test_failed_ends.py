"""Each finish reason of Gemini in each caller format: an answer that the model did not complete is never a normal end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.genai import types as vendor

from tornado_gate.errors import UpstreamError
from tornado_gate.testing import iterate
from tornado_gate_anthropic.wire import messages
from tornado_gate_gemini.wire import generate
from tornado_gate_openai.wire import chat as openai_chat
from tornado_gate_openai.wire import completions, responses

ORDINARY = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
FILTERED = {
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "MODEL_ARMOR",
}
FAILED = [reason.value for reason in vendor.FinishReason if reason.value not in {*ORDINARY, *FILTERED}]


def body(reason: str) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": reason}], "modelVersion": "m"}


def whole(render: Callable[..., Any], reason: str, **more: Any) -> Any:
    return render(generate.parse_response(body(reason)), id="x_1", model="m", **more)


def streamed(render: Callable[..., AsyncIterator[Any]], reason: str, **more: Any) -> list[Any]:
    async def read() -> list[Any]:
        events = generate.parse_stream(iterate([body(reason)]))
        return [chunk async for chunk in render(events, id="x_1", model="m", **more)]

    return asyncio.run(read())


RAISING: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    (openai_chat.render_response, openai_chat.render_stream, {"created": 1}, {"include_usage": False}),
    (completions.render_response, completions.render_stream, {"created": 1}, {"include_usage": False}),
    (messages.render_response, messages.render_stream, {}, {}),
]


@pytest.mark.parametrize("reason", [*FAILED, "A_REASON_OF_TOMORROW"])
@pytest.mark.parametrize("way", RAISING, ids=["chat", "completions", "messages"])
def test_a_failed_end_is_an_error_with_the_upstreams_reason(way: Any, reason: str) -> None:
    render, render_stream, common, streaming = way
    for ask in (
        lambda: whole(render, reason, **common),
        lambda: streamed(render_stream, reason, **common, **streaming),
    ):
        with pytest.raises(UpstreamError, match=rf"\({reason}\)") as caught:
            ask()
        assert (caught.value.status, caught.value.code) == (502, "upstream_response_failed")


@pytest.mark.parametrize("reason", [*FAILED, "A_REASON_OF_TOMORROW"])
def test_a_failed_end_is_a_failed_response(reason: str) -> None:
    answer = whole(responses.render_response, reason, created=1, asked={})
    assert answer["status"] == "failed"
    assert reason in answer["error"]["message"]
    last = streamed(responses.render_stream, reason, created=1, asked={})[-1]
    assert last["type"] == "response.failed"
    assert reason in last["response"]["error"]["message"]


@pytest.mark.parametrize("reason", FAILED)
def test_a_failed_end_keeps_its_reason_for_a_caller_of_the_same_format(reason: str) -> None:
    assert whole(generate.render_response, reason)["candidates"][0]["finishReason"] == reason
    assert streamed(generate.render_stream, reason)[-1]["candidates"][0]["finishReason"] == reason


@pytest.mark.parametrize("reason", sorted(FILTERED))
def test_an_answer_that_was_filtered_is_told_as_one(reason: str) -> None:
    chat = whole(openai_chat.render_response, reason, created=1)
    assert chat["choices"][0]["finish_reason"] == "content_filter"
    assert whole(messages.render_response, reason)["stop_reason"] == "refusal"


def test_a_reason_of_any_length_is_shown_in_part() -> None:
    with pytest.raises(UpstreamError) as caught:
        whole(openai_chat.render_response, "X" * 5000, created=1)
    assert len(caught.value.message) < 400
