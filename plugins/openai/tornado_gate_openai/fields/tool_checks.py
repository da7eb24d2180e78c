"""Checks of ``tools`` and ``tool_choice``. Tools of unknown types are accepted: the upstream may support them.

Source: openai-python 3.52, types/chat/chat_completion_*_tool*_param.py and types/shared_params/function_definition.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    choice_member,
    need_array,
    need_object,
    optional_string,
    raise_invalid,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import describe_type, format_choices

_NAME_PATTERN: Final = re.compile(
    r"[a-zA-Z0-9_.-]{1,128}"
)  # wider than the vendor's pattern (64 characters, no dots), because other upstreams allow more
_TOOL_CHOICES: Final = ("none", "auto", "required")


def check_response_tools(tools: Any) -> None:
    """Raise InvalidField for the first invalid item of ``tools`` of the responses route, whose functions are not nested."""
    need_array(tools, "tools")
    for index, tool in enumerate(tools):
        path = f"tools.{index}"
        need_object(tool, path)
        kind = string_member(tool, "type", path)
        if kind == "function":
            _check_function(tool, path)
        elif kind == "custom":
            _check_name(tool, path)


def check_response_tool_choice(choice: Any) -> None:
    """Raise InvalidField when ``tool_choice`` of the responses route is invalid."""
    if isinstance(choice, str):
        _check_word("tool_choice", choice, _TOOL_CHOICES)
        return
    if not isinstance(choice, dict):
        raise_invalid("tool_choice", f"must be a string or an object, not {describe_type(choice)}")
    kind = string_member(choice, "type", "tool_choice")
    if kind in ("function", "custom"):
        string_member(choice, "name", "tool_choice")
    elif kind == "allowed_tools":
        choice_member(choice, "mode", "tool_choice", ("auto", "required"))
        need_array(choice.get("tools"), "tool_choice.tools")


def _check_function(function: Mapping[str, Any], path: str) -> None:
    _check_name(function, path)
    optional_string(function, "description", path)
    if function.get("parameters") is not None:
        need_object(function["parameters"], f"{path}.parameters")
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise_invalid(f"{path}.strict", f"must be true or false, not {describe_type(strict)}")


def _check_name(value: Mapping[str, Any], path: str) -> None:
    if _NAME_PATTERN.fullmatch(string_member(value, "name", path)) is None:
        refuse_value(f"{path}.name", "must have 1 to 128 letters, digits, '_', '-' or '.'")


def _check_word(path: str, word: str, choices: tuple[str, ...]) -> None:
    if word not in choices:
        refuse_value(path, f"must be one of {format_choices(choices)}, not '{word[:50]}'")
