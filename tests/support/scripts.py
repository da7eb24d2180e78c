"""Answers in format O for the scripted upstream, as the vendor's API gives them (openai-python ``types/chat``)."""

from __future__ import annotations

import json
from typing import Any

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}


def completion(*texts: str) -> str:
    """A whole answer with one choice for each text."""
    choices = [
        {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", "logprobs": None}
        for index, text in enumerate(texts)
    ]
    return json.dumps(_envelope("chat.completion", choices=choices, usage=USAGE))


def chunk(index: int = 0, *, reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """One chunk of a stream: `delta` of choice `index`."""
    choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}
    return _envelope("chat.completion.chunk", choices=[choice], usage=None)


def usage_chunk() -> dict[str, Any]:
    """The chunk that only ``include_usage`` brings."""
    return _envelope("chat.completion.chunk", choices=[], usage=USAGE)


def _envelope(kind: str, **rest: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 1700000000, "model": "scripted-model", **rest}
