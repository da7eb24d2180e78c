"""The legacy form of tools: functions for every provider, and a function_call back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tornado_gate.streams.events import collect, iterate_events, replay
from tornado_gate.testing import call_to
from tornado_gate.types import ChatResult, Choice, StreamEvent, Text, Tool, ToolCall, ToolChoice, ToolResult
from tornado_gate_anthropic.wire import messages
from tornado_gate_openai.wire.chat import (
    is_legacy,
    mark_legacy_call,
    parse_request,
    render_request,
    render_response,
    render_stream,
)

FUNCTION = {"name": "look", "description": "d", "parameters": {"type": "object"}}
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"at":1}'}},
        {"role": "function", "name": "look", "content": "blue"},
    ],
    "functions": [FUNCTION],
    "function_call": {"name": "look"},
}


def test_functions_are_tools_for_every_provider() -> None:
    request = parse_request(BODY)
    assert request.tools == (Tool(name="look", description="d", parameters={"type": "object"}),)
    assert request.tool_choice == ToolChoice(mode="tool", name="look")
    assert request.messages[1].parts == (ToolCall(id="call_1", name="look", arguments='{"at":1}'),)
    assert request.messages[2].parts == (ToolResult(call_id="call_1", name="look", parts=(Text(text="blue"),)),)
    assert request.extra == {}
    assert (request.field_name("tools"), request.field_name("tool_choice")) == ("functions", "function_call")
    assert request.path(1, 0) == "messages.1.function_call"
    call = call_to()
    body = messages.render_request(call, request)
    assert body["tools"] == [{"name": "look", "description": "d", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "tool", "name": "look"}
    assert body["messages"][1]["content"] == [{"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": 1}}]
    assert body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "call_1", "content": "blue"}]
    assert call.losses == []


@pytest.mark.parametrize("choice", [{"name": "look"}, "auto", "none", None])
def test_an_upstream_of_this_format_gets_functions(choice: Any) -> None:
    body = (
        {**BODY, "function_call": choice} if choice else {name: BODY[name] for name in BODY if name != "function_call"}
    )
    call = call_to()
    sent = render_request(call, parse_request(body))
    assert {name: member for name, member in sent.items() if name != "model"} == {
        name: member for name, member in body.items() if name != "model"
    }
    assert call.losses == []


def test_tools_beside_functions_count() -> None:
    request = parse_request(BODY | {"tools": [{"type": "function", "function": FUNCTION}]})
    assert not is_legacy(request)
    assert "functions" in request.extra


ANSWER = ChatResult(
    model="m", choices=(Choice(parts=(ToolCall(id="t", name="look", arguments="{}"),), reason="tool_calls"),)
)


@pytest.mark.gen_test
async def test_the_answer_is_a_function_call() -> None:
    def events() -> AsyncIterator[StreamEvent]:
        return mark_legacy_call(iterate_events(replay(ANSWER)))

    (choice,) = render_response(await collect(events()), id="i", model="m", created=1)["choices"]
    assert choice["message"]["function_call"] == {"name": "look", "arguments": "{}"}
    assert ("tool_calls" in choice["message"], choice["finish_reason"]) == (False, "function_call")
    chunks = [chunk async for chunk in render_stream(events(), id="i", model="m", created=1, include_usage=False)]
    deltas = [chunk["choices"][0]["delta"].get("function_call") for chunk in chunks]
    assert deltas == [{"name": "look", "arguments": ""}, {"arguments": "{}"}, None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"
