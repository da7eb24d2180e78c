"""Checks of ``input``: one loop, because a schema for each item takes forty times as long.

Unknown fields of items and unknown types of items and content parts are accepted: the upstream may support them.

Source: openai-python 3.52, types/responses/response_input_item_param.py and the types that it refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    choice_member,
    need_array,
    need_object,
    object_member,
    optional_string,
    raise_invalid,
    raise_missing,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import describe_type

MAX_ITEMS: Final = 10_000

_MESSAGE_ROLES: Final = ("user", "assistant", "system", "developer")


def check_input(value: Any) -> None:
    """Raise InvalidField for ``input`` that is neither a text nor an array of valid items."""
    if not isinstance(value, str):
        check_items(value, "input")


def check_items(value: Any, name: str) -> None:
    """Raise InvalidField for the first invalid item of the field `name`."""
    if not isinstance(value, list):
        raise_invalid(name, f"must be a string or an array, not {describe_type(value)}")
    if not value:
        raise_invalid(name, "must not be empty")
    if len(value) > MAX_ITEMS:
        refuse_value(name, f"has {len(value)} items; at most {MAX_ITEMS} are allowed")
    for index, item in enumerate(value):
        path = f"{name}.{index}"
        need_object(item, path)
        check = _ITEM_CHECKS.get(_get_item_type(item, path))
        if check is not None:
            check(item, path)


def _get_item_type(item: Mapping[str, Any], path: str) -> str:
    """Return the item's type. Messages and item references may omit it."""
    if item.get("type") is not None:
        return string_member(item, "type", path)
    if "role" in item:
        return "message"
    if "id" not in item:
        raise_missing(f"{path}.type")
    return "item_reference"


def _check_message(item: Mapping[str, Any], path: str) -> None:
    if choice_member(item, "role", path, _MESSAGE_ROLES) in _MESSAGE_ROLES:  # others are left to the upstream
        _check_content(item, "content", path)


def _check_content(item: Mapping[str, Any], name: str, path: str) -> None:
    content, place = item.get(name), f"{path}.{name}"
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        if name not in item:
            raise_missing(place)
        raise_invalid(place, f"must be a string or an array, not {describe_type(content)}")
    for index, part in enumerate(content):
        need_object(part, f"{place}.{index}")
        check = _PART_CHECKS.get(string_member(part, "type", f"{place}.{index}"))
        if check is not None:
            check(part, f"{place}.{index}")


def _check_text(part: Mapping[str, Any], path: str) -> None:
    string_member(part, "text", path)


def _check_image(part: Mapping[str, Any], path: str) -> None:
    for name in ("image_url", "file_id", "detail"):
        optional_string(part, name, path)
    if part.get("image_url") is None and part.get("file_id") is None:
        raise_missing(f"{path}.image_url")


def _check_file(part: Mapping[str, Any], path: str) -> None:
    for name in ("file_data", "file_id", "file_url", "filename"):
        optional_string(part, name, path)


def _check_audio(part: Mapping[str, Any], path: str) -> None:
    audio = object_member(part, "input_audio", path)
    string_member(audio, "data", f"{path}.input_audio")
    string_member(audio, "format", f"{path}.input_audio")


_PART_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "text": _check_text,
    "input_text": _check_text,
    "output_text": _check_text,
    "refusal": lambda part, path: string_member(part, "refusal", path),
    "input_image": _check_image,
    "input_file": _check_file,
    "input_audio": _check_audio,
}


def _check_call(item: Mapping[str, Any], path: str) -> None:
    for name in ("call_id", "name", "input" if item.get("type") == "custom_tool_call" else "arguments"):
        string_member(item, name, path)


def _check_output(item: Mapping[str, Any], path: str) -> None:
    optional_string(item, "name", path)
    if item.get("name") is None:  # the vendor accepts a result with `name` and without `call_id`
        string_member(item, "call_id", path)
    optional_string(item, "call_id", path)
    _check_content(item, "output", path)


def _check_reasoning(item: Mapping[str, Any], path: str) -> None:
    optional_string(item, "encrypted_content", path)
    for name in ("summary", "content"):
        pieces = item.get(name)
        if pieces is None:
            continue
        need_array(pieces, f"{path}.{name}")
        for index, piece in enumerate(pieces):
            need_object(piece, f"{path}.{name}.{index}")
            string_member(piece, "text", f"{path}.{name}.{index}")


_ITEM_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "message": _check_message,
    "function_call": _check_call,
    "custom_tool_call": _check_call,
    "function_call_output": _check_output,
    "custom_tool_call_output": _check_output,
    "reasoning": _check_reasoning,
    "item_reference": lambda item, path: string_member(item, "id", path),
}
