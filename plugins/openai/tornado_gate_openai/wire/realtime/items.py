"""Validation of conversation items: messages, function calls and their outputs.

Source: openai-python 3.52, types/realtime/conversation_item.py and its members, types/beta/realtime/conversation_item.py.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec.checks import (
    choice_member,
    need_member,
    need_object,
    optional_string,
    raise_invalid,
    string_member,
)
from tornado_gate.codec.fields import describe_type

_ITEM_TYPES: Final = ("message", "function_call", "function_call_output")
_MCP_ITEM_TYPES: Final = ("mcp_approval_response", "mcp_list_tools", "mcp_call", "mcp_approval_request")
_ROLES: Final = ("user", "assistant", "system")
_STATUSES: Final = ("completed", "incomplete", "in_progress")
_PART_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "user": ("input_text", "input_audio", "input_image", "text", "item_reference"),
    "assistant": ("output_text", "output_audio", "text", "audio", "item_reference"),
    "system": ("input_text", "text", "item_reference"),
}
"""Part types by role: the types of the current dialect, then the types that only the beta dialect has."""


def check_item(item: Any, path: str, input_format: str = "audio/pcm", references: bool = False) -> None:
    """Raise InvalidField for the first invalid field. `references` allows items of type ``item_reference``."""
    body = need_object(item, path)
    optional_string(body, "id", path)
    types = (*_ITEM_TYPES, *_MCP_ITEM_TYPES, "item_reference") if references else (*_ITEM_TYPES, *_MCP_ITEM_TYPES)
    kind = choice_member(body, "type", path, types)
    if body.get("status") is not None:
        choice_member(body, "status", path, _STATUSES)
    match kind:
        case "message":
            _check_message(body, path, input_format)
        case "function_call":
            string_member(body, "name", path)
            string_member(body, "arguments", path)
            optional_string(body, "call_id", path)
        case "function_call_output":
            string_member(body, "call_id", path)
            string_member(body, "output", path)
        case "item_reference":
            string_member(body, "id", path)


def _check_message(body: dict[str, Any], path: str, input_format: str) -> None:
    role = choice_member(body, "role", path, _ROLES)
    content = need_member(body, "content", path)
    if not isinstance(content, list):
        raise_invalid(f"{path}.content", f"must be an array, not {describe_type(content)}")
    for index, part in enumerate(content):
        _check_part(part, f"{path}.content.{index}", role, input_format)


def _check_part(part: Any, path: str, role: str, input_format: str) -> None:
    body = need_object(part, path)
    match choice_member(body, "type", path, _PART_TYPES[role]):
        case "input_text" | "output_text" | "text":
            string_member(body, "text", path)
        case "input_audio":
            decode_audio(need_member(body, "audio", path), f"{path}.audio", input_format)
            optional_string(body, "transcript", path)
        case "output_audio" | "audio":
            optional_string(body, "audio", path)
            optional_string(body, "transcript", path)
        case "input_image":
            string_member(body, "image_url", path)
        case "item_reference":
            string_member(body, "id", path)


def decode_audio(value: Any, path: str, input_format: str) -> bytes:
    """Decode audio from base64. Raises InvalidField for invalid base64, and for 16-bit PCM with an odd number of bytes.

    A message contains at most a few megabytes of audio, which take a few milliseconds.
    """
    if not isinstance(value, str):
        raise_invalid(path, f"must be a string, not {describe_type(value)}")
    try:
        data = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:  # includes binascii.Error; a plain ValueError means non-ASCII text
        raise_invalid(path, "is not valid base64; send standard base64 with padding")
    if input_format == "audio/pcm" and len(data) % 2:
        raise_invalid(path, f"has {len(data)} bytes, but 16-bit PCM needs two bytes per sample; send whole samples")
    return data
