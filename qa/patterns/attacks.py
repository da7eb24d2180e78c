"""Derives the worst texts for a pattern from the pattern itself.

A backtracking engine is slow where many places of a text could begin or go on with a match that fails at last. So the texts are
long runs of what each part of a pattern repeats, behind the beginning of a match and before a character that ends it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MAX_SIGNS = 10
MAX_UNITS = 40
ENDINGS = ("", "\x00", "!", "\n", "é")
COMMON = (
    "a",
    "A",
    "0",
    " ",
    "\n",
    "\t",
    ",",
    '"',
    "\\",
    "-",
    "_",
    ".",
    "@",
    "/",
    ":",
    ";",
    "=",
    "{",
    "[",
    "é",
    "%",
    "\r\n",
)
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "07",
    codes.CATEGORY_NOT_DIGIT: "a ",
    codes.CATEGORY_SPACE: " \n",
    codes.CATEGORY_NOT_SPACE: "a0",
    codes.CATEGORY_WORD: "aZ0_",
    codes.CATEGORY_NOT_WORD: " -",
}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


class Attack(NamedTuple):
    """A text of any length: a beginning, what is repeated, an end."""

    head: str
    unit: str
    tail: str

    def build(self, length: int) -> str:
        """The text, of at most `length` characters if the three are no longer together."""
        count = max(1, (length - len(self.head) - len(self.tail)) // len(self.unit))
        return self.head + self.unit * count + self.tail


def list_attacks(pattern: re.Pattern[Any]) -> list[Attack]:
    """The attacks on a pattern, each once."""
    return list(dict.fromkeys(Attack(*units) for units in _list_units(pattern)))


def _list_units(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """(beginning, what is repeated, end) of each text."""
    source = pattern.pattern
    tree = parser.parse(source.decode("latin-1") if isinstance(source, bytes) else source, pattern.flags & ~re.LOCALE)
    items = list(tree)
    signs = list(dict.fromkeys(_list_signs(items)))[:MAX_SIGNS]
    example = "".join(_make_example(items, 1))
    long_example = "".join(_make_example(items, 3))
    prefixes = list(dict.fromkeys(["", example[:1], example[:-1], *_list_prefixes(items)]))
    units = [*signs, *COMMON, example, example[:-1], long_example, long_example[:-1], example[1:]]
    units += ["".join(pair) for pair in itertools.permutations(signs[:6], 2)]
    units += [prefix for prefix in prefixes if len(prefix) > 1]
    units += [example[:-1] + sign for sign in signs[:6]]
    units = [unit for unit in dict.fromkeys(units) if unit][: MAX_UNITS * 3]
    for unit in units:
        for ending in ENDINGS[:3]:
            yield "", unit, ending
    for prefix, body in _list_repeats(items, ""):
        for ending in ENDINGS:
            yield prefix, body, ending
            yield "", prefix + body * 3, ending
    for prefix in prefixes[:12]:
        for sign in signs:
            for ending in ENDINGS[:3]:
                yield prefix, sign, ending


def _list_signs(items: Any) -> Iterator[str]:
    """Characters that parts of the pattern match."""
    for code, value in items:
        if code in (codes.LITERAL, codes.NOT_LITERAL):
            yield chr(value) if code is codes.LITERAL else _choose_other({chr(value)})
        elif code is codes.IN:
            yield from _list_members(value)
        elif code is codes.ANY:
            yield "a"
        else:
            for part in _list_parts(code, value):
                yield from _list_signs(part)


def _list_members(value: Any) -> list[str]:
    """Some characters of a class, of each range and category one or two."""
    chosen: list[str] = []
    excluded: set[str] = set()
    negated = bool(value) and value[0][0] is codes.NEGATE
    for code, argument in value:
        if code is codes.LITERAL:
            (excluded.add if negated else chosen.append)(chr(argument))
        elif code is codes.RANGE:
            first, last = argument
            if negated:
                excluded |= {chr(number) for number in range(first, min(last, first + 300) + 1)}
            else:
                chosen += [chr(first), chr(last)] if chr(first).isalnum() or first > 32 else [chr(first)]
        elif code is codes.CATEGORY:
            signs = _CATEGORIES.get(argument, "a")
            if negated:
                excluded |= set(" \n\t" if argument is codes.CATEGORY_SPACE else signs)
            else:
                chosen += signs
    return [_choose_other(excluded), *({" ", "a"} - excluded)] if negated else chosen[:6]


def _choose_other(excluded: set[str]) -> str:
    return next((sign for sign in "a0 -_.,é\x01" if sign not in excluded), "\u4e00")


def _list_parts(code: Any, value: Any) -> list[Any]:
    """The patterns inside a part."""
    if code in _REPEATS:
        return [value[2]]
    if code is codes.SUBPATTERN:
        return [value[3]]
    if code is codes.BRANCH:
        return list(value[1])
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    if code is codes.ATOMIC_GROUP:
        return [value]
    if code is codes.GROUPREF_EXISTS:
        return [part for part in value[1:] if part is not None]
    return []


def _make_example(items: Any, times: int) -> Iterator[str]:
    """The pieces of a text that is almost always a match; repeats that may be left out occur `times`."""
    for code, value in items:
        if code is codes.ASSERT_NOT or (code is codes.ASSERT and value[0] < 0):
            continue
        if code is codes.ASSERT:
            continue
        if code in _REPEATS:
            low, high, part = value
            body = "".join(_make_example(part, times))
            yield body * max(low, min(times, 3 if high is codes.MAXREPEAT else high))
        elif code is codes.BRANCH:
            yield "".join(_make_example(value[1][0], times))
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP):
            for part in _list_parts(code, value):
                yield from _make_example(part, times)
        else:
            yield next(iter(_list_signs([(code, value)])), "")


def _list_prefixes(items: Any) -> Iterator[str]:
    """The beginnings of an example, one for each part."""
    pieces = list(_make_example(items, 1))
    for count in range(1, len(pieces)):
        yield "".join(pieces[:count])


def _list_repeats(items: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """(what comes before it in an example, an example of its body) for each repeat, at any depth."""
    for code, value in items:
        if code in _REPEATS:
            for times in (1, 3):
                body = "".join(_make_example(value[2], times))
                if body:
                    yield prefix, body
            for sign in list(dict.fromkeys(_list_signs(value[2])))[:4]:
                yield prefix, sign
        for part in _list_parts(code, value):
            yield from _list_repeats(part, prefix)
        prefix += "".join(_make_example([(code, value)], 1))
