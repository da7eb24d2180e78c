"""Checks of ``contents``: one loop, because a schema for each item takes forty times as long.

Bodies are already in camelCase. Unknown members and parts of unknown kinds are accepted: the upstream may support them.

Source: google-genai 3.4, types.Content and Part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    need_array,
    need_object,
    optional_boolean,
    optional_object,
    optional_string,
    raise_invalid,
    raise_missing,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import describe_type, format_choices
from tornado_gate_gemini.wire.generate import DATA_KEYS

MAX_CONTENTS: Final = 10_000

_CONTENT_ROLES: Final = ("user", "model", "function")


def check_contents(contents: Any, path: str = "contents") -> None:
    """Raise InvalidField for the first invalid content."""
    need_array(contents, path)
    if not contents:
        raise_invalid(path, "must not be empty")
    if len(contents) > MAX_CONTENTS:
        refuse_value(path, f"has {len(contents)} items; at most {MAX_CONTENTS} are allowed")
    for index, content in enumerate(contents):
        _check_content(content, f"{path}.{index}")


def _check_content(content: Any, path: str) -> None:
    need_object(content, path)
    role = content.get("role")
    optional_string(content, "role", path)
    if role and role not in _CONTENT_ROLES:
        refuse_value(f"{path}.role", f"must be one of {format_choices(_CONTENT_ROLES)}, not '{role[:50]}'")
    if content.get("parts") is None:
        raise_missing(f"{path}.parts")
    check_parts(content["parts"], f"{path}.parts")
    if not content["parts"]:
        raise_invalid(f"{path}.parts", "must not be empty")


def check_system(system: Any) -> None:
    """Raise InvalidField unless ``systemInstruction`` is a string, a content, or a single part (SDKs send all three)."""
    if isinstance(system, str):
        return
    if not isinstance(system, dict):
        raise_invalid("systemInstruction", f"must be an object or a string, not {describe_type(system)}")
    parts = system.get("parts")
    if isinstance(parts, dict):
        _check_part(parts, "systemInstruction.parts")
    elif parts is not None:
        check_parts(parts, "systemInstruction.parts")
    elif "text" in system:
        _check_part(system, "systemInstruction")
    else:
        raise_missing("systemInstruction.parts")


def check_parts(parts: Any, path: str) -> None:
    """Raise InvalidField for the first invalid part of the array at `path`."""
    for index, part in enumerate(need_array(parts, path)):
        _check_part(part, f"{path}.{index}")


def _check_part(part: Any, path: str) -> None:
    need_object(part, path)
    kinds = [name for name, member in part.items() if member is not None and name in _PART_CHECKS]
    if len(kinds) > 1:
        raise_invalid(path, f"must have only one of {format_choices(sorted(kinds, key=DATA_KEYS.index))}")
    if not kinds and not any(member is not None for member in part.values()):
        raise_invalid(path, f"must have one of {format_choices(DATA_KEYS[:5])}")
    optional_boolean(part, "thought", path)
    optional_string(part, "thoughtSignature", path)
    if kinds:
        _PART_CHECKS[kinds[0]](part, path)


def _check_inline(part: Mapping[str, Any], path: str) -> None:
    blob = need_object(part["inlineData"], f"{path}.inlineData")
    string_member(blob, "mimeType", f"{path}.inlineData")
    string_member(blob, "data", f"{path}.inlineData")
    optional_string(blob, "displayName", f"{path}.inlineData")


def _check_file(part: Mapping[str, Any], path: str) -> None:
    file = need_object(part["fileData"], f"{path}.fileData")
    string_member(file, "fileUri", f"{path}.fileData")
    optional_string(file, "mimeType", f"{path}.fileData")
    optional_string(file, "displayName", f"{path}.fileData")


def _check_call(part: Mapping[str, Any], path: str) -> None:
    call = need_object(part["functionCall"], f"{path}.functionCall")
    string_member(call, "name", f"{path}.functionCall")
    optional_string(call, "id", f"{path}.functionCall")
    optional_object(call, "args", f"{path}.functionCall")


def _check_response(part: Mapping[str, Any], path: str) -> None:
    path = f"{path}.functionResponse"
    response = need_object(part["functionResponse"], path)
    string_member(response, "name", path)
    optional_string(response, "id", path)
    optional_object(response, "response", path)
    if response.get("parts") is not None:
        check_parts(response["parts"], f"{path}.parts")


def _check_code(part: Mapping[str, Any], path: str) -> None:
    code = need_object(part["executableCode"], f"{path}.executableCode")
    optional_string(code, "language", f"{path}.executableCode")
    optional_string(code, "code", f"{path}.executableCode")


def _check_outcome(part: Mapping[str, Any], path: str) -> None:
    result = need_object(part["codeExecutionResult"], f"{path}.codeExecutionResult")
    optional_string(result, "outcome", f"{path}.codeExecutionResult")
    optional_string(result, "output", f"{path}.codeExecutionResult")


_PART_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "text": lambda part, path: string_member(part, "text", path),
    "inlineData": _check_inline,
    "fileData": _check_file,
    "functionCall": _check_call,
    "functionResponse": _check_response,
    "executableCode": _check_code,
    "codeExecutionResult": _check_outcome,
    "toolCall": lambda part, path: need_object(part["toolCall"], f"{path}.toolCall"),
    "toolResponse": lambda part, path: need_object(part["toolResponse"], f"{path}.toolResponse"),
}
