"""Conversion between reasoning effort (a word) and thinking budget (tokens), shared by all formats.

Vendors accept either an effort or a budget. No vendor publishes an equivalence, so the gateway defines one: a power of two
for each word, from the smallest budget that any vendor accepts to about what the largest models use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BUDGET_OF_EFFORT: Final[Mapping[str, int]] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 32768,
    "max": 65536,
}
"""Thinking budget in tokens, by effort."""


def find_effort(budget: int) -> str:
    """Return the highest effort whose budget is at most `budget` tokens; "minimal" when there is none."""
    return max(
        (word for word in BUDGET_OF_EFFORT if BUDGET_OF_EFFORT[word] <= budget),
        key=BUDGET_OF_EFFORT.__getitem__,
        default="minimal",
    )
