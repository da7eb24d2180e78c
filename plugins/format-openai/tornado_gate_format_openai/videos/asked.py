"""What the routes of videos have in common: their two wire formats, and what a caller asked of a task."""

from __future__ import annotations

from typing import Final, Literal

from tornado_gate.types import TaskRequest

UNIFIED: Final = "openai-videos"
"""``/v1/videos`` and ``/v1/video/generations``: the vendor's bodies and the contract's."""
PREFIXED: Final = "prefixed-videos"
"""``/vendor/v1/videos/text2video`` and ``image2video``, and what conf has in place of the word ``vendor``."""

Kind = Literal["text", "image"]
"""What a video of the prefixed routes is made of."""


class AskedTask(TaskRequest, frozen=True, kw_only=True):
    """A question about tasks; `kind` is that of the prefixed route which it came by, None for the unified routes."""

    kind: Kind | None = None
