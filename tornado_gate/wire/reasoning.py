"""Conversion between reasoning effort (a word) and thinking budget (tokens), shared by all formats.

Vendors accept either an effort or a budget. No vendor publishes an equivalence, so the gateway defines one: a power of two
for each word, from the smallest budget that any vendor accepts to about what the largest models use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    """Return the highest effort whose budget is at most `budget` tokens; "minimal" if no effort is that low."""
    return max(
        (word for word in BUDGET_OF_EFFORT if BUDGET_OF_EFFORT[word] <= budget),
        key=BUDGET_OF_EFFORT.__getitem__,
        default="minimal",
    )


EFFORTS: Final = ("none", *BUDGET_OF_EFFORT)
"""All efforts, in ascending order."""


def fit_effort(effort: str, accepted: Collection[str] | None) -> str | None:
    """Return the accepted effort that is nearest to `effort`, the lower of two; None when a model accepts none.

    `accepted` is None for a model that accepts any. An effort that is not in `EFFORTS` counts as "medium".
    """
    if accepted is None or effort in accepted:
        return effort
    known = [EFFORTS.index(word) for word in accepted if word in EFFORTS and word != "none"]
    if not known:
        return "none" if "none" in accepted else None
    position = EFFORTS.index(effort) if effort in EFFORTS else EFFORTS.index("medium")
    return EFFORTS[min(known, key=lambda rank: (abs(rank - position), rank))]
