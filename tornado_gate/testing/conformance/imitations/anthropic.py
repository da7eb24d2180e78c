"""Anthropic's Messages API. Source: anthropic-sdk-python 2.11 (types), and the recorded responses of this project's
tests.
"""

from __future__ import annotations

import json
from typing import Any

from tornado_gate.testing.conformance.imitations.words import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    TEXT,
    TOOL_INPUT,
    TOOL_PIECES,
    WORDS,
    name_of_tool,
)
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer, json_answer, sse_answer


def answer(request: ReceivedRequest) -> UpstreamAnswer:
    """Return the vendor's response to a request, by its path."""
    body = request.json or {}
    if request.path.endswith("/count_tokens"):
        return json_answer({"input_tokens": INPUT_TOKENS})
    if not request.path.endswith("/messages"):
        error = {"type": "not_found_error", "message": f"no route {request.path}"}
        return json_answer({"type": "error", "error": error}, 404)
    return _answer_message(body)


def _answer_message(body: dict[str, Any]) -> UpstreamAnswer:
    tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
    block: dict[str, Any] = {"type": "text", "text": TEXT, "citations": None}
    if tools:
        block = {"type": "tool_use", "id": "toolu_kit", "name": name_of_tool(tools), "input": json.loads(TOOL_INPUT)}
    message = {
        "id": "msg_kit", "type": "message", "role": "assistant", "model": body.get("model", ""), "content": [block],
        "stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }  # fmt: skip
    if not body.get("stream"):
        return json_answer(message)
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
    empty = {**block, "input": {}} if tools else {**block, "text": ""}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in TOOL_PIECES]
    if not tools:
        deltas = [{"type": "text_delta", "text": word} for word in WORDS]
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": OUTPUT_TOKENS}},
        {"type": "message_stop"},
    ]
    return sse_answer(*((str(event["type"]), event) for event in events))
