"""How long to think, in words and in tokens: one table for every format that must turn the one into the other.

Vendors say either an effort or a budget. No vendor publishes an equivalence, so this is ours: a power of two for each word,
from the least budget that is accepted anywhere to about what the largest models use.
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
"""Tokens to think with, by effort."""


def find_effort(budget: int) -> str:
    """The greatest effort whose budget is not above `budget`."""
    return max(
        (word for word in BUDGET_OF_EFFORT if BUDGET_OF_EFFORT[word] <= budget),
        key=BUDGET_OF_EFFORT.__getitem__,
        default="minimal",
    )
