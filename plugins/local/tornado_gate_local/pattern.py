"""Regular expressions of a schema's `pattern`: match a text, and generate matching texts.

Callers write these patterns. RE2 matches them, because a hostile pattern can keep a backtracking engine such as
Python's `re` busy for years; the time of RE2 grows with pattern length times text length, and its memory is limited.
`rstr` generates texts; the random source that it gets is deterministic: it chooses by `variant` and counts the steps.
Patterns that RE2 does not support (look-around, back-references) or rejects (program too large, a repeat above 1,000)
raise `UnsupportedPattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import rstr

if TYPE_CHECKING:
    import random

MAX_PATTERN_LENGTH = 500
MAX_TEXT_LENGTH = 2_000
MAX_CHARACTERS = 100_000  # of all ranges of a pattern together; rstr lists the characters of a range one by one
MAX_PROGRAM_BYTES = 256 * 1024  # of one compiled program; RE2 rejects a larger one after about 4 ms

READABLE = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_. "

_LOOK_AROUND_PATTERN = re.compile(r"\(\?<?[=!]")
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_RANGE_PATTERN = re.compile(r"(?=(.)-(.))", re.DOTALL)
_NAMED_GROUP_PATTERN = re.compile(r"\(\?<(?=\w)")

SpendSteps = Callable[[int], bool]  # takes a cost in steps of about ten microseconds; False when the budget is used up


class UnsupportedPattern(Exception):
    """RE2 does not support or rejects the pattern, or the step budget is used up."""


def _import_library() -> Any:
    """Import RE2 on first use: it takes 2.5 MB, and few schemas have patterns."""
    import re2  # type: ignore[import-untyped]

    return re2


def _make_options(library: Any) -> Any:
    options = library.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_PROGRAM_BYTES
    return options


def _compile_pattern(pattern: str) -> tuple[Any, int]:
    """The compiled RE2 program and the steps that one use costs; the program of an unsupported pattern is None."""
    return _compile_short_pattern(pattern) if len(pattern) <= MAX_PATTERN_LENGTH else (None, 2)


@lru_cache(maxsize=128)
def _compile_short_pattern(pattern: str) -> tuple[Any, int]:
    if _LOOK_AROUND_PATTERN.search(pattern):
        return None, 2
    expression = _ESCAPE_PATTERN.sub(lambda match: f"\\x{{{match[1]}}}" if match[1] else match[0], pattern)
    library = _import_library()
    try:
        program = library.compile(expression, _make_options(library))
    except (library.error, UnicodeEncodeError):
        return None, 100
    return program, 1 + program.programsize // 100


def matches(pattern: str, text: str, spend: SpendSteps) -> bool:
    """Whether `pattern` matches anywhere in `text`. Raises UnsupportedPattern."""
    program, cost = _compile_pattern(pattern)
    if program is None or len(text) > MAX_TEXT_LENGTH:
        spend(cost)
        raise UnsupportedPattern(
            f"RE2 does not support the pattern, or the text has more than {MAX_TEXT_LENGTH} characters"
        )
    spend(cost + program.programsize * len(text) // 4_000)
    try:
        return program.search(text) is not None
    except UnicodeEncodeError as error:
        raise UnsupportedPattern("the text has characters that are not valid Unicode") from error


def iterate_examples(pattern: str, variant: int, spend: SpendSteps) -> Iterator[str]:
    """Texts that match, shorter ones first; another `variant` selects other characters. Raises UnsupportedPattern."""
    if _compile_pattern(pattern)[0] is None or _count_characters(pattern) > MAX_CHARACTERS:
        raise UnsupportedPattern("RE2 does not support the pattern, or its character ranges are too large")
    expression = _NAMED_GROUP_PATTERN.sub("(?P<", pattern)
    for extra in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64):
        chooser = cast("random.Random", _DeterministicChooser(pattern, variant, extra, spend))
        try:
            text = rstr.Rstr(chooser).xeger(expression)
        except (re.error, IndexError, RecursionError) as error:
            raise UnsupportedPattern("no matching text can be generated") from error
        if len(text) > MAX_TEXT_LENGTH:
            raise UnsupportedPattern(f"a matching text would have more than {MAX_TEXT_LENGTH} characters")
        yield text


def _count_characters(pattern: str) -> int:
    """An upper bound for the number of characters in all ranges of the pattern."""
    plain = _ESCAPE_PATTERN.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[0], pattern)
    return sum(max(0, ord(last) - ord(first)) for first, last in _RANGE_PATTERN.findall(plain))


class _DeterministicChooser:
    """A deterministic replacement for `random.Random` in rstr: each repeat occurs `extra` times more than its minimum."""

    def __init__(self, pattern: str, variant: int, extra: int, spend: SpendSteps) -> None:
        self.pattern = pattern
        self.variant = variant
        self.extra = extra
        self.spend = spend

    def randint(self, least: int, most: int) -> int:
        """The number of repeats; rstr passes 100 as the largest `most`, which may be less than `least`."""
        times = max(least, min(least + self.extra, most))
        self._spend_steps(1 + times * len(self.pattern) // 20)
        return times

    def choice(self, seq: Sequence[Any]) -> Any:
        """One of the branches or characters; for characters a readable one if possible."""
        self._spend_steps(1 + len(seq) // 200)
        if not isinstance(seq[0], str):
            return seq[self.variant % len(seq)]
        allowed = set(seq[:256])
        characters = [character for character in READABLE if character in allowed] or sorted(allowed)
        return characters[self.variant % len(characters)]

    def _spend_steps(self, steps: int) -> None:
        if not self.spend(steps):
            raise UnsupportedPattern("the step budget of the request is used up")
