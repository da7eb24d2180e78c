"""The check of ``tools`` and ``toolConfig``. Tools of unknown kinds pass: an upstream may know them.

Source: google-genai 3.4, types.Tool, FunctionDeclaration and FunctionCallingConfig.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tornado_gate.codec.checks import need_array, need_object, optional_object, optional_string, string_member, wrong
from tornado_gate.codec.fields import Array, Body, Boolean, Object, String, named

MAX_FUNCTIONS: Final = 512

_NAME: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,128}")
_MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


def check_tools(tools: Any) -> None:
    """Raises InvalidField for the first tool that is wrong."""
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
                wrong(f"{path}.{name}", f"must be an object, not {named(value)}")
    if functions > MAX_FUNCTIONS:
        wrong("tools", f"has {functions} functions; {MAX_FUNCTIONS} are allowed")


def _check_function(value: Any, path: str) -> None:
    function = need_object(value, path)
    if _NAME.fullmatch(string_member(function, "name", path)) is None:
        wrong(f"{path}.name", "must have 1 to 128 letters, digits, '_', '-', '.' or ':'")
    optional_string(function, "description", path)
    optional_object(function, "parameters", path)
    optional_object(function, "parametersJsonSchema", path)
    if function.get("parameters") is not None and function.get("parametersJsonSchema") is not None:
        wrong(f"{path}.parametersJsonSchema", "cannot stand beside 'parameters'")


class _FunctionCalling(Body):
    mode = String(choices=_MODES, allow_none=True)
    allowedFunctionNames = Array(String(), allow_none=True)
    streamFunctionCallArguments = Boolean(allow_none=True)


class ToolConfig(Body):
    """``toolConfig``."""

    functionCallingConfig = Object(_FunctionCalling, allow_none=True)
    retrievalConfig = Object(allow_none=True)
