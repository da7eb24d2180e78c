"""Regular expressions of a schema's `pattern`: does a text match, and what would match.

Callers write these patterns. RE2 matches them, because a hostile pattern keeps a backtracking engine such as Python's
`re` busy for years; RE2's time grows with pattern times text and its memory has a limit. `rstr` makes texts; the source
of randomness that it is given chooses by `variant` and counts the work. What RE2 does not know (look-around, references
back) or refuses (too large a program, a repeat above 1,000) is `Unsupported`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import re2  # type: ignore[import-untyped]
import rstr

if TYPE_CHECKING:
    import random

MAX_PATTERN_LENGTH = 500
MAX_TEXT_LENGTH = 2_000
MAX_CHARACTERS = 100_000  # in all ranges of a pattern; rstr lists the characters of a range one by one
MAX_PROGRAM_BYTES = 256 * 1024  # bytes for one program; one that is too large is refused after about 4 ms

READABLE = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_. "

_LOOK_AROUND_PATTERN = re.compile(r"\(\?<?[=!]")
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_RANGE_PATTERN = re.compile(r"(?=(.)-(.))", re.DOTALL)
_NAMED_GROUP_PATTERN = re.compile(r"\(\?<(?=\w)")

SpendSteps = Callable[
    [int], bool
]  # told what something cost, about one for ten microseconds; False when nothing is left


class UnsupportedPattern(Exception):
    """RE2 does not know or refuses the pattern, or it costs too much."""


def _make_options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_PROGRAM_BYTES
    return options


@lru_cache(maxsize=128)
def _compile_pattern(pattern: str) -> tuple[Any, int]:
    """RE2's program and the cost of using it; None as the program of a pattern that is unsupported."""
    if len(pattern) > MAX_PATTERN_LENGTH or _LOOK_AROUND_PATTERN.search(pattern):
        return None, 2
    expression = _ESCAPE_PATTERN.sub(lambda found: f"\\x{{{found[1]}}}" if found[1] else found[0], pattern)
    try:
        program = re2.compile(expression, _make_options())
    except (re2.error, UnicodeEncodeError):
        return None, 100
    return program, 1 + program.programsize // 100


def matches(pattern: str, text: str, spend: SpendSteps) -> bool:
    """Whether `pattern` is found anywhere in `text`. Raises Unsupported."""
    program, cost = _compile_pattern(pattern)
    if program is None or len(text) > MAX_TEXT_LENGTH:
        spend(cost)
        raise UnsupportedPattern("the pattern is not supported, or the text is too long")
    spend(cost + program.programsize * len(text) // 4_000)
    try:
        return program.search(text) is not None
    except UnicodeEncodeError as error:
        raise UnsupportedPattern("the text is not valid Unicode") from error


def iterate_examples(pattern: str, variant: int, spend: SpendSteps) -> Iterator[str]:
    """Texts that match, shorter ones first; another `variant` picks other characters. Raises Unsupported."""
    if _compile_pattern(pattern)[0] is None or _count_characters(pattern) > MAX_CHARACTERS:
        raise UnsupportedPattern("the pattern is not supported")
    expression = _NAMED_GROUP_PATTERN.sub("(?P<", pattern)
    for extra in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64):
        chooser = cast("random.Random", _DeterministicChooser(pattern, variant, extra, spend))
        try:
            text = rstr.Rstr(chooser).xeger(expression)
        except (re.error, IndexError, RecursionError) as error:
            raise UnsupportedPattern("no text can be made") from error
        if len(text) > MAX_TEXT_LENGTH:
            raise UnsupportedPattern("the text gets too long")
        yield text


def _count_characters(pattern: str) -> int:
    """At least as many characters as all ranges of the pattern have together."""
    plain = _ESCAPE_PATTERN.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[0], pattern)
    return sum(max(0, ord(last) - ord(first)) for first, last in _RANGE_PATTERN.findall(plain))


class _DeterministicChooser:
    """What rstr uses of `random.Random`, without chance: each repeat is done `extra` times more than it must be."""

    def __init__(self, pattern: str, variant: int, extra: int, spend: SpendSteps) -> None:
        self.pattern = pattern
        self.variant = variant
        self.extra = extra
        self.spend = spend

    def randint(self, least: int, most: int) -> int:
        """How often to repeat; rstr sets `most` to 100 at most, which may be less than `least`."""
        times = max(least, min(least + self.extra, most))
        self._spend_steps(1 + times * len(self.pattern) // 20)
        return times

    def choice(self, seq: Sequence[Any]) -> Any:
        """One of the branches or characters; of characters, a readable one where there is one."""
        self._spend_steps(1 + len(seq) // 200)
        if not isinstance(seq[0], str):
            return seq[self.variant % len(seq)]
        allowed = set(seq[:256])
        found = [character for character in READABLE if character in allowed] or sorted(allowed)
        return found[self.variant % len(found)]

    def _spend_steps(self, steps: int) -> None:
        if not self.spend(steps):
            raise UnsupportedPattern("too much work")
