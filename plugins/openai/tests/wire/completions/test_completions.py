"""The text completions wire format: requests, whole answers, chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion

from tornado_gate.errors import InvalidField, UpstreamError
from tornado_gate.types import (
    Audio,
    ChatRequest,
    ChatResult,
    Choice,
    Finish,
    FinishReason,
    Message,
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
from tornado_gate_openai.wire.completions import WIRE_FORMAT, parse_request, read_prompt, render_response, render_stream

START = ResponseStart(model="up", id="msg_1", created=5)


def read_request(prompt: Any = "Once", **fields: Any) -> ChatRequest:
    return parse_request({"model": "m", "prompt": prompt, **fields})


def rendered(*choices: Choice, echo: str = "", **rest: Any) -> dict[str, Any]:
    result = ChatResult(model="up", choices=choices, **rest)
    return render_response(result, id="cmpl-made", model="m", created=7, echo=echo)


def chunks_of(events: Iterable[StreamEvent], include_usage: bool = False, echo: str = "") -> list[dict[str, Any]]:
    async def aiter_events() -> AsyncIterator[StreamEvent]:
        for event in events:
            yield event

    async def collect() -> list[dict[str, Any]]:
        chunks = render_stream(
            aiter_events(), id="cmpl-made", model="m", created=7, include_usage=include_usage, echo=echo
        )
        return [chunk async for chunk in chunks]

    return asyncio.run(collect())


def words(index: int, *pieces: str, **start: Any) -> list[StreamEvent]:
    deltas = [PartDelta(index=index, data=piece) for piece in pieces]
    return [PartStart(index=index, **{"kind": "text", **start}), *deltas, PartEnd(index=index)]


def test_a_prompt_is_what_the_user_says() -> None:
    request = read_request(
        temperature=0.5,
        max_tokens=5,
        n=2,
        stop="END",
        seed=1,
        stream=True,
        stream_options={"include_usage": True, "include_obfuscation": False},
        user="u",
    )
    assert request.messages == (Message(role="user", parts=(Text(text="Once"),)),)
    assert (request.wire_format, request.temperature, request.max_tokens, request.n) == (WIRE_FORMAT, 0.5, 5, 2)
    assert (request.stop, request.seed, request.stream, request.include_usage) == (("END",), 1, True, True)
    assert request.extra == {"stream_options": {"include_obfuscation": False}}
    assert request.field_name("messages") == "prompt"
    assert request.path(0) == request.path(0, 0) == "prompt"


def test_a_missing_limit_stays_missing() -> None:
    assert read_request().max_tokens is None


def test_one_prompt_in_an_array_is_one() -> None:
    assert read_prompt({"prompt": ["Once"]}) == "Once"


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [[1, 2]], [[1], [2]]])
def test_several_prompts_and_tokens_cannot_be_a_chat(prompt: Any) -> None:
    with pytest.raises(InvalidField) as caught:
        read_request(prompt)
    assert (caught.value.param, caught.value.status) == ("prompt", 400)


def test_what_chat_cannot_do_is_left_to_be_lost() -> None:
    request = read_request(suffix="the end", logprobs=0, best_of=3, echo=True, x_new=1)
    assert request.extra == {"suffix": "the end", "logprobs": 0, "best_of": 3, "echo": True, "x_new": 1}


@pytest.mark.parametrize(
    "fields",
    [{"suffix": ""}, {"suffix": None}, {"best_of": 1}, {"n": 2, "best_of": 2}, {"echo": False}, {"logprobs": None}],
)
def test_what_asks_for_what_happens_anyway_is_no_loss(fields: dict[str, Any]) -> None:
    assert read_request(**fields).extra == {}


def test_an_answer_has_the_contracts_shape() -> None:
    body = rendered(
        Choice(parts=(Thinking(text="hm"), Text(text="upon "), Text(text="a time")), reason="stop"),
        Choice(parts=(Refusal(text="No."),), reason="length"),
        usage=Usage(input_tokens=3, output_tokens=2),
        id="chatcmpl-1",
    )
    assert body == {
        "id": "cmpl-made",
        "object": "text_completion",
        "created": 7,
        "model": "m",
        "choices": [
            {"text": "upon a time", "index": 0, "logprobs": None, "finish_reason": "stop"},
            {"text": "No.", "index": 1, "logprobs": None, "finish_reason": "length"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    Completion.model_validate(body)


def test_an_id_of_this_format_is_kept_and_usage_is_never_absent() -> None:
    body = rendered(Choice(parts=(), reason="stop"), id="cmpl-1", created=9)
    assert (body["id"], body["created"]) == ("cmpl-1", 9)
    assert body["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_the_prompt_is_echoed_in_every_choice() -> None:
    choice = Choice(parts=(Text(text=" upon"),), reason="stop")
    assert [choice["text"] for choice in rendered(choice, choice, echo="Once")["choices"]] == ["Once upon"] * 2


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "stop"),
        ("other", "stop"),
        ("tool_calls", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
    ],
)
def test_finish_reasons_are_said_in_the_vendors_words(reason: FinishReason, word: str) -> None:
    parts = (ToolCall(id="c", name="f", arguments="{}"), Audio(transcript="Hi"))
    (choice,) = rendered(Choice(parts=parts, reason=reason))["choices"]
    assert (choice["finish_reason"], choice["text"]) == (word, "Hi")
    assert chunks_of([START, Finish(reason=reason)])[-1]["choices"][0]["finish_reason"] == word


def test_a_stream_is_chunks_of_text() -> None:
    events = [START, *words(0, "hm", kind="thinking"), *words(1, "up", "on"), Finish(reason="stop")]
    chunks = chunks_of(events)
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["up", "on", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert {(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks} == {
        ("cmpl-made", 5, "text_completion")
    }
    assert all("usage" not in chunk for chunk in chunks)


def test_usage_comes_last_when_it_was_asked_for() -> None:
    usage = UsageReport(usage=Usage(input_tokens=1, output_tokens=2))
    chunks = chunks_of([START, *words(0, "up"), Finish(reason="stop"), usage], include_usage=True)
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None, None]
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["total_tokens"]) == ([], 3)


def test_the_prompt_is_echoed_once_in_each_choice_of_a_stream() -> None:
    events = [START, *words(0, "a", "b"), Finish(reason="stop"), Finish(reason="stop", choice=1)]
    chunks = chunks_of(events, echo="Once ")
    text = ["".join(c["text"] for k in chunks for c in k["choices"] if c["index"] == number) for number in (0, 1)]
    assert text == ["Once ab", "Once "]


def test_spoken_words_are_text() -> None:
    events = [
        START,
        PartStart(index=0, kind="audio"),
        PartDelta(index=0, data=b"\0", transcript="Hi"),
        PartEnd(index=0),
        Finish(reason="stop"),
    ]
    assert chunks_of(events)[0]["choices"][0]["text"] == "Hi"


def test_a_stream_that_fails_raises_its_error() -> None:
    with pytest.raises(UpstreamError, match="gone"):
        chunks_of([START, *words(0, "up"), StreamError(error=UpstreamError("gone"))])


@given(pieces=st.lists(st.text(min_size=1, max_size=5), max_size=5), echo=st.text(max_size=3))
def test_a_stream_says_what_the_whole_answer_says(pieces: list[str], echo: str) -> None:
    chunks = chunks_of([START, *words(0, *pieces), Finish(reason="stop")], echo=echo)
    whole = rendered(Choice(parts=(Text(text="".join(pieces)),), reason="stop"), echo=echo)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]
