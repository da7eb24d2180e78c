"""Whole answers: `ChatResult` to body. Pure.

A text completion is text and nothing else: a refusal is its text too, thinking and calls of tools have no place.

Source: openai-python 3.52, types/completion.py and completion_choice.py.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.types import Audio, ChatResult, Choice, FinishReason, Refusal, Text, Usage
from tornado_gate.wire import openai_chat

ID_PREFIX: Final = "cmpl-"


def make_response_id(upstream_id: str | None, otherwise: str) -> str:
    """The upstream's id when it looks like one of this format."""
    return upstream_id if upstream_id and upstream_id.startswith(ID_PREFIX) else otherwise


def render_response(result: ChatResult, *, id: str, model: str, created: int, echo: str = "") -> dict[str, Any]:
    """The whole answer; `echo` is what each choice begins with. `created` is Unix time in seconds."""
    return {
        "id": make_response_id(result.id, id),
        "object": "text_completion",
        "created": result.created or created,
        "model": model,
        "choices": [_render_choice(number, choice, echo) for number, choice in enumerate(result.choices)],
        "usage": openai_chat.render_usage(result.usage or Usage()),
    }


def _render_choice(number: int, choice: Choice, echo: str) -> dict[str, Any]:
    text = "".join(_get_text(part) for part in choice.parts)
    reason = finish_reason(choice.reason)
    return {"text": echo + text, "index": number, "logprobs": None, "finish_reason": reason}


def _get_text(part: Any) -> str:
    match part:
        case Text(text=text) | Refusal(text=text) | Audio(transcript=str(text)):
            return text
        case _:
            return ""


def finish_reason(reason: FinishReason) -> str:
    """The vendor's word: stop, length or content_filter. "error" is none of them, but must never look like a normal end."""
    return "stop" if reason in ("tool_calls", "other") else reason
