"""Searches long bytes in slices, so that no call keeps other threads of the process from running for long."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

SLICE_BYTES: Final = 4 * 1024 * 1024
MARGIN_BYTES: Final = 64
"""The most bytes of what is searched: slices overlap by as many."""


def find_in_slices(raw: bytes, mark: bytes, start: int = 0, pattern: re.Pattern[bytes] | None = None) -> int:
    """The first position of `mark` from `start` on, or, with `pattern`, of a match of it, which begins with `mark`; else -1."""
    while start < len(raw):
        end = start + SLICE_BYTES + MARGIN_BYTES
        place = raw.find(mark, start, end)
        if place >= 0 and pattern is not None:
            match = pattern.search(raw, place, end)
            place = match.start() if match else -1
        if place >= 0:
            return place
        start += SLICE_BYTES
    return -1


def search(raw: bytes, mark: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """The first match of `pattern`, which begins with `mark`. A pattern looks at 50 MB in a second, `bytes.find` at 1 GB."""
    place = find_in_slices(raw, mark)
    while place >= 0:
        if (match := pattern.match(raw, place)) is not None:
            return match
        place = find_in_slices(raw, mark, place + 1)
    return None


def contains_any(raw: bytes, marks: Iterable[bytes]) -> bool:
    """Whether one of `marks` occurs in `raw`."""
    return any(find_in_slices(raw, mark) >= 0 for mark in marks)
