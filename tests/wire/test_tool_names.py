"""Tool names that a model rejects: the names sent instead, and the way back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.types import (
    ChatRequest,
    Message,
    PartStart,
    StreamEvent,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.tool_names import map_tool_names, rename_tools, restore_tools

RULE = ChatFeatures(longest_tool_name=64)
LETTER_FIRST = ChatFeatures(longest_tool_name=64, tool_name_signs="_-.:", tool_name_letter_first=True)


def asking(*names: str, **rest: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=(), tools=tuple(Tool(name=name) for name in names), **rest)


@pytest.mark.parametrize(
    ("rule", "name", "accepted"),
    [
        (RULE, "get_weather-2", True),
        (RULE, "x" * 64, True),
        (RULE, "x" * 65, False),
        (RULE, "a.b", False),
        (RULE, "a:b", False),
        (RULE, "größe", False),
        (RULE, "", False),
        (LETTER_FIRST, "a.b:c", True),
        (LETTER_FIRST, "_a", True),
        (LETTER_FIRST, "2a", False),
        (LETTER_FIRST, "-a", False),
        (ChatFeatures(), "anything at all", True),
    ],
)
def test_only_a_rejected_name_is_mapped(rule: ChatFeatures, name: str, accepted: bool) -> None:
    assert (name not in map_tool_names(asking(name), rule)) == accepted


@given(st.lists(st.text(min_size=1, max_size=90), unique=True, max_size=5), st.sampled_from([RULE, LETTER_FIRST]))
def test_mapped_names_are_accepted_distinct_and_the_same_every_time(names: list[str], rule: ChatFeatures) -> None:
    mapped = map_tool_names(asking(*names), rule)
    sent = [mapped.get(name, name) for name in names]
    assert len(set(sent)) == len(names)
    pattern = r"[A-Za-z0-9_-]{1,64}" if rule is RULE else r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}"
    assert all(re.fullmatch(pattern, name) for name in sent)
    assert mapped == map_tool_names(asking(*reversed(names)), rule)


def test_a_name_is_mapped_wherever_it_stands() -> None:
    long = "mcp." + "n" * 80
    history = (
        Message(role="assistant", parts=(ToolCall(id="c", name=long, arguments="{}"),)),
        Message(role="tool", parts=(ToolResult(call_id="c", parts=(), name=long),)),
    )
    request = ChatRequest(
        model="m",
        messages=history,
        tools=(Tool(name=long), Tool(name="ok")),
        tool_choice=ToolChoice(mode="tool", name=long),
    )
    names = map_tool_names(request, RULE)
    sent = names[long]
    assert len(sent) == 64
    renamed = rename_tools(request, names)
    assert [tool.name for tool in renamed.tools if isinstance(tool, Tool)] == [sent, "ok"]
    assert renamed.tool_choice == ToolChoice(mode="tool", name=sent)
    assert [part.name for message in renamed.messages for part in message.parts] == [sent, sent]  # type: ignore[union-attr]
    assert rename_tools(request, {}) is request


@pytest.mark.gen_test
async def test_the_caller_gets_its_own_name_back() -> None:
    request = asking("a.b")
    names = map_tool_names(request, RULE)

    async def events() -> AsyncIterator[StreamEvent]:
        yield PartStart(index=0, kind="text")
        yield PartStart(index=1, kind="tool_call", id="c", name=names["a.b"])

    seen = [event async for event in restore_tools(events(), request, RULE)]
    assert seen == [PartStart(index=0, kind="text"), PartStart(index=1, kind="tool_call", id="c", name="a.b")]
