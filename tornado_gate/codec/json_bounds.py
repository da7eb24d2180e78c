"""The size of the text of a large JSON body, measured before it is parsed: a short text can become millions of objects.

No call blocks other threads of the process for long, and the measurement stops at the limit. It does not validate: for a text
that is not JSON the numbers are meaningless, and the parser refuses it.

A text that consists of long strings is measured by a search from quote to quote, which looks at ten gigabytes in a second. Where
quotes are frequent, slices are divided at all quotes at once.
"""

from __future__ import annotations

import re
from typing import Final

from tornado_gate.codec.large_json import MOST_BACKSLASHES, count_backslashes
from tornado_gate.errors import TooLarge
from tornado_gate.types.value import Value

SLICE_BYTES = 64 * 1024
BATCH_QUOTES = 64
"""Quotes that are searched one after the other. If they have less than SPARSE_BYTES together, the next slice is divided."""
SPARSE_BYTES = 16 * 1024
WIDEST = 4
NAME_COST = 4
CONTAINER_COST = 10
BYTES_PER_COST = 40
"""Memory of the parsed value for each unit of cost, without the text: an item takes 8 to 60 bytes, a dict with one member 232."""

_FOUR_BYTE_STARTS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
"""First bytes of characters above U+FFFF in UTF-8."""
_BACKSLASH: Final = 0x5C
_ESCAPED_CHARACTER = re.compile(rb"\\u")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD]")


class JsonMeasure(Value, frozen=True):
    """The structure of a JSON text. `names` is the number of members of all its objects together.

    `cost`: each item and member counts 1, each name 4 more, each object or array 10. `parsed_bytes` is an upper estimate of the
    memory of the parsed value.
    """

    names: int
    cost: int
    parsed_bytes: int


def measure_json(raw: bytes, max_cost: int) -> JsonMeasure:
    """Measure a text. Raises TooLarge as soon as its cost is above `max_cost`."""
    counter = _ValueCounter(raw, max_cost)
    while counter.position < len(raw):
        if not counter.count_between_strings():
            counter.count_slice()
    return make_measure(counter.names, counter.cost, len(raw) * _find_width(raw))


def measure_sparse_json(raw: bytes, max_cost: int) -> JsonMeasure | None:
    """Measure a text that consists of long strings, which takes a few microseconds; None for any other."""
    counter = _ValueCounter(raw, max_cost)
    while counter.position < len(raw):
        if not counter.count_between_strings():
            return None
    return make_measure(counter.names, counter.cost, len(raw) * _find_width(raw))


def make_measure(names: int, cost: int, text_bytes: int) -> JsonMeasure:
    """Return a measure. `text_bytes` is an upper estimate of the memory of all strings together."""
    return JsonMeasure(names, cost, text_bytes + cost * BYTES_PER_COST)


def find_text_width(text: bytes) -> int:
    """Return the maximum bytes per character of the strings of a JSON text without escapes of characters (PEP 393)."""
    if text.isascii():
        return 1
    return WIDEST if any(first in text for first in _FOUR_BYTE_STARTS) else 2


class _ValueCounter:
    """Counts the names and the cost of a text up to `position`. `in_string`: the position is inside a string."""

    __slots__ = ("cost", "in_string", "max_cost", "names", "position", "raw")

    def __init__(self, raw: bytes, max_cost: int) -> None:
        self.raw = raw
        self.max_cost = max_cost
        self.names = self.cost = self.position = 0
        self.in_string = False

    def count_between_strings(self) -> bool:
        """Count to the end of a batch of quotes. Return whether quotes are so rare that the next batch is worth the search."""
        raw, start = self.raw, self.position
        outside: list[bytes] = []
        for _ in range(BATCH_QUOTES):
            if self.in_string:
                quote = raw.find(b'"', self.position)
                if quote < 0:
                    self.position = len(raw)
                    break
                run = count_backslashes(raw, self.position, quote)
                if run == MOST_BACKSLASHES:
                    self._add(b"".join(outside))
                    return False
                self.in_string = bool(run % 2)
            else:
                limit = self.position + SLICE_BYTES
                quote = raw.find(b'"', self.position, limit)
                outside.append(raw[self.position : quote if quote >= 0 else limit])
                if quote < 0:
                    self.position = min(limit, len(raw))
                    break
                self.in_string = True
            self.position = quote + 1
        self._add(b"".join(outside))
        return self.position == len(raw) or self.position - start >= SPARSE_BYTES

    def count_slice(self) -> None:
        """Count a slice, whose escaped quotes are removed before it is divided at the others."""
        end = _find_slice_end(self.raw, self.position)
        text = self.raw[self.position : end]
        if b"\\" in text:
            text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = text.split(b'"')
        self._add(b"".join(pieces[self.in_string :: 2]))
        self.in_string ^= not len(pieces) % 2
        self.position = end

    def _add(self, outside: bytes) -> None:
        colons = outside.count(b":")
        self.names += colons
        self.cost += outside.count(b",") + NAME_COST * colons
        self.cost += CONTAINER_COST * (outside.count(b"{") + outside.count(b"["))
        if self.cost > self.max_cost:
            raise _too_complex_error(self.max_cost)


def _find_slice_end(raw: bytes, position: int) -> int:
    """Return the end of the next slice, which does not divide an escape: it ends after an even number of backslashes."""
    end = min(position + SLICE_BYTES, len(raw))
    if raw[end - 1] != _BACKSLASH:
        return end
    slashes = end - position - len(raw[position:end].rstrip(b"\\"))
    return end + slashes % 2


def _find_width(raw: bytes) -> int:
    """Return the maximum bytes per character of a parsed string: 1, 2 or 4 (PEP 393), at most."""
    is_ascii = raw.isascii()
    if is_ascii and raw.find(b"\\") < 0:
        return 1
    width = 1
    for start in range(0, len(raw), SLICE_BYTES):
        # An escape that a slice would divide is found in the longer slice.
        width = max(width, _find_width_of_slice(raw[start : start + SLICE_BYTES + 2], is_ascii))
        if width == WIDEST:
            break
    return width


def _find_width_of_slice(text: bytes, is_ascii: bool) -> int:
    width = 1 if is_ascii else find_text_width(text)
    if width < WIDEST and b"\\" in text and _ESCAPED_CHARACTER.search(text) is not None:
        return WIDEST if _ESCAPED_SURROGATE.search(text) is not None else 2  # a surrogate may be half of a pair
    return width


def _too_complex_error(max_cost: int) -> TooLarge:
    return TooLarge(
        f"The JSON has too many values: they exceed the limit of {max_cost} (limits.body_values), where each item counts 1, "
        f"each name {NAME_COST} more and each object or array {CONTAINER_COST}. Send fewer values per request.",
        code="too_many_values",
    )
