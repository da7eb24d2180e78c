"""Checks of ``messages``: one loop, because a schema for each item takes forty times as long.

Unknown fields of messages and unknown types of content parts are accepted: the upstream may support them.

Source: openai-python 3.52, types/chat/chat_completion_*_message_param.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
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

MAX_MESSAGES: Final = 10_000
_PLAIN_ROLES: Final = frozenset(("user", "assistant", "system", "developer"))
_get_content: Final = itemgetter("content")
_get_role: Final = itemgetter("role")

_MESSAGE_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_IMAGE_DETAILS: Final = ("auto", "low", "high", "original")
_CONTENT_ALTERNATIVES: Final = ("tool_calls", "function_call", "refusal", "audio")


def have_only_texts(messages: list[Any]) -> bool:
    """Whether each message is an object of two members, one of which is the text ``content``; most requests have only such.

    Without a loop in Python, which takes three times as long.
    """
    try:
        return set(map(len, messages)) == {2} and set(map(type, map(_get_content, messages))) == {str}
    except (KeyError, TypeError):  # a message without content, or one that is no object
        return False


def _are_plain(messages: list[Any]) -> bool:
    """Whether each message has a text, a known role and nothing else."""
    try:
        return have_only_texts(messages) and set(map(_get_role, messages)) <= _PLAIN_ROLES
    except (KeyError, TypeError):  # no role, or one that cannot be a member of a set
        return False


def check_messages(messages: Any) -> None:
    """Raise InvalidField for the first invalid message."""
    if type(messages) is not list:
        need_array(messages, "messages")
    if not messages:
        raise_invalid("messages", "must not be empty")
    if len(messages) > MAX_MESSAGES:
        refuse_value("messages", f"has {len(messages)} items; at most {MAX_MESSAGES} are allowed")
    if _are_plain(messages):
        return
    for index, message in enumerate(messages):
        if (  # fast path for the common message: a role, a text and nothing else
            type(message) is dict
            and len(message) == 2
            and "content" in message
            and type(message["content"]) is str
            and "role" in message
            and type(message["role"]) is str
            and message["role"] in _PLAIN_ROLES
        ):
            continue
        _check_message(message, f"messages.{index}")


def _check_message(message: Any, path: str) -> None:
    need_object(message, path)
    role = choice_member(message, "role", path, _MESSAGE_ROLES)
    optional_string(message, "name", path)
    if role == "assistant":
        _check_assistant(message, path)
    elif role not in _MESSAGE_ROLES:
        return  # left to the upstream
    elif role == "function":
        string_member(message, "name", path)
        _check_function_content(message, path)
    else:
        _check_content(message, path)
        if role == "tool":
            string_member(message, "tool_call_id", path)


def _check_function_content(message: Mapping[str, Any], path: str) -> None:
    if "content" not in message:
        raise_missing(f"{path}.content")
    optional_string(message, "content", path)


def _check_content(message: Mapping[str, Any], path: str) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        if "content" not in message:
            raise_missing(f"{path}.content")
        raise_invalid(f"{path}.content", f"must be a string or an array, not {describe_type(content)}")
    check_parts(content, f"{path}.content")


def check_parts(parts: list[Any], path: str) -> None:
    """Raise InvalidField for the first invalid content part of the array at `path`."""
    for index, part in enumerate(parts):
        place = f"{path}.{index}"
        need_object(part, place)
        check = _PART_CHECKS.get(string_member(part, "type", place))
        if check is not None:
            check(part, place)


def _check_image(part: Mapping[str, Any], path: str) -> None:
    image = object_member(part, "image_url", path)
    string_member(image, "url", f"{path}.image_url")
    if image.get("detail") is not None:
        choice_member(image, "detail", f"{path}.image_url", _IMAGE_DETAILS)


def _check_audio(part: Mapping[str, Any], path: str) -> None:
    audio = object_member(part, "input_audio", path)
    string_member(audio, "data", f"{path}.input_audio")
    string_member(audio, "format", f"{path}.input_audio")


def _check_file(part: Mapping[str, Any], path: str) -> None:
    file = object_member(part, "file", path)
    for name in ("file_data", "file_id", "filename"):
        optional_string(file, name, f"{path}.file")


_PART_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = {
    "text": lambda part, path: string_member(part, "text", path),
    "refusal": lambda part, path: string_member(part, "refusal", path),
    "image_url": _check_image,
    "input_audio": _check_audio,
    "file": _check_file,
}


def _check_assistant(message: Mapping[str, Any], path: str) -> None:
    optional_string(message, "refusal", path)
    if message.get("audio") is not None:
        string_member(object_member(message, "audio", path), "id", f"{path}.audio")
    if message.get("function_call") is not None:
        call = object_member(message, "function_call", path)
        string_member(call, "name", f"{path}.function_call")
        string_member(call, "arguments", f"{path}.function_call")
    if message.get("tool_calls") is not None:
        _check_tool_calls(message["tool_calls"], f"{path}.tool_calls")
    if message.get("content") is not None:
        _check_content(message, path)
    elif all(message.get(name) is None for name in _CONTENT_ALTERNATIVES):
        raise_missing(f"{path}.content")


def _check_tool_calls(calls: Any, path: str) -> None:
    need_array(calls, path)
    for index, call in enumerate(calls):
        place = f"{path}.{index}"
        need_object(call, place)
        string_member(call, "id", place)
        kind = string_member(call, "type", place)
        text_name = {"function": "arguments", "custom": "input"}.get(kind)
        if text_name is not None:
            inner = object_member(call, kind, place)
            string_member(inner, "name", f"{place}.{kind}")
            string_member(inner, text_name, f"{place}.{kind}")
