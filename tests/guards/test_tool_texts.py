"""JSON inside texts of a request is limited like the body: a plugin parses it."""

from __future__ import annotations

import orjson
import pytest

from tornado_gate.errors import TooLarge
from tornado_gate.guards.tool_texts import check_tool_texts
from tornado_gate.types import ChatRequest, Message, Text, ToolCall, ToolResult

DENSE = "[" + "[]," * 1000 + "[]]"


def chat(*parts: Text | ToolCall | ToolResult) -> ChatRequest:
    return ChatRequest(model="m", messages=(Message(role="assistant", parts=parts),))


def call(arguments: str, **rest: str) -> ToolCall:
    return ToolCall(id="c", name="f", arguments=arguments, **rest)  # type: ignore[arg-type]


def result(*texts: str) -> ToolResult:
    return ToolResult(call_id="c", parts=tuple(Text(text=text) for text in texts))


@pytest.mark.parametrize(
    "parts",
    [(call(DENSE),), (result(DENSE),), (result(DENSE[:100], DENSE[100:]),), (call(DENSE[:1500]), call(DENSE[:1600]))],
)
def test_values_in_all_texts_together_are_limited(parts: tuple[ToolCall | ToolResult, ...]) -> None:
    check_tool_texts(chat(*parts), 12_000)
    with pytest.raises(TooLarge) as caught:
        check_tool_texts(chat(*parts), 10_000)
    assert caught.value.code == "too_many_values"
    assert "10000 (limits.body_values)" in caught.value.message


def test_other_texts_are_not_limited() -> None:
    plain = chat(
        Text(text=DENSE),
        call(DENSE, kind="custom"),
        result("code: " + DENSE),
        call(orjson.dumps({"a": DENSE}).decode()),
    )
    check_tool_texts(plain, 100)
