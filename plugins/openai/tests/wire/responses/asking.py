"""Calls, requests and items for tests of this wire format's requests."""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.testing import call_to
from tornado_gate.types import Call, ChatRequest, Message
from tornado_gate_openai.wire.responses import parse_request

TURN: Final[tuple[dict[str, Any], ...]] = (
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "So", "annotations": [], "logprobs": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}", "status": "completed"},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "g", "input": "ls"},
)
RESULTS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "function_call_output", "call_id": "call_1", "output": "1"},
    {
        "type": "custom_tool_call_output",
        "id": "x",
        "call_id": "call_2",
        "output": [{"type": "input_image", "image_url": "https://a.example/b", "detail": "auto"}],
    },
)


def call_for(model: str = "up", strict: bool = False) -> Call:
    return call_to(model="m", upstream_model=model, strict=strict)


def read_request(*items: Any, **fields: Any) -> ChatRequest:
    return parse_request({"model": "m", "input": list(items), **fields})


def foreign(*messages: Message, **fields: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=messages, wire_format="other", **fields)


def user(*parts: Any, **fields: Any) -> Message:
    return Message(role="user", parts=parts, **fields)
