"""References to tools in tool results, as texts for models of other formats. Pure.

In Anthropic's format a client-side tool search returns the names of the tools that it found (``{"type": "tool_reference",
"tool_name": "…"}``), and the vendor then shows these tools, which have ``defer_loading``, to the model. Models of other vendors
see all tools of a request from the start; without a text the result of their search would be empty. Claude Code searches this
way.

Source: anthropic-python 2.11, types/tool_reference_block_param.py; claude-code 2.1 (requests recorded on 2026-11-22).
"""

from __future__ import annotations

from tornado_gate.types import ChatRequest, Message, Part, Text, ToolResult, VendorPart
from tornado_gate.types.value import replace
from tornado_gate.wire import conversation_formats as formats


def describe_tool_references(request: ChatRequest) -> ChatRequest:
    """`request` with a text in place of each reference in its tool results; the same request without references."""
    if request.wire_format != formats.ANTHROPIC_MESSAGES:
        return request
    messages = tuple(_describe_in_message(message) for message in request.messages)
    return request if messages == request.messages else replace(request, messages=messages)


def _describe_in_message(message: Message) -> Message:
    if message.role != "tool":
        return message
    parts = tuple(_describe_in_result(part) if isinstance(part, ToolResult) else part for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _describe_in_result(result: ToolResult) -> ToolResult:
    if not any(isinstance(part, VendorPart) for part in result.parts):
        return result
    return replace(result, parts=tuple(_describe(part) for part in result.parts))


def _describe(part: Part) -> Part:
    match part:
        case VendorPart(value={"type": "tool_reference", "tool_name": str(name)}):
            return Text(text=f"Found the tool {name}; it can be called now.")
        case _:
            return part
