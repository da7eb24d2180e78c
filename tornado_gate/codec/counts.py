"""Counts and times in the JSON of upstreams."""

from __future__ import annotations

from typing import Any, Final

MAX_COUNT: Final = 10**15
"""The maximum count of an upstream. Sums of larger numbers exceed the 64 bits that responses can hold."""


def read_count(value: Any) -> int | None:
    """Return a number from 0 to MAX_COUNT as an integer; None for any other value."""
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    return int(value) if isinstance(value, float) and 0 <= value <= MAX_COUNT else None
