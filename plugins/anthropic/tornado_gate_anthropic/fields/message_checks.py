"""Checks of ``system`` and ``messages``: one loop, because a schema for each item takes forty times as long.

Unknown members of messages and blocks, and blocks of unknown types, are accepted: the upstream may support them.

Source: anthropic-python 2.11, types/message_param.py and types/content_block_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    choice_member,
    need_array,
    need_member,
    need_object,
    object_member,
    optional_string,
    raise_invalid,
    raise_missing,
    refuse_value,
    string_member,
)
from tornado_gate.codec.fields import describe_type

MAX_MESSAGES: Final = 100_000

_MESSAGE_ROLES: Final = ("user", "assistant", "system")
_SOURCE_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "base64": ("media_type", "data"),
    "text": ("data",),
    "url": ("url",),
    "file": ("file_id",),
}
"""The string members that each type of source requires. Sources of other types are not checked."""


def check_system(system: Any) -> None:
    """Raise InvalidField unless ``system`` is a string or an array of valid blocks."""
    _check_content(system, "system")


def check_messages(messages: Any) -> None:
    """Raise InvalidField for the first invalid message."""
    need_array(messages, "messages")
    if not messages:
        raise_invalid("messages", "must not be empty")
    if len(messages) > MAX_MESSAGES:
        refuse_value("messages", f"has {len(messages)} items; at most {MAX_MESSAGES} are allowed")
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        need_object(message, path)
        if choice_member(message, "role", path, _MESSAGE_ROLES) not in _MESSAGE_ROLES:
            continue  # left to the upstream
        if "content" not in message:
            raise_missing(f"{path}.content")
        _check_content(message["content"], f"{path}.content")


def _check_content(content: Any, path: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise_invalid(path, f"must be a string or an array, not {describe_type(content)}")
    for index, block in enumerate(content):
        place = f"{path}.{index}"
        need_object(block, place)
        check = _BLOCK_CHECKS.get(string_member(block, "type", place))
        if check is not None:
            check(block, place)


def _check_medium(block: Mapping[str, Any], path: str) -> None:
    optional_string(block, "title", path)
    source = object_member(block, "source", path)
    place = f"{path}.source"
    kind = string_member(source, "type", place)
    for name in _SOURCE_MEMBERS.get(kind, ()):
        string_member(source, name, place)
    if kind == "content":
        _check_content(need_member(source, "content", place), f"{place}.content")


def _check_thinking(block: Mapping[str, Any], path: str) -> None:
    string_member(block, "thinking", path)
    optional_string(block, "signature", path)


def _check_call(block: Mapping[str, Any], path: str) -> None:
    for name in ("id", "name"):
        if not string_member(block, name, path):
            raise_invalid(f"{path}.{name}", "must not be empty")
    object_member(block, "input", path)


def _check_result(block: Mapping[str, Any], path: str) -> None:
    string_member(block, "tool_use_id", path)
    if block.get("content") is not None:
        _check_content(block["content"], f"{path}.content")
    is_error = block.get("is_error")
    if is_error is not None and not isinstance(is_error, bool):
        raise_invalid(f"{path}.is_error", f"must be true or false, not {describe_type(is_error)}")


_BLOCK_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "text": lambda block, path: string_member(block, "text", path),
    "image": _check_medium,
    "document": _check_medium,
    "thinking": _check_thinking,
    "redacted_thinking": lambda block, path: string_member(block, "data", path),
    "tool_use": _check_call,
    "tool_result": _check_result,
}
