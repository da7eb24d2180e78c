"""Marks that replace values: a fixed mark, or a mark with the number of the value in its request, which can be restored."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tornado_gate.types import GuardedText


class Marks:
    """The marks of one request or session. Equal values have equal marks, so that a model can recognise equal values.

    They are numbered by kind in the order of the texts: a conversation that grows keeps the marks of its beginning.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._is_numbered = "{number}" in mark
        self._marks: dict[tuple[str, str], str] = {}
        self._numbers: dict[str, int] = {}
        self._used: set[str] = set()
        self.values: dict[str, str] = {}
        self.originals: set[str] = set()

    def note_texts(self, texts: Iterable[GuardedText]) -> None:
        """Record marks that the caller's texts already contain, so that no value gets them."""
        if self._is_numbered:
            pattern = make_pattern(self._mark)
            for text in texts:
                self._used.update(pattern.findall(text.text))

    def find(self, kind: str, value: str) -> str:
        """Return the mark for a value."""
        if not self._is_numbered:
            return self._mark.replace("{kind}", kind.upper())
        known = self._marks.get((kind, value))
        if known is None:
            known = self._marks[kind, value] = self._make_mark(kind)
            self.values[known] = value
            self.originals.add(value)
        return known

    def _make_mark(self, kind: str) -> str:
        while True:
            number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
            mark = self._mark.replace("{kind}", kind.upper()).replace("{number}", str(number))
            if mark not in self._used:
                return mark


def make_pattern(mark: str) -> re.Pattern[str]:
    """Return a pattern of all marks."""
    pattern = re.escape(mark).replace(re.escape("{kind}"), "[A-Z][A-Z0-9_]{0,29}")
    return re.compile(pattern.replace(re.escape("{number}"), "[0-9]{1,9}"))
