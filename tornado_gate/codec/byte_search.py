"""Searches in long bytes by slices, so that no call blocks other threads of the process for long."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

SLICE_BYTES: Final = 4 * 1024 * 1024
MOST_HOPS: Final = 100
MARGIN_BYTES: Final = 64
"""The maximum length of a searched mark or match: slices overlap by this length."""


def find_in_slices(raw: bytes, mark: bytes, start: int = 0, pattern: re.Pattern[bytes] | None = None) -> int:
    """Return the first position of `mark` from `start` on, or -1.

    With `pattern`, return the first position of a match of it, which begins with `mark`.
    """
    while start < len(raw):
        end = start + SLICE_BYTES + MARGIN_BYTES
        position = raw.find(mark, start, end)
        if position >= 0 and pattern is not None:
            match = pattern.search(raw, position, end)
            position = match.start() if match else -1
        if position >= 0:
            return position
        start += SLICE_BYTES
    return -1


def search(raw: bytes, mark: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Return the first match of `pattern`, which begins with `mark`.

    A pattern looks at 50 MB in a second, `bytes.find` at 1 GB.
    """
    position = find_in_slices(raw, mark)
    while position >= 0:
        if (match := pattern.match(raw, position)) is not None:
            return match
        position = find_in_slices(raw, mark, position + 1)
    return None


def contains_any(raw: bytes, marks: Iterable[bytes]) -> bool:
    """Return whether one of `marks` occurs in `raw`."""
    if len(raw) > SLICE_BYTES:
        return any(find_in_slices(raw, mark) >= 0 for mark in marks)
    for mark in marks:  # noqa: SIM110 - any() takes twice as long
        if mark in raw:
            return True
    return False


def contains_quickly(raw: bytes, mark: bytes, byte: int) -> bool | None:
    """Return whether `mark` occurs in `raw`; None if this cannot be found out in a short time.

    `byte` is the position in `mark` of its byte that is rarest in usual texts. A single byte is found at ten times the speed of
    a mark.
    """
    rare = mark[byte : byte + 1]
    position = byte - 1
    for _ in range(MOST_HOPS):
        position = raw.find(rare, position + 1)
        if position < 0:
            return False
        if raw.startswith(mark, position - byte):
            return True
    return None
