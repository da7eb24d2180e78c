"""Select the tools to call, and make their arguments. Pure; the number of tools and words that are read is limited.

With "auto" a tool is called when the user's text shares a word with its name, or two words with its description.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from tornado_gate.errors import InvalidField
from tornado_gate.types import ChatRequest, Tool, ToolChoice
from tornado_gate.types.value import Value
from tornado_gate_local import words
from tornado_gate_local.conversation import LocalTurn
from tornado_gate_local.hints import TextHints
from tornado_gate_local.json_schema import StepBudget
from tornado_gate_local.schema import fill

MAX_TOOLS = 128  # tools whose words are read
MAX_CALLS = 8
MAX_DESCRIPTION_LENGTH = 500  # of a description that are read

_AUTO = ToolChoice(mode="auto")


class PlannedCall(Value, frozen=True):
    """A tool call without its id; `arguments` is JSON text."""

    name: str
    arguments: str


def plan_calls(request: ChatRequest, turn: LocalTurn, budget: StepBudget) -> tuple[PlannedCall, ...]:
    """The tool calls to make; empty when the answer is text. Raises InvalidField for a tool_choice that names no tool."""
    chosen = _choose_tools(request, turn)
    if request.parallel_tool_calls is False:
        chosen = chosen[:1]
    return tuple(PlannedCall(tool.name, _make_arguments(tool, turn.text, budget)) for tool in chosen[:MAX_CALLS])


def _choose_tools(request: ChatRequest, turn: LocalTurn) -> Sequence[Tool]:
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    choice = request.tool_choice or _AUTO
    if choice.mode == "none":
        return []
    if choice.mode == "tool":
        return [_find_tool(tools, choice.name or "", request)]
    if choice.mode == "allowed":
        tools = [tool for tool in tools if tool.name in choice.names]
    forced = choice.mode == "required" or (choice.mode == "allowed" and choice.required)
    matching = _find_matching(tools, turn.text) if forced or not turn.after_tools else []
    return matching or (tools[:1] if forced else [])


def _find_tool(tools: Sequence[Tool], name: str, request: ChatRequest) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    field = request.field_name("tool_choice")
    raise InvalidField(
        field, f"'{field}' names the tool '{name[:100]}', which is not a function in 'tools'. Add it or choose another."
    )


def _find_matching(tools: Sequence[Tool], text: str) -> list[Tool]:
    hints = TextHints(text)
    return [tool for tool in tools[:MAX_TOOLS] if _is_match(tool, hints)]


def _is_match(tool: Tool, hints: TextHints) -> bool:
    if hints.mentions_value(tool.name):
        return True
    name = {
        words.get_stem(part) for part in words.split_name(tool.name) if part not in words.STOP_WORDS and len(part) > 1
    }
    if name & hints.stems:
        return True
    return len(words.list_stems((tool.description or "")[:MAX_DESCRIPTION_LENGTH]) & hints.stems) > 1


def _make_arguments(tool: Tool, text: str, budget: StepBudget) -> str:
    """The arguments as JSON text: all required properties, and the optional ones that the text mentions."""
    schema = tool.parameters or {}
    shape = dict(schema) if "type" in schema or "$ref" in schema else {"type": "object", **schema}
    value = fill(shape, text, optional="mentioned" if "required" in shape else "all", budget=budget)
    return orjson.dumps(value if isinstance(value, dict) else {}).decode()
