"""The kind of a video, and the response state of task requests."""

from __future__ import annotations

from typing import Literal

from tornado_gate.types.value import Value

Kind = Literal["text", "image"]
"""The input from which a video of the prefixed routes is generated."""


class TaskState(Value, frozen=True, kw_only=True):
    """Response state of a task request. `kind` is the kind of its prefixed route, None for the unified routes."""

    kind: Kind | None = None
