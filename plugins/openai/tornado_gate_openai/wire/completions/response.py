"""Whole responses: `ChatResult` to body. No I/O.

A text completion contains only text: a refusal is rendered as text; thinking and tool calls are left out.

Source: openai-python 3.52, types/completion.py and completion_choice.py.
"""

from __future__ import annotations

from typing import Any, Final

from tornado_gate.types import Audio, ChatResult, Choice, FinishReason, Refusal, Text, Usage
from tornado_gate_openai.wire import chat

ID_PREFIX: Final = "cmpl-"


def make_response_id(upstream_id: str | None, otherwise: str) -> str:
    """Return the upstream's id if it has this format's prefix, else `otherwise`."""
    return upstream_id if upstream_id and upstream_id.startswith(ID_PREFIX) else otherwise


def render_response(result: ChatResult, *, id: str, model: str, created: int, echo: str = "") -> dict[str, Any]:
    """Return the whole response. Each choice starts with `echo`. `created` is Unix time in seconds."""
    return {
        "id": make_response_id(result.id, id),
        "object": "text_completion",
        "created": result.created or created,
        "model": model,
        "choices": [_render_choice(number, choice, echo) for number, choice in enumerate(result.choices)],
        "usage": chat.render_usage(result.usage or Usage()),
    }


def _render_choice(number: int, choice: Choice, echo: str) -> dict[str, Any]:
    text = "".join(_get_text(part) for part in choice.parts)
    reason = finish_reason(choice.reason, choice.raw_reason)
    return {"text": echo + text, "index": number, "logprobs": None, "finish_reason": reason}


def _get_text(part: Any) -> str:
    match part:
        case Text(text=text) | Refusal(text=text) | Audio(transcript=str(text)):
            return text
        case _:
            return ""


def finish_reason(reason: FinishReason, raw: str = "") -> str:
    """Return the vendor's finish reason: stop, length or content_filter. Raises UpstreamError for "error"."""
    return "stop" if reason == "tool_calls" else chat.render_finish_reason(reason, raw)
