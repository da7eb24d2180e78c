"""Vendors' parts as texts, for models of other formats. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tornado_gate.types import ChatRequest, Message, Part, Text, ToolResult, VendorPart
from tornado_gate.types.value import replace


def get_part_text(part: Part) -> Text | None:
    """The text that stands for a vendor's part; None for a vendor's part without text, and for any other part."""
    return part.text if isinstance(part, VendorPart) else None


def write_result_texts(result: ToolResult) -> ToolResult:
    """`result` with texts in place of vendors' parts; the same result without such parts."""
    parts = _replace_parts(result.parts)
    return result if parts == result.parts else replace(result, parts=parts)


def write_texts(request: ChatRequest) -> ChatRequest:
    """`request` with texts in place of vendors' parts; the same request without such parts."""
    messages = tuple(_replace_in_message(message) for message in request.messages)
    return request if messages == request.messages else replace(request, messages=messages)


def _replace_in_message(message: Message) -> Message:
    parts = tuple(
        write_result_texts(part) if isinstance(part, ToolResult) else part for part in _replace_parts(message.parts)
    )
    return message if parts == message.parts else replace(message, parts=parts)


def _replace_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(get_part_text(part) or part for part in parts)
