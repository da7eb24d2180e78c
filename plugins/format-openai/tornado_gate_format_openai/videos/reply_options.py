"""What the routes of videos have in common: what a video is made of, and what a caller asked of a task."""

from __future__ import annotations

from typing import Literal

from tornado_gate.types.value import Value

Kind = Literal["text", "image"]
"""What a video of the prefixed routes is made of."""


class TaskState(Value, frozen=True, kw_only=True):
    """What the answer to a question about tasks needs to know.

    `kind` is that of the prefixed route which it came by, None for the unified routes.
    """

    kind: Kind | None = None
