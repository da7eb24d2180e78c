"""Tool call ids, which this format restricts to ``[a-zA-Z0-9_-]+``. Pure.

Source: the vendor's error message ``tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'``.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from tornado_gate.codec.ids import make_unique_id

GATE_ID_PREFIX: Final = "gate-"
"""Prefix of an encoded id; the original id follows in URL-safe base64 without padding."""

_ALLOWED_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")


def render_id(call_id: str) -> str:
    """`call_id` when the format allows it, else an encoded id. Ids stay distinct, and `parse_id` restores the original."""
    if _ALLOWED_ID.fullmatch(call_id) and not call_id.startswith(GATE_ID_PREFIX):
        return call_id
    return GATE_ID_PREFIX + base64.urlsafe_b64encode(call_id.encode()).decode().rstrip("=")


def parse_id(value: str) -> str:
    """The original id of an id that `render_id` encoded; any other id is returned unchanged."""
    if not value.startswith(GATE_ID_PREFIX):
        return value
    text = value[len(GATE_ID_PREFIX) :]
    try:
        call_id = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return value
    return call_id if render_id(call_id) == value else value


def make_id() -> str:
    """A new id for a tool call without one, so that the tool result can refer to it."""
    return f"toolu_{make_unique_id()[:24]}"
