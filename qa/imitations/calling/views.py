"""What a caller sees of an answer, in each format: the same items, whether it was streamed or not.

Shapes: openai-python 3.52 types/chat and types/responses, anthropic-python 2.11 types/message.py, google-genai 3.4 types.py.
``reasoning_content`` is the house's name for thinking in chats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qa.imitations.calling.scenario import Caller

Seen = tuple[str, Any]
"""("thinking" or "text", the text), or ("call", (name, arguments))."""


@dataclass(frozen=True, slots=True)
class View:
    """An answer as a caller sees it. `usage`: tokens of input, cached input, output, thinking; `raw`: what clients keep."""

    items: tuple[Seen, ...]
    finish: str
    usage: tuple[int, int, int, int]
    raw: Any


def read_answer(caller: Caller, text: str, stream: bool) -> View:
    """The view of a response body."""
    whole = _JOINERS[caller](list(_read_events(text))) if stream else json.loads(text)
    return _VIEWS[caller](whole)


def _read_events(text: str) -> Iterator[Any]:
    for frame in text.replace("\r\n", "\n").split("\n\n"):
        data = "".join(line[5:].strip() for line in frame.splitlines() if line.startswith("data:"))
        if data and data != "[DONE]":
            yield json.loads(data)


def merge(items: Iterable[Seen]) -> tuple[Seen, ...]:
    """Adjacent texts of one kind joined, and empty ones left out."""
    merged: list[Seen] = []
    for kind, value in items:
        if kind != "call" and not value:
            continue
        if kind != "call" and merged and merged[-1][0] == kind:
            merged[-1] = (kind, merged[-1][1] + value)
        else:
            merged.append((kind, value))
    return tuple(merged)


def _join_chat(chunks: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish, usage = "", {}
    for chunk in chunks:
        assert "error" not in chunk, chunk
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            finish = choice.get("finish_reason") or finish
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    for delta in value:
                        call = calls.setdefault(
                            delta["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
                        )
                        call |= {key: delta[key] for key in ("id", "type") if delta.get(key)}
                        for key, piece in delta.get("function", {}).items():
                            call["function"][key] += piece or ""
                elif name != "role" and isinstance(value, str):
                    message[name] = (message.get(name) or "") + value
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _join_responses(events: list[Any]) -> Any:
    last = events[-1]
    assert last["type"] in ("response.completed", "response.incomplete"), last
    texts = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    said = [part["text"] for item in last["response"]["output"] for part in item.get("content") or () if "text" in part]
    assert texts == "".join(said), (texts, said)
    return last["response"]


def _join_messages(events: list[Any]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for event in events:
        match event:
            case {"type": "message_start"}:
                message = event["message"]
            case {"type": "content_block_start", "content_block": block}:
                message["content"].append({**block} | ({"input": ""} if block["type"] == "tool_use" else {}))
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                block = message["content"][index]
                for name, value in delta.items():
                    target = {"partial_json": "input"}.get(name, name)
                    if name != "type" and isinstance(value, str):
                        block[target] = block.get(target, "") + value
            case {"type": "message_delta"}:
                message |= {name: value for name, value in event["delta"].items() if value is not None}
                message["usage"] |= {name: value for name, value in event["usage"].items() if value is not None}
            case {"type": "error"}:
                raise AssertionError(event)
    for block in message["content"]:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")
    return message


def _join_generate(chunks: list[Any]) -> dict[str, Any]:
    parts: list[Any] = []
    finish, usage = "", {}
    for chunk in chunks:
        assert "error" not in chunk, chunk
        usage = chunk.get("usageMetadata") or usage
        for candidate in chunk.get("candidates") or ():
            finish = candidate.get("finishReason") or finish
            parts += (candidate.get("content") or {}).get("parts") or []
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": usage,
    }


def _view_chat(whole: Any) -> View:
    choice, usage = whole["choices"][0], whole["usage"]
    message = choice["message"]
    items: list[Seen] = [("thinking", message.get("reasoning_content")), ("text", message.get("content"))]
    for call in message.get("tool_calls") or ():
        items.append(("call", (call["function"]["name"], json.loads(call["function"]["arguments"]))))
    counted = (
        usage["prompt_tokens"],
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        usage["completion_tokens"],
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0),
    )
    return View(merge(items), choice["finish_reason"], counted, message)


def _view_responses(whole: Any) -> View:
    items: list[Seen] = []
    for item in whole["output"]:
        if item["type"] == "reasoning":
            items.append(("thinking", "\n\n".join(part["text"] for part in item["summary"])))
        elif item["type"] == "message":
            items += [("text", part["text"]) for part in item["content"] if "text" in part]
        else:
            items.append(("call", (item["name"], json.loads(item["arguments"]))))
    usage = whole["usage"]
    counted = (
        usage["input_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )
    finish = (whole.get("incomplete_details") or {}).get("reason") or whole["status"]
    return View(merge(items), finish, counted, whole["output"])


def _view_messages(whole: Any) -> View:
    items: list[Seen] = []
    for block in whole["content"]:
        if block["type"] == "tool_use":
            items.append(("call", (block["name"], block["input"])))
        elif block["type"] in ("text", "thinking"):
            items.append((block["type"], block[block["type"]]))
    usage = whole["usage"]
    cached, written = (usage.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    thought = (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0
    counted = (usage["input_tokens"] + cached + written, cached, usage["output_tokens"], thought)
    return View(merge(items), whole["stop_reason"], counted, whole["content"])


def _view_generate(whole: Any) -> View:
    candidate, usage = whole["candidates"][0], whole["usageMetadata"]
    parts = (candidate.get("content") or {}).get("parts") or []
    items: list[Seen] = []
    for part in parts:
        if "functionCall" in part:
            items.append(("call", (part["functionCall"]["name"], part["functionCall"].get("args") or {})))
        elif "text" in part:
            items.append(("thinking" if part.get("thought") else "text", part["text"]))
    thought = usage.get("thoughtsTokenCount") or 0
    counted = (
        usage["promptTokenCount"],
        usage.get("cachedContentTokenCount") or 0,
        (usage.get("candidatesTokenCount") or 0) + thought,
        thought,
    )
    return View(merge(items), candidate["finishReason"], counted, parts)


_JOINERS: Mapping[Caller, Any] = {
    "chat": _join_chat, "responses": _join_responses, "messages": _join_messages, "generate": _join_generate
}  # fmt: skip
_VIEWS: Mapping[Caller, Any] = {
    "chat": _view_chat, "responses": _view_responses, "messages": _view_messages, "generate": _view_generate
}  # fmt: skip
