"""The base class of common requests."""

from __future__ import annotations

from typing import Any

from tornado_gate.types.value import Value


class CommonRequest(Value, frozen=True, kw_only=True):
    """`reply_state` belongs to the format: the data about the caller's request that its `translate_response` needs.

    Providers must not read it, and a video task does not store it.
    """

    reply_state: Any = None

    hidden_fields = frozenset({"reply_state"})
