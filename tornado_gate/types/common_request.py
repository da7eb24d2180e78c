"""The base class of common requests."""

from __future__ import annotations

from typing import Any

from tornado_gate.types.value import Value


class CommonRequest(Value, frozen=True, kw_only=True):
    """A request of any operation. `reply_state` holds the data about it that the format's `translate_response` needs.

    The format owns `reply_state`. Providers must not read it, and a video task does not store it.
    """

    reply_state: Any = None

    hidden_fields = frozenset({"reply_state"})
