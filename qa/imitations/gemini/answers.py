"""Answers in the vendor's exact shapes, whole and as chunks.

Source: google-genai 3.4, types.GenerateContentResponse; ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-22): the
first call of an answer has the signature, or the last part of one without calls; in a stream that part may be empty.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from qa.imitations.calling.plans import Plan
from qa.imitations.gemini.models import Model

_FINISH: Final = {
    "done": "STOP",
    "stopped": "STOP",
    "length": "MAX_TOKENS",
    "paused": "STOP",
    "window": "MAX_TOKENS",
    "refused": "SAFETY",
}
CACHED, PROMPT, ANSWER, THOUGHT = 8, 30, 12, 6


def make_answer(name: str, body: Mapping[str, Any], model: Model, plan: Plan, serial: int) -> dict[str, Any]:
    """The whole response."""
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    thinks = bool(model.levels or model.budgets) and thinking.get("thinkingBudget") != 0
    signature = base64.b64encode(f"signature of answer {serial}".encode()).decode() if thinks else ""
    parts = _make_parts(body, model, plan, serial, shows=thinks and bool(thinking.get("includeThoughts")))
    if signature and parts:
        first = next((part for part in parts if "functionCall" in part), parts[-1])
        first["thoughtSignature"] = signature
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": _FINISH[plan.end], "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": _make_usage(THOUGHT if thinks else 0),
        "modelVersion": name,
        "responseId": f"response-{serial}",
    }


def _make_usage(thought: int) -> dict[str, Any]:
    usage = {
        "promptTokenCount": PROMPT,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": ANSWER,
        "totalTokenCount": PROMPT + ANSWER + thought,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT}],
    }
    return usage | ({"thoughtsTokenCount": thought} if thought else {})


def _make_parts(body: Mapping[str, Any], model: Model, plan: Plan, serial: int, *, shows: bool) -> list[dict[str, Any]]:
    functions = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = config.get("allowedFunctionNames") or [function["name"] for function in functions]
    parts: list[dict[str, Any]] = []
    for number, item in enumerate(plan.items):
        if item.kind == "text":
            parts.append({"text": item.text})
        elif item.kind == "thinking" and shows:
            parts.append({"text": item.text, "thought": True})
        elif item.kind == "call" and functions and config.get("mode") != "NONE":
            call: dict[str, Any] = {"name": allowed[item.tool % len(allowed)], "args": dict(item.arguments)}
            parts.append({"functionCall": ({"id": f"call-{serial}-{number}"} if model.third else {}) | call})
    return parts or [{"text": "Nothing to say."}]


def make_chunks(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The responses of a stream with this answer."""
    candidate = answer["candidates"][0]
    rest = {name: answer[name] for name in ("modelVersion", "responseId")}
    pieces = [piece for part in candidate["content"]["parts"] for piece in _split(part)]
    for number, piece in enumerate(pieces):
        last = number + 1 == len(pieces)
        said: dict[str, Any] = {"content": {"role": "model", "parts": [piece]}, "index": 0}
        if last:
            said["finishReason"] = candidate["finishReason"]
        usage = answer["usageMetadata"] if last else {"promptTokenCount": PROMPT, "totalTokenCount": PROMPT}
        yield {"candidates": [said], "usageMetadata": usage, **rest}


def _split(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A text in two pieces, and its signature in an empty one."""
    if "text" not in part:
        return [dict(part)]
    thought = {"thought": True} if part.get("thought") else {}
    text = part["text"]
    pieces = [{"text": text[:3], **thought}, {"text": text[3:], **thought}]
    if "thoughtSignature" in part:
        pieces.append({"text": "", **thought, "thoughtSignature": part["thoughtSignature"]})
    return pieces


def render_stream(answer: Mapping[str, Any], sse: bool) -> tuple[bytes, ...]:
    """The body of a stream: server-sent events, or an array."""
    texts = [json.dumps(chunk, ensure_ascii=False) for chunk in make_chunks(answer)]
    if sse:
        return tuple(f"data: {text}\r\n\r\n".encode() for text in texts)
    return (b"[", ",\r\n".join(texts).encode(), b"]")
