"""Texts in the form that detectors read: characters that look like ASCII become ASCII, and invisible characters are
removed.

An address in full-width characters, ``ａ＠ｂ．ｅｕ``, or with zero-width characters between its letters is read like any
other. Each position in the folded text belongs to a position in the original, so that replacements are made there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
_LOOKALIKES: Final = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63", "-"),
    **dict.fromkeys(
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
    ),
    **dict.fromkeys("\u3002\u2024\uff61", "."),
}
_RANGES: Final = (
    (0x2070, 0x20A0),
    (0x2460, 0x2500),
    (0xFE50, 0xFE70),
    (0xFF01, 0xFF5F),
    (0x1D400, 0x1D800),
    (0x1FBF0, 0x1FBFA),
)
"""The ranges of characters whose compatibility form is ASCII: full-width, circled, mathematical and the like."""
WINDOW: Final = 64 * 1024
"""The length of the slices in which texts are processed, because each step in C holds Python's lock."""
_LAST: Final = 0x20000
"""Digits of all scripts are below."""


class Folded(NamedTuple):
    """A folded text. `places` are the positions of its characters in the original; None if they are the same."""

    text: str
    places: list[int] | None = None

    def find_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position in the original of a part of the folded text."""
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1


def fold(text: str) -> Folded:
    """Fold a text. An ASCII text is unchanged."""
    if text.isascii():
        return Folded(text)
    folded = "".join([_fold_window(text[start : start + WINDOW]) for start in range(0, len(text), WINDOW)])
    if _INVISIBLE.search(folded) is None:
        return Folded(folded)
    places: list[int] = []
    for start, end in _list_visible(folded):
        places += range(start, end)
    return Folded(_INVISIBLE.sub("", folded), places)


def _fold_window(text: str) -> str:
    return text if text.isascii() else text.translate(_get_table())


def _list_visible(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _INVISIBLE.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


@lru_cache(1)
def _get_table() -> dict[int, str]:
    """Return the replacement of each character. The table is made on first use (20 ms)."""
    table = {ord(character): folded for character, folded in _LOOKALIKES.items()}
    for begin, end in _RANGES:
        for number in range(begin, end):
            plain = unicodedata.normalize("NFKC", chr(number))
            if len(plain) == 1 and plain.isascii():
                table[number] = plain
    for number in range(128, _LAST):
        digit = unicodedata.decimal(chr(number), None)
        if digit is not None:
            table[number] = str(digit)
    return table
