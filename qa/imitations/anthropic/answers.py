"""Answers in the vendor's exact shapes, whole and as events in its order.

Source: anthropic-python 2.11, types/message.py, types/usage.py and types/raw_message_stream_event.py; the event trace of
platform.claude.com/docs/en/build-with-claude/thinking#streaming-thinking (read 2026-11-22).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from qa.imitations.anthropic.models import Model
from qa.imitations.anthropic.settings import get_thinking_type, is_thinking
from qa.imitations.calling.plans import Item, Plan

_STOP: Final[Mapping[str, str]] = {
    "done": "end_turn",
    "length": "max_tokens",
    "refused": "refusal",
    "stopped": "stop_sequence",
    "paused": "pause_turn",
    "window": "model_context_window_exceeded",
}
CACHED, WRITTEN, FRESH, THOUGHT = 100, 20, 7, 11
"""Tokens of every answer: read from the cache, written to it, neither; and those of thinking."""


def make_answer(body: Mapping[str, Any], model: Model, plan: Plan, serial: int) -> dict[str, Any]:
    """The whole message."""
    content = [
        block
        for number, item in enumerate(plan.items)
        if (block := _make_block(body, model, item, f"{serial}_{number}")) is not None
    ]
    calls = any(block["type"] == "tool_use" for block in content)
    stop = "tool_use" if calls and plan.end == "done" else _STOP[plan.end]
    thinks = any(block["type"] in ("thinking", "redacted_thinking") for block in content)
    stops = body.get("stop_sequences") or ["stop"]
    refusal = {"type": "refusal", "category": "cyber", "explanation": "This request was declined."}
    return {
        "id": f"msg_{serial:024d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": stops[0] if stop == "stop_sequence" else None,
        "stop_details": refusal if stop == "refusal" else None,
        "usage": _make_usage(THOUGHT if thinks else 0),
    }


def _make_usage(thought: int) -> dict[str, Any]:
    return {
        "input_tokens": FRESH,
        "cache_creation_input_tokens": WRITTEN,
        "cache_read_input_tokens": CACHED,
        "cache_creation": {"ephemeral_5m_input_tokens": WRITTEN, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 30 + thought,
        "output_tokens_details": {"thinking_tokens": thought},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": "us",
        "speed": None,
    }


def _make_block(body: Mapping[str, Any], model: Model, item: Item, serial: str) -> dict[str, Any] | None:
    if item.kind in ("thinking", "redacted"):
        thinks = is_thinking(body, model) or (get_thinking_type(body, model) == "between_tools" and _follows_call(body))
        if not thinks:
            return None
        if item.kind == "redacted":
            return {"type": "redacted_thinking", "data": f"EvAFCoYBredacted{serial}=="}
        omits = (
            model.omits and get_thinking_type(body, model) != "between_tools"
        )  # whats-new-sonnet-5-5: with their text
        default = "omitted" if omits else "summarized"
        display = (body.get("thinking") or {}).get("display") or default
        text = item.text if display == "summarized" else ""
        return {"type": "thinking", "thinking": text, "signature": f"EqQBCgIYAhIM{serial}=="}
    if item.kind == "text":
        return {"type": "text", "text": item.text, "citations": None}
    tools = [tool for tool in body.get("tools") or () if tool.get("type", "custom") == "custom"]
    choice = body.get("tool_choice") or {}
    if not tools or choice.get("type") == "none":
        return None
    if item.tool and choice.get("disable_parallel_tool_use"):
        return None
    name = choice["name"] if choice.get("type") == "tool" else tools[item.tool % len(tools)]["name"]
    call = {"type": "tool_use", "id": f"toolu_{serial:0>24}", "name": name, "input": dict(item.arguments)}
    return {**call, "caller": {"type": "direct"}}


def _follows_call(body: Mapping[str, Any]) -> bool:
    content = body["messages"][-1]["content"]
    return not isinstance(content, str) and any(block["type"] == "tool_result" for block in content)


def make_events(answer: Mapping[str, Any]) -> Iterator[bytes]:
    """The events of a stream with this answer."""
    usage = answer["usage"]
    opened = {**answer, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    started = {name: value for name, value in usage.items() if name != "output_tokens_details"}
    yield _event("message_start", message={**opened, "usage": {**started, "output_tokens": 1}})
    for index, block in enumerate(answer["content"]):
        yield from _make_block_events(index, block)
        if index == 0:
            yield _event("ping")
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    ended = {name: usage[name] for name in (*names, "output_tokens_details", "server_tool_use")}
    delta = {name: answer[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield _event("message_delta", delta={**delta, "container": None}, usage=ended)
    yield _event("message_stop")


def _make_block_events(index: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    empty: Mapping[str, Any] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
        "redacted_thinking": {},
    }[block["type"]]
    yield _event("content_block_start", index=index, content_block={**block, **empty})
    for delta in _list_deltas(block):
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _list_deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield {"type": "text_delta", "text": text[:3]}
            yield {"type": "text_delta", "text": text[3:]}
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
            for piece in (text[:5], text[5:]) if text else ():
                yield {"type": "thinking_delta", "thinking": piece}
            yield {"type": "signature_delta", "signature": signature}
        case {"type": "tool_use", "input": dict(arguments)}:
            written = json.dumps(arguments) if arguments else ""
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in (written[:7], written[7:]) if written else ():
                yield {"type": "input_json_delta", "partial_json": piece}


def _event(kind: str, **members: Any) -> bytes:
    data = json.dumps({"type": kind, **members}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n".encode()
