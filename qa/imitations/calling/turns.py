"""How each kind of client goes on: it sends the answer back with the results of its calls, or with a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qa.imitations.calling.scenario import Caller, Turn

PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_FORGOTTEN: Final[Mapping[Caller, tuple[str, ...]]] = {
    "chat": ("reasoning_content", "reasoning_details", "extra_content", "thinking_blocks"),
    "responses": ("reasoning",),
    "messages": ("thinking", "redacted_thinking"),
    "generate": ("thoughtSignature",),
}


def continue_body(
    caller: Caller, body: Mapping[str, Any], raw: Any, turn: Turn, number: int, *, forgets: bool
) -> dict[str, Any]:
    """The body of the next request. `raw` is what the client keeps of the answer; `number` counts the turns from 1."""
    said = f"mark-turn-{number} {turn.plan}"
    kept = _forget(caller, raw) if forgets else raw
    if caller == "chat":
        return {**body, "messages": [*body["messages"], kept, *_answer_chat(raw, turn, said)]}
    if caller == "responses":
        before = body["input"]
        before = [{"role": "user", "content": before}] if isinstance(before, str) else before
        return {**body, "input": [*before, *kept, *_answer_responses(raw, turn, said)]}
    if caller == "messages":
        results = _answer_messages(raw, turn, said)
        return {
            **body,
            "messages": [
                *body["messages"],
                {"role": "assistant", "content": kept},
                {"role": "user", "content": results},
            ],
        }
    parts = _answer_generate(raw, turn, said)
    return {**body, "contents": [*body["contents"], {"role": "model", "parts": kept}, {"role": "user", "parts": parts}]}


def _forget(caller: Caller, raw: Any) -> Any:
    names = _FORGOTTEN[caller]
    if caller == "chat":
        kept = {name: value for name, value in raw.items() if name not in names}
        if "tool_calls" in kept:
            kept["tool_calls"] = [
                {name: call[name] for name in ("id", "type", "function")} for call in kept["tool_calls"]
            ]
        return kept
    if caller == "generate":
        return [
            {name: value for name, value in part.items() if name not in names}
            for part in raw
            if not part.get("thought")
        ]
    return [item for item in raw if item["type"] not in names]


def _answer_chat(raw: Any, turn: Turn, said: str) -> list[Any]:
    calls = raw.get("tool_calls") or [] if turn.results else []
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{said} mark-result-{place}"}
        for place, call in enumerate(calls)
    ]
    return results or [{"role": "user", "content": said}]


def _answer_responses(raw: Any, turn: Turn, said: str) -> list[Any]:
    results: list[Any] = []
    for place, item in enumerate(raw if turn.results else ()):
        if item["type"] == "function_call":
            text = f"{said} mark-result-{place}"
            output: Any = text
            if turn.image:
                image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
                output = [{"type": "input_text", "text": text}, image]
            results.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})
    return results or [{"role": "user", "content": said}]


def _answer_messages(raw: Any, turn: Turn, said: str) -> list[Any]:
    results: list[Any] = []
    for place, block in enumerate(raw if turn.results else ()):
        if block["type"] == "tool_use":
            content: list[Any] = [{"type": "text", "text": f"{said} mark-result-{place}"}]
            if turn.image:
                source = {"type": "base64", "media_type": "image/png", "data": PNG}
                content.append({"type": "image", "source": source})
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": content})
    return results or [{"type": "text", "text": said}]


def _answer_generate(raw: Any, turn: Turn, said: str) -> list[Any]:
    results: list[Any] = []
    for place, part in enumerate(raw if turn.results else ()):
        if "functionCall" in part:
            call = part["functionCall"]
            response: dict[str, Any] = {"name": call["name"], "response": {"output": f"{said} mark-result-{place}"}}
            if "id" in call:
                response["id"] = call["id"]
            if turn.image:
                response["parts"] = [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
            results.append({"functionResponse": response})
    return results or [{"text": said}]
