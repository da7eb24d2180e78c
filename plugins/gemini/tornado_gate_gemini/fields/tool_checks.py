"""Checks of ``tools`` and ``toolConfig``. Tools of unknown kinds are accepted: the upstream may support them.

Source: google-genai 3.4, types.Tool, FunctionDeclaration and FunctionCallingConfig.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tornado_gate.codec.checks import (
    need_array,
    need_object,
    optional_object,
    optional_string,
    raise_invalid,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import Array, BodySchema, Boolean, Object, String, describe_type

MAX_FUNCTIONS: Final = 512

_NAME_PATTERN: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,128}")
_CALLING_MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


def check_tools(tools: Any) -> None:
    """Raise InvalidField for the first invalid tool."""
    functions = 0
    for index, tool in enumerate(need_array(tools, "tools")):
        path = f"tools.{index}"
        need_object(tool, path)
        for name, value in tool.items():
            if name == "functionDeclarations" and value is not None:
                declarations = need_array(value, f"{path}.{name}")
                functions += len(declarations)
                for number, declaration in enumerate(declarations):
                    _check_function(declaration, f"{path}.{name}.{number}")
            elif value is not None and not isinstance(value, (dict, list)):
                raise_invalid(f"{path}.{name}", f"must be an object, not {describe_type(value)}")
    if functions > MAX_FUNCTIONS:
        refuse_value("tools", f"has {functions} functions; at most {MAX_FUNCTIONS} are allowed")


def _check_function(value: Any, path: str) -> None:
    function = need_object(value, path)
    if _NAME_PATTERN.fullmatch(string_member(function, "name", path)) is None:
        refuse_value(f"{path}.name", "must have 1 to 128 letters, digits, '_', '-', '.' or ':'")
    optional_string(function, "description", path)
    optional_object(function, "parameters", path)
    optional_object(function, "parametersJsonSchema", path)
    if function.get("parameters") is not None and function.get("parametersJsonSchema") is not None:
        raise_invalid(f"{path}.parametersJsonSchema", "cannot be combined with 'parameters'; send one of them")


class _FunctionCallingSchema(BodySchema):
    mode = String(choices=_CALLING_MODES, allow_none=True)
    allowedFunctionNames = Array(String(), allow_none=True)
    streamFunctionCallArguments = Boolean(allow_none=True)


class ToolConfigSchema(BodySchema):
    """``toolConfig``."""

    functionCallingConfig = Object(_FunctionCallingSchema, allow_none=True)
    retrievalConfig = Object(allow_none=True)
