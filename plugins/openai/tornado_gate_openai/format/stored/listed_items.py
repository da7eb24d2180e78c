"""Input items as the vendor lists them: with the members that are optional in requests and required in responses. Pure.

Source: openai-python 3.52, types/responses/response_item.py, response_input_message_item.py and response_output_message.py; read
2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_CALLS: Final = frozenset(("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"))
_REQUIRED_OF_PART: Final[Mapping[str, dict[str, Any]]] = {
    "input_image": {"detail": "auto"},
    "output_text": {"annotations": [], "logprobs": []},
}
"""By the type of a content part."""


def complete_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a checked request as it is listed."""
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message":
        return {**item, "type": kind, "status": item.get("status") or "completed", "content": _list_parts(item)}
    if kind in _CALLS:
        return {**item, "status": item.get("status") or "completed"}
    return dict(item)


def _list_parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text" if message.get("role") == "assistant" else "input_text", "text": content}]
    return [_complete_part(part) for part in content or ()]


def _complete_part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {**_REQUIRED_OF_PART.get(str(part.get("type")), {}), **part}
