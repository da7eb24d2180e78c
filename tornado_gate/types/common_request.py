"""What all requests of the common vocabulary have."""

from __future__ import annotations

from typing import Any

from tornado_gate.types.value import Value


class CommonRequest(Value, frozen=True, kw_only=True):
    """`reply_state` is the format's own: what its `translate_response` needs to know of the caller's request.

    Providers never look at it, and it is not kept with a video task.
    """

    reply_state: Any = None

    hidden_fields = frozenset({"reply_state"})
