"""Answers of upstreams and requests of callers with given texts, in four wire formats: for tests that cross formats."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.support.upstream import EVENT_STREAM, JSON, Answer, Step, Wait, answer

FORMATS = ("chat", "responses", "messages", "generate")
"""OpenAI's chat completions and Responses, Anthropic's Messages, Gemini's generateContent."""


def make_request(wire_format: str, model: str, prompt: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    """The path and the body of a caller's request."""
    turn = [{"role": "user", "content": prompt}]
    if wire_format == "chat":
        return "/v1/chat/completions", {"model": model, "messages": turn, "stream": stream}
    if wire_format == "responses":
        return "/v1/responses", {"model": model, "input": prompt, "stream": stream}
    if wire_format == "messages":
        return "/v1/messages", {"model": model, "messages": turn, "max_tokens": 99, "stream": stream}
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return f"/v1beta/models/{model}:{method}", {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}


def make_answer(wire_format: str, pieces: Iterable[str], *, stream: bool, wait_before: str = "") -> Answer:
    """The answer of an upstream with a text, which a stream sends in pieces.

    The stream waits for the word "go" before the first event that contains `wait_before`.
    """
    pieces = list(pieces)
    if not stream:
        return answer(json.dumps(_WHOLE[wire_format]("".join(pieces))), headers=JSON)
    frames: list[Step] = []
    for event in _EVENTS[wire_format](pieces):
        if wait_before and wait_before in json.dumps(event):
            frames.append(Wait("go"))
            wait_before = ""
        name = f"event: {event['type']}\n" if "type" in event else ""
        frames.append(f"{name}data: {json.dumps(event)}\n\n")
    if wire_format == "chat":
        frames.append("data: [DONE]\n\n")
    return answer(*frames, headers=EVENT_STREAM)


def read_text(wire_format: str, body: str) -> str:
    """The text of a whole response, or of the deltas of a streamed one."""
    if not body.startswith(("data:", "event:", ":")):
        return _read_whole(wire_format, json.loads(body))
    return "".join(_read_event(wire_format, event) for event in read_events(body))


def read_events(body: str) -> list[dict[str, Any]]:
    """The JSON events of a stream of server-sent events."""
    data = [line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in data if line != "[DONE]"]


def find_error_code(wire_format: str, error: dict[str, Any]) -> str:
    """The gateway's code in an error body or an error event."""
    found = error.get("error", error)
    return str(found.get("code") or found.get("type"))


def _read_whole(wire_format: str, body: dict[str, Any]) -> str:
    match wire_format:
        case "chat":
            return str(body["choices"][0]["message"]["content"])
        case "responses":
            return "".join(part["text"] for item in body["output"] for part in item.get("content", ()))
        case "messages":
            return "".join(part["text"] for part in body["content"])
        case _:
            return "".join(part["text"] for part in body["candidates"][0]["content"]["parts"])


def _read_event(wire_format: str, event: dict[str, Any]) -> str:
    match wire_format:
        case "chat":
            return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
        case "responses":
            return str(event["delta"]) if event.get("type") == "response.output_text.delta" else ""
        case "messages":
            return str(event["delta"].get("text", "")) if event.get("type") == "content_block_delta" else ""
        case _:
            parts = [part for one in event.get("candidates", ()) for part in one.get("content", {}).get("parts", ())]
            return "".join(part.get("text", "") for part in parts)


def _make_chat(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _list_chat_events(pieces: list[str]) -> list[dict[str, Any]]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    first = chunk({"role": "assistant", "content": ""})
    return [first, *(chunk({"content": piece}) for piece in pieces), chunk({}, "stop")]


def _make_response(text: str, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 3, "output_tokens": 4, "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    done = status == "completed"
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "error": None,
        "output": [item] if done else [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": usage if done else None,
    }  # fmt: skip


def _list_response_events(pieces: list[str]) -> list[dict[str, Any]]:
    text = "".join(pieces)
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    done = _make_response(text)
    (item,) = done["output"]
    (part,) = item["content"]
    empty = {**item, "status": "in_progress", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _make_response("", "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _make_message(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip


def _list_message_events(pieces: list[str]) -> list[dict[str, Any]]:
    start = {**_make_message(""), "content": [], "stop_reason": None}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]


def _make_generated(text: str, *, finished: bool = True) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [{"text": text}]}}
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}
    if finished:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def _list_generated_events(pieces: list[str]) -> list[dict[str, Any]]:
    return [_make_generated(piece, finished=number == len(pieces) - 1) for number, piece in enumerate(pieces)]


_WHOLE: dict[str, Any] = {
    "chat": _make_chat, "responses": _make_response, "messages": _make_message, "generate": _make_generated,
}  # fmt: skip
_EVENTS: dict[str, Any] = {
    "chat": _list_chat_events, "responses": _list_response_events, "messages": _list_message_events,
    "generate": _list_generated_events,
}  # fmt: skip
