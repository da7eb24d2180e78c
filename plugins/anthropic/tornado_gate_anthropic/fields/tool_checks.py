"""Checks of ``tools`` and ``tool_choice``. Tools of unknown types are accepted: the upstream may support them.

Source: anthropic-python 2.11, types/tool_param.py and types/tool_choice_param.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    need_array,
    need_object,
    object_member,
    optional_string,
    raise_invalid,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import describe_type

MAX_TOOLS: Final = 10_000
_MAX_NAME_LENGTH: Final = 128


def check_tools(tools: Any) -> None:
    """Raise InvalidField for the first invalid tool."""
    need_array(tools, "tools")
    if len(tools) > MAX_TOOLS:
        refuse_value("tools", f"has {len(tools)} items; at most {MAX_TOOLS} are allowed")
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        need_object(tool, path)
        optional_string(tool, "type", path)
        if tool.get("type") in (None, "custom"):
            _check_custom(tool, path)


def _check_custom(tool: Mapping[str, Any], path: str) -> None:
    name = string_member(tool, "name", path)
    if not 1 <= len(name) <= _MAX_NAME_LENGTH:
        refuse_value(f"{path}.name", f"must have 1 to {_MAX_NAME_LENGTH} characters")
    object_member(tool, "input_schema", path)
    optional_string(tool, "description", path)
    _check_optional_boolean(tool, "strict", path)


def check_tool_choice(choice: Any) -> None:
    """Raise InvalidField when ``tool_choice`` is invalid. Unknown types are accepted."""
    need_object(choice, "tool_choice")
    if string_member(choice, "type", "tool_choice") == "tool":
        string_member(choice, "name", "tool_choice")
    _check_optional_boolean(choice, "disable_parallel_tool_use", "tool_choice")


def _check_optional_boolean(value: Mapping[str, Any], name: str, path: str) -> None:
    member = value.get(name)
    if member is not None and not isinstance(member, bool):
        raise_invalid(f"{path}.{name}", f"must be true or false, not {describe_type(member)}")
