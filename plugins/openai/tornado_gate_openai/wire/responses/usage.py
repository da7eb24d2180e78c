"""Parse and render usage and statuses. No I/O.

Usage is rendered with this format's names (``input_tokens``) and with the names of the service's contract (``prompt_tokens``).
It is parsed from either.

Source: openai-python 3.52, types/responses/response_usage.py and response.py (``IncompleteDetails``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.types import FinishReason, Usage
from tornado_gate_openai.wire import chat
from tornado_gate_openai.wire.chat.parts import select_unknown

_SPELLINGS: Final = (
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("prompt_tokens_details", "input_tokens_details"),
    ("completion_tokens_details", "output_tokens_details"),
)
_INCOMPLETE_REASONS: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_REASON_WORDS: Final = {reason: word for word, reason in _INCOMPLETE_REASONS.items()}


def parse_usage(value: Any) -> Usage | None:
    """Return the usage that an upstream reports; None if there is no token count."""
    if not isinstance(value, Mapping):
        return None
    body = select_unknown(value, *(ours for _, ours in _SPELLINGS))
    for chats, ours in _SPELLINGS:
        if (member := value.get(ours)) is not None:
            body[chats] = member
    return chat.parse_usage(body)


def render_usage(usage: Usage) -> dict[str, Any]:
    """Return the vendor's usage object; its details are always present, 0 if not reported."""
    value = chat.render_usage(usage)
    inside, outside = value.get("prompt_tokens_details", {}), value.get("completion_tokens_details", {})
    return {
        "input_tokens": value["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, **inside},
        "output_tokens": value["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0, **outside},
        **value,
    }


def parse_reason(body: Mapping[str, Any], calls_tools: bool) -> tuple[FinishReason, str]:
    """Return the common finish reason of a response and the upstream's own value."""
    status = body.get("status")
    if status == "incomplete":
        details = body.get("incomplete_details")
        raw = details.get("reason") if isinstance(details, Mapping) else None
        return _INCOMPLETE_REASONS.get(str(raw), "other"), raw if isinstance(raw, str) else "incomplete"
    if status in ("failed", "cancelled"):
        return "error", status
    return "tool_calls" if calls_tools else "stop", status if isinstance(status, str) else ""


def render_status(reason: FinishReason) -> tuple[str, dict[str, str] | None]:
    """Return ``status`` and ``incomplete_details``. The reason "error" becomes status "failed"."""
    if reason in _REASON_WORDS:
        return "incomplete", {"reason": _REASON_WORDS[reason]}
    return ("failed" if reason == "error" else "completed"), None
