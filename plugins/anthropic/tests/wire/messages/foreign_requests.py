"""Requests of other formats, and what becomes of them."""

from __future__ import annotations

from typing import Any

from plugins.anthropic.tests.wire.messages.support import call_for, foreign, message
from tornado_gate.types import Message, Text, Tool, ToolCall, ToolResult
from tornado_gate_anthropic.wire.messages import ModelFeatures, render_request

F = Tool(name="f", parameters={"type": "object"})
NEW = ModelFeatures(thinking="adaptive", sampling="none", system_turns=True)


def rendered(
    *messages: Message, abilities: ModelFeatures | None = None, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body for a request of another format, and what was lost."""
    call = call_for()
    body = render_request(call, foreign(*messages, **fields), abilities=abilities)
    return body, call.losses


def turns(*messages: Message, **fields: Any) -> Any:
    body, losses = rendered(*messages, **fields)
    assert losses == []
    return body["messages"]


def result(call_id: str, *parts: Any, **rest: Any) -> Message:
    found = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    return Message(role="tool", parts=(ToolResult(call_id=call_id, parts=found, **rest),))


def calls(*ids: str) -> Message:
    return message("assistant", *(ToolCall(id=call_id, name="f", arguments="{}") for call_id in ids))


def use(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": arguments}


def answer(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}
