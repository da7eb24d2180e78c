"""Tool calls and their results: what has one meaning is put right, everything else is a 400 in the caller's own words."""

from __future__ import annotations

from typing import Any

import pytest

from tornado_gate.errors import InvalidField
from tornado_gate.types import ChatRequest, Message, Part, Text, ToolCall, ToolResult
from tornado_gate.wire.tool_pairs import pair_tool_results
from tornado_gate_anthropic.wire import messages as anthropic_messages
from tornado_gate_gemini.wire import generate
from tornado_gate_openai.wire import chat as openai_chat
from tornado_gate_openai.wire import responses

HELLO = Message(role="user", parts=(Text(text="Hi"),))


def calls(*ids: str) -> Message:
    return Message(role="assistant", parts=tuple(ToolCall(id=one, name=f"n{one}", arguments="{}") for one in ids))


def result(call_id: str, text: str = "so", name: str | None = None) -> Message:
    return Message(role="tool", parts=(ToolResult(call_id=call_id, name=name, parts=(Text(text=text),)),))


def chat(*messages: Message, **rest: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=messages, **rest)


def list_ids(request: ChatRequest) -> list[str]:
    return [_name(part) for message in request.messages for part in message.parts]


def _name(part: Part) -> str:
    match part:
        case ToolCall(id=one):
            return f"call {one}"
        case ToolResult(call_id=one):
            return f"result {one}"
    return "text"


@pytest.mark.parametrize(
    "messages",
    [
        (HELLO,),
        (HELLO, calls("a"), result("a"), HELLO),
        (HELLO, calls("a", "b"), result("b"), result("a")),
        (HELLO, calls("a"), calls("b"), result("a"), result("b")),
        (HELLO, calls("a"), result("a"), calls("a"), result("a", "other")),
    ],
)
def test_a_history_of_pairs_stays_the_same_object(messages: tuple[Message, ...]) -> None:
    request = chat(*messages)
    assert pair_tool_results(request) is request


def test_long_histories_are_paired_in_linear_time() -> None:
    """Each result with each call, and each call with each message after it, would take minutes."""
    ids = [f"c{number}" for number in range(30_000)]
    together = chat(HELLO, calls(*ids), *map(result, reversed(ids)))
    assert pair_tool_results(together) is together
    apart = chat(HELLO, *map(calls, ids), *map(result, reversed(ids)))
    assert pair_tool_results(apart) is apart


def test_the_first_open_call_of_a_name_gets_a_result_without_an_id() -> None:
    named = (ToolCall(id=one, name="f", arguments="{}") for one in "abc")
    history = chat(HELLO, Message(role="assistant", parts=tuple(named)), result("a"), result("", name="f"), result("c"))
    assert list_ids(pair_tool_results(history))[-3:] == ["result a", "result b", "result c"]


def test_a_late_result_comes_directly_after_its_call_and_keeps_its_path() -> None:
    names = {
        "messages": "input",
        "messages.3": "input.9",
        "messages.3.content.0": "input.9.output",
        "reasoning.summary": "x",
    }
    request = pair_tool_results(chat(HELLO, calls("a", "b"), HELLO, result("a"), result("b"), names=names))
    assert list_ids(request) == ["text", "call a", "call b", "result a", "result b", "text"]
    assert [request.path(number) for number in range(5)] == ["input.0", "input.1", "input.9", "input.4", "input.2"]
    assert (request.path(2, 0), request.names["reasoning.summary"]) == ("input.9.output", "x")


def test_a_result_without_an_id_belongs_to_the_first_call_of_its_name() -> None:
    request = pair_tool_results(chat(calls("a", "b"), result("", name="nb"), result("", name="na")))
    assert list_ids(request) == ["call a", "call b", "result b", "result a"]


def test_an_equal_repetition_of_a_result_is_left_out() -> None:
    request = pair_tool_results(chat(calls("a"), result("a"), result("a"), HELLO))
    assert list_ids(request) == ["call a", "result a", "text"]
    assert request.path(2) == "messages.3"


BODIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "chat": (
        openai_chat.parse_request,
        {
            "call": {"role": "assistant", "content": None, "tool_calls": [
                {"id": one, "type": "function", "function": {"name": "f", "arguments": "{}"}} for one in ("a", "b")
            ]},
            "a": {"role": "tool", "tool_call_id": "a", "content": "1"},
            "b": {"role": "tool", "tool_call_id": "b", "content": "2"},
            "other": {"role": "tool", "tool_call_id": "a", "content": "3"},
            "user": {"role": "user", "content": "Hi"},
        },
    ),
    "messages": (
        anthropic_messages.parse_request,
        {
            "call": {"role": "assistant", "content": [
                {"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ("a", "b")
            ]},
            "a": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]},
            "b": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "2"}]},
            "other": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "3"}]},
            "user": {"role": "user", "content": "Hi"},
        },
    ),
    "generate": (
        lambda body: generate.parse_request(body, model="m", stream=False),
        {
            "call": {"role": "model", "parts": [{"functionCall": {"id": one, "name": "f"}} for one in ("a", "b")]},
            "a": {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"x": 1}}}]},
            "b": {"role": "user", "parts": [{"functionResponse": {"id": "b", "name": "f", "response": {"x": 2}}}]},
            "other": {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"x": 3}}}]},
            "user": {"role": "user", "parts": [{"text": "Hi"}]},
        },
    ),
}  # fmt: skip
_LISTS = {"chat": "messages", "messages": "messages", "generate": "contents"}
BROKEN = (
    ("user call a user", "tool_result_missing", {
        "chat": "messages.1.tool_calls.1.id", "messages": "messages.1.content.1.id",
        "generate": "contents.1.parts.1.functionCall",
    }),
    ("user call", "tool_result_missing", {
        "chat": "messages.1.tool_calls.0.id", "messages": "messages.1.content.0.id",
        "generate": "contents.1.parts.0.functionCall",
    }),
    ("user b", "tool_call_missing", {
        "chat": "messages.1.tool_call_id", "messages": "messages.1.content.0.tool_use_id",
        "generate": "contents.1.parts.0.functionResponse",
    }),
    ("user call a b other", "tool_result_repeated", {
        "chat": "messages.4.tool_call_id", "messages": "messages.4.content.0.tool_use_id",
        "generate": "contents.4.parts.0.functionResponse",
    }),
)  # fmt: skip


@pytest.mark.parametrize("caller", BODIES)
@pytest.mark.parametrize(("words", "code", "params"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_history_is_refused_in_the_callers_words(
    caller: str, words: str, code: str, params: dict[str, str]
) -> None:
    parse, pieces = BODIES[caller]
    body = {"model": "m", "max_tokens": 5, _LISTS[caller]: [pieces[word] for word in words.split()]}
    with pytest.raises(InvalidField) as caught:
        pair_tool_results(parse(body))
    assert (caught.value.param, caught.value.code) == (params[caller], code)


def test_responses_name_the_call_id_or_the_field_of_the_earlier_items() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "b", "output": "1"}
    cases = [
        ([{"role": "user", "content": "Hi"}, call], [], "input.1.call_id"),
        ([output], [], "input.0.call_id"),
        ([{"role": "user", "content": "Hi"}], [call], "previous_response_id"),
    ]
    for items, earlier, param in cases:
        with pytest.raises(InvalidField) as caught:
            pair_tool_results(responses.parse_request({"model": "m", "input": items}, earlier))
        assert caught.value.param == param, (items, earlier)


def test_legacy_functions_are_named_as_the_caller_wrote_them() -> None:
    function = {"name": "f", "parameters": {}}
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    answered = {"role": "function", "name": "f", "content": "1"}
    whole = {"model": "m", "functions": [function], "messages": [called, answered]}
    assert list_ids(pair_tool_results(openai_chat.parse_request(whole))) == ["call call_0", "result call_0"]
    for messages, param in (([called], "messages.0.function_call"), ([answered], "messages.0.name")):
        with pytest.raises(InvalidField) as caught:
            pair_tool_results(openai_chat.parse_request({**whole, "messages": messages}))
        assert caught.value.param == param
