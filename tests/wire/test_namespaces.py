"""Tools in namespaces, and tools declared between messages, at models that have one list of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tornado_gate.testing import call_to
from tornado_gate.types import PartStart, StreamEvent, Tool, ToolCall, VendorTool
from tornado_gate.wire.model_features import ChatFeatures
from tornado_gate.wire.namespaces import flatten_namespaces, list_qualified_names
from tornado_gate.wire.tool_names import fit_tools, restore_tools
from tornado_gate_openai.wire.responses import parse_request

RULE = ChatFeatures(longest_tool_name=64)
EXEC = {"type": "custom", "name": "exec", "description": "Runs code.", "format": {"type": "grammar", "syntax": "lark"}}
WAIT = {"type": "function", "name": "wait", "description": "Waits.", "parameters": {"type": "object"}, "strict": False}
GROUPS = [
    {"type": "namespace", "name": "functions", "description": "", "tools": [EXEC, WAIT]},
    {"type": "namespace", "name": "clock", "description": "About time.", "tools": [WAIT]},
]
DECLARED = {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": GROUPS}
PLAIN = {"type": "function", "name": "wait", "parameters": {"type": "object"}}
CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "namespace": "functions", "input": "go()"}
OUTPUT = {"type": "custom_tool_call_output", "call_id": "c1", "output": "Gone."}
LATER = {"role": "user", "content": [{"type": "input_text", "text": "Again."}], "unknown": 1}
NAMES = ["functions__exec", "functions__wait", "clock__wait"]


def asking(*items: Any, **rest: Any) -> Any:
    return parse_request({"model": "m", "input": list(items), **rest})


@pytest.mark.parametrize("body", [{"input": [DECLARED, LATER]}, {"input": [LATER], "tools": GROUPS}])
def test_the_tools_of_namespaces_join_one_list(body: dict[str, Any]) -> None:
    call = call_to()
    request = fit_tools(call, parse_request({"model": "m", **body}), RULE)
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == NAMES
    assert len(request.messages) == 1
    assert [tool.description for tool in request.tools if isinstance(tool, Tool)][1:] == [
        "Waits.",
        "About time.\n\nWaits.",
    ]
    place = "input.0.tools" if "tools" not in body else "tools"
    assert call.losses == [f"{place}.0.tools.0.format"]


def test_an_unknown_member_of_a_namespace_is_reported_by_its_path() -> None:
    group = {**GROUPS[1], "version": 2}
    request = flatten_namespaces(asking({**DECLARED, "tools": [group]}, LATER, tools=[PLAIN, group]))
    assert {name for name in request.extra if "version" in name} == {"tools.1.version", "input.0.tools.0.version"}


def test_a_tool_outside_of_namespaces_keeps_its_name_and_its_place() -> None:
    request = flatten_namespaces(asking(DECLARED, LATER, tools=[PLAIN]))
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == ["wait", "functions__wait", "clock__wait"]
    assert isinstance(request.tools[1], VendorTool)
    assert [request.tool_path(number) for number in range(4)] == [
        "tools.0", "input.0.tools.0.tools.0", "input.0.tools.0.tools.1", "input.0.tools.1.tools.0",
    ]  # fmt: skip


def test_a_tool_that_is_declared_again_is_listed_once() -> None:
    request = flatten_namespaces(asking(DECLARED, LATER, {**DECLARED, "id": "at_2"}, tools=[*GROUPS, PLAIN]))
    assert len(request.tools) == 4


def test_calls_of_the_history_have_the_qualified_name_and_paths_are_those_of_the_caller() -> None:
    request = fit_tools(call_to(), asking(DECLARED, LATER, CALL, OUTPUT, LATER), RULE)
    (made,) = [part for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    assert (made.name, made.kind, made.arguments, made.extra) == ("functions__exec", "function", '{"input":"go()"}', {})
    assert [request.path(number) for number in range(4)] == ["input.1", "input.2", "input.3", "input.4"]
    assert request.path(3, 0) == "input.4.content.0"


async def as_stream(*events: StreamEvent) -> AsyncIterator[StreamEvent]:
    for event in events:
        yield event


@pytest.mark.gen_test
async def test_calls_by_the_model_get_their_namespace_back() -> None:
    request = asking(DECLARED, LATER, tools=[PLAIN])
    assert list(list_qualified_names(request)) == NAMES
    starts = [
        PartStart(index=number, kind="tool_call", id="c", name=name) for number, name in enumerate([*NAMES, "wait"])
    ]
    found = [event async for event in restore_tools(as_stream(*starts), request, RULE) if isinstance(event, PartStart)]
    assert [(event.name, event.extra.get("namespace"), event.tool_kind) for event in found] == [
        ("exec", "functions", "custom"),
        ("wait", "functions", "function"),
        ("wait", "clock", "function"),
        ("wait", None, "function"),
    ]


def test_requests_without_namespaces_are_not_touched() -> None:
    request = asking(LATER, tools=[PLAIN])
    assert flatten_namespaces(request) is request
    assert list_qualified_names(request) == {}
