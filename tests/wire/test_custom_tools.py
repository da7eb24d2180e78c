"""Custom tools at models that only have functions: the functions, the history, the tool choice, and the text of the calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.testing import call_to
from tornado_gate.types import (
    ChatRequest,
    Message,
    PartDelta,
    PartEnd,
    PartStart,
    StreamEvent,
    Tool,
    ToolCall,
    ToolChoice,
    VendorTool,
)
from tornado_gate.wire.custom_tools import InputReader, replace_custom_tools
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.tool_names import fit_tools, restore_tools

RULE = ChatFeatures(longest_tool_name=64)
GRAMMAR = {"syntax": "lark", "definition": 'start: "a"'}
FLAT = {"type": "custom", "name": "run", "description": "Runs.", "format": {"type": "grammar", **GRAMMAR}}
NESTED = {
    "type": "custom",
    "custom": {"name": "run", "description": "Runs.", "format": {"type": "grammar", "grammar": GRAMMAR}},
}
ARGUMENTS = {"type": "object", "required": ["input"]}


def flat(**value: Any) -> VendorTool:
    return VendorTool(wire_format="openai-responses", value={"type": "custom", **value})


def asking(*tools: Tool | VendorTool, **rest: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=rest.pop("messages", ()), tools=tools, **rest)


@pytest.mark.parametrize(
    ("wire_format", "value", "lost"),
    [("openai-responses", FLAT, "tools.0.format"), ("openai-chat", NESTED, "tools.0.custom.format")],
)
def test_a_custom_tool_is_a_function_that_describes_its_grammar(wire_format: str, value: Any, lost: str) -> None:
    call = call_to()
    tool = VendorTool(wire_format=wire_format, value=value)
    (function,) = replace_custom_tools(call, asking(tool)).tools
    assert isinstance(function, Tool)
    assert function.name == "run"
    assert function.description == 'Runs.\n\nThe input must match this Lark grammar:\nstart: "a"'
    assert function.parameters is not None
    assert function.parameters["properties"]["input"]["type"] == "string"
    assert function.parameters | ARGUMENTS == function.parameters
    assert call.losses == [lost]


@pytest.mark.parametrize("more", [{}, {"format": {"type": "text"}}, {"format": None}])
def test_free_text_loses_nothing(more: dict[str, Any]) -> None:
    call = call_to()
    (function,) = replace_custom_tools(call, asking(flat(name="run", description="Runs.", **more))).tools
    assert isinstance(function, Tool)
    assert (function.description, call.losses) == ("Runs.", [])


def test_an_unknown_member_is_a_loss_of_its_own() -> None:
    call = call_to()
    replace_custom_tools(call, asking(flat(name="run", defer_loading=True)))
    assert call.losses == ["tools.0.defer_loading"]


@pytest.mark.parametrize(
    "more", [{"format": {"type": "text", "case": "upper"}}, {"format": {"type": "text"}, "case": 1}]
)
def test_a_member_of_free_text_that_no_function_has_is_a_loss(more: dict[str, Any]) -> None:
    call = call_to()
    replace_custom_tools(call, asking(flat(name="run", **more)))
    assert call.losses in (["tools.0.format"], ["tools.0.case"])


@pytest.mark.parametrize(
    "choice",
    [{"type": "custom", "name": "run", "mode": "once"}, {"type": "custom", "custom": {"name": "run", "mode": "once"}}],
)
def test_a_choice_with_an_unknown_member_is_left_to_the_provider_that_reports_it(choice: dict[str, Any]) -> None:
    chosen = ToolChoice(mode="vendor", vendor=choice)
    request = replace_custom_tools(call_to(), asking(flat(name="run"), tool_choice=chosen))
    assert request.tool_choice == chosen


def test_other_tools_and_requests_without_custom_tools_are_unchanged() -> None:
    tools = (Tool(name="f"), VendorTool(wire_format="openai-chat", value={"type": "web_search"}))
    call_part = ToolCall(id="c", name="f", arguments="{}")
    request = asking(*tools, messages=(Message(role="assistant", parts=(call_part,)),))
    assert replace_custom_tools(call_to(), request) is request


@given(st.text())
def test_an_earlier_call_is_a_call_of_the_function(text: str) -> None:
    part = ToolCall(id="c", name="run", arguments=text, kind="custom")
    request = asking(messages=(Message(role="assistant", parts=(part,)),))
    (sent,) = replace_custom_tools(call_to(), request).messages[0].parts
    assert isinstance(sent, ToolCall)
    assert (sent.kind, json.loads(sent.arguments)) == ("function", {"input": text})


@pytest.mark.parametrize(
    ("vendor", "expected"),
    [
        ({"type": "custom", "name": "run"}, ToolChoice(mode="tool", name="run")),
        ({"type": "custom", "custom": {"name": "run"}}, ToolChoice(mode="tool", name="run")),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "custom", "name": "run"}, {"type": "function", "name": "f"}],
            },
            ToolChoice(mode="allowed", names=("run", "f"), required=True),
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "custom", "custom": {"name": "run"}}]},
            },
            ToolChoice(mode="allowed", names=("run",)),
        ),
        ({"type": "web_search"}, None),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["run"], "allowed_tools": "run"}, None),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f", "x": 1}]}, None),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom"}, {"type": "mcp"}]}, None),
    ],
)
def test_a_choice_of_a_custom_tool_is_one_of_the_function(vendor: dict[str, Any], expected: ToolChoice | None) -> None:
    choice = ToolChoice(mode="vendor", vendor=vendor)
    assert replace_custom_tools(call_to(), asking(tool_choice=choice)).tool_choice == (expected or choice)


def test_a_model_with_custom_tools_gets_them_unchanged() -> None:
    request = asking(flat(name="a.b"))
    assert fit_tools(call_to(), request, ChatFeatures(longest_tool_name=64, custom_tools=True)) is request


def cut(text: str, sizes: list[int]) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


def read(pieces: list[str]) -> str:
    reader = InputReader()
    return "".join([reader.feed(piece) for piece in pieces] + [reader.finish()])


SIZES = st.lists(st.integers(0, 9))


@given(st.text() | st.text(alphabet='\\"u{}:d8c0\n\U0001f600'), SIZES, st.booleans(), st.sampled_from([None, 2]))
def test_any_text_in_any_pieces_is_read(text: str, sizes: list[int], ascii: bool, indent: int | None) -> None:
    assert read(cut(json.dumps({"input": text}, ensure_ascii=ascii, indent=indent), sizes)) == text


@given(st.text().filter(lambda text: not text.lstrip().startswith("{")), SIZES)
def test_text_that_is_no_object_is_the_input(text: str, sizes: list[int]) -> None:
    assert read(cut(text, sizes)) == text


@given(st.text(alphabet='\\"u{}:input d8c0\n'), SIZES)
def test_pieces_never_change_what_is_read(text: str, sizes: list[int]) -> None:
    for arguments in (text, '{"input": "' + text):
        assert read(cut(arguments, sizes)) == read([arguments])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("", ""),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ('{"input": 5}', '{"input": 5}'),
        ('{"why": "b", "input": "x"}', "x"),
        ('{"input": "x", "why": "b"}', "x"),
        ("{not json", "{not json"),
        ('{"input": "a\nb"}', "a\nb"),
        (r'{"input": "a\qb"}', r"a\qb"),
        (r'{"input": "\ud83d"}', "\ufffd"),
        (r'{"input": "a\u00', "a"),
        ('{"input": "cut off', "cut off"),
    ],
)
def test_malformed_arguments_are_read_as_far_as_possible(arguments: str, text: str) -> None:
    assert read([arguments]) == read(list(arguments)) == text


@pytest.mark.gen_test
async def test_calls_of_the_function_are_calls_of_the_tool() -> None:
    request = asking(flat(name="run.it"), Tool(name="f"))
    sent = [tool.name for tool in fit_tools(call_to(), request, RULE).tools if isinstance(tool, Tool)]

    async def events() -> AsyncIterator[StreamEvent]:
        yield PartStart(index=0, kind="tool_call", id="a", name=sent[0])
        yield PartStart(index=1, kind="tool_call", id="b", name=sent[1])
        for index in (0, 1):
            yield PartDelta(index=index, data='{"inp')
        for index in (0, 1):
            yield PartDelta(index=index, data='ut": "x\\ny"}')
        yield PartEnd(index=0)
        yield PartEnd(index=1)

    assert [event async for event in restore_tools(events(), request, RULE)] == [
        PartStart(index=0, kind="tool_call", id="a", name="run.it", tool_kind="custom"),
        PartStart(index=1, kind="tool_call", id="b", name="f"),
        PartDelta(index=1, data='{"inp'),
        PartDelta(index=0, data="x\ny"),
        PartDelta(index=1, data='ut": "x\\ny"}'),
        PartEnd(index=0),
        PartEnd(index=1),
    ]
