"""The size of the text of a large JSON body, measured before it is parsed: a short text can become millions of objects.

The measurement works in slices, so that no call blocks other threads of the process for long, and stops at the limit. It does not
validate: for a text that is not JSON the numbers are meaningless, and the parser refuses it.
"""

from __future__ import annotations

from tornado_gate.errors import TooLarge
from tornado_gate.types.value import Value

SLICE_BYTES = 64 * 1024
WIDEST = 4
NAME_COST = 4
CONTAINER_COST = 10
BYTES_PER_COST = 40
"""Memory of the parsed value for each unit of cost, without the text: an item takes 8 to 60 bytes, a dict with one member 232."""

_FOUR_BYTE_STARTS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
"""First bytes of characters above U+FFFF in UTF-8."""


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
    names = cost = position = 0
    width = 1
    in_string = False
    while position < len(raw):
        end = _find_slice_end(raw, position)
        pieces = raw[position:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(pieces[in_string::2])
        colons = outside.count(b":")
        names += colons
        cost += outside.count(b",") + NAME_COST * colons + CONTAINER_COST * (outside.count(b"{") + outside.count(b"["))
        if cost > max_cost:
            raise _too_complex_error(max_cost)
        in_string ^= not len(pieces) % 2
        if width < WIDEST:
            width = max(width, _find_widest_character(raw[position : end + 1]))  # it may divide the mark of an escape
        position = end
    return JsonMeasure(names, cost, len(raw) * width + cost * BYTES_PER_COST)


def _find_slice_end(raw: bytes, position: int) -> int:
    """Return the end of the next slice, which does not divide an escape: it ends after an even number of backslashes."""
    end = min(position + SLICE_BYTES, len(raw))
    slashes = end - position - len(raw[position:end].rstrip(b"\\"))
    return end + slashes % 2


def _find_widest_character(raw: bytes) -> int:
    """Return the maximum bytes per character of a parsed string: 1, 2 or 4 (PEP 393), at most."""
    if b"\\ud" in raw or b"\\uD" in raw:
        return WIDEST  # may be a surrogate pair
    if raw.isascii():
        return 2 if b"\\u" in raw else 1
    return WIDEST if any(first in raw for first in _FOUR_BYTE_STARTS) else 2


def _too_complex_error(max_cost: int) -> TooLarge:
    return TooLarge(
        f"The JSON has too many values: they exceed the limit of {max_cost} (limits.body_values), where each item counts 1, "
        f"each name {NAME_COST} more and each object or array {CONTAINER_COST}. Send fewer values per request.",
        code="too_many_values",
    )
