"""Replacement of personal data and secrets, in requests before a provider, and in responses before the caller.

With `restore` each value is replaced by its own mark, and the marks in the response become the caller's values again:
the provider never receives them. `detectors.py` defines the values. The core finds the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tornado_gate import PluginEntry, guard_impl, plugin_impl
from tornado_gate.types import Call, Decision, GuardedText, GuardOptions, Replace, Span
from tornado_gate_redact.detectors import LOCAL_CHARACTERS, MARGIN
from tornado_gate_redact.folding import WINDOW, fold
from tornado_gate_redact.marks import Marks, make_pattern
from tornado_gate_redact.settings import MARK, MARK_CHARACTERS, RedactSettings, read_settings

BREAKS_JSON: Final = re.compile(r'["\\\x00-\x1f]')
"""Characters that break JSON. The arguments of a tool may be the text of a JSON object."""
KIND_CHARACTERS: Final = 30
NUMBER_CHARACTERS: Final = 9


class Redact:
    """The plugin with the settings of one configuration."""

    def __init__(self, settings: RedactSettings | None = None) -> None:
        self._settings = settings or RedactSettings()
        self._pattern = make_pattern(self._settings.mark)

    @plugin_impl
    def configure_plugin(self, entry: PluginEntry) -> Redact:
        return Redact(read_settings(entry.settings))

    @guard_impl
    def guard_options(self) -> GuardOptions:
        """Return the options. A stream holds back as many characters as the longest value, or the longest mark that is
        restored.
        """
        settings = self._settings
        lengths = (
            [detector.characters for detector in settings.detectors.values()] if "response" in settings.sides else []
        )
        if settings.restore:
            lengths.append(MARK_CHARACTERS + KIND_CHARACTERS + NUMBER_CHARACTERS)
        reads: Any = settings.sides | ({"response"} if settings.restore else frozenset())
        return GuardOptions(lookahead=max(lengths, default=0), reads=reads)

    @guard_impl
    def review_request(self, call: Call, texts: list[GuardedText]) -> Decision:
        marks = self._find_marks(call)
        marks.note_texts(texts)
        return _replace_spans(
            Span(number, start, end, marks.find(kind, text.text[start:end]))
            for number, text in enumerate(texts)
            for start, end, kind in find_values(self._settings, text.text)
            if start >= text.sent
        )

    @guard_impl
    def review_response(self, call: Call, texts: list[GuardedText]) -> Decision:
        marks = self._find_marks(call)
        spans: list[Span] = []
        for number, text in enumerate(texts):
            if "response" in self._settings.sides:
                spans += self._mask_values(marks, number, text)
            if marks.values and self._settings.restore:
                spans += self._restore_values(marks, number, text)
        return _replace_spans(iter(spans))

    def _find_marks(self, call: Call) -> Marks:
        """Return the marks of the request, which its response shares."""
        marks: Marks | None = call.notes.get(self)
        if marks is None:
            marks = call.notes[self] = Marks(self._settings.mark)
        return marks

    def _mask_values(self, marks: Marks, number: int, text: GuardedText) -> Iterator[Span]:
        """Yield the values in a response, without the caller's own values if they are restored."""
        for start, end, kind in find_values(self._settings, text.text):
            value = text.text[start:end]
            if start >= text.sent and not (self._settings.restore and value in marks.originals):
                # A numbered mark would look like a mark of the caller's values.
                yield Span(number, start, end, MARK if self._settings.restore else marks.find(kind, value))

    def _restore_values(self, marks: Marks, number: int, text: GuardedText) -> Iterator[Span]:
        for match in self._pattern.finditer(text.text):
            value = marks.values.get(match[0])
            if value is None or match.start() < text.sent:
                continue
            if text.kind != "tool_call" or not BREAKS_JSON.search(value):
                yield Span(number, match.start(), match.end(), value)


def find_values(settings: RedactSettings, text: str) -> list[tuple[int, int, str]]:
    """Return the values in a text: start, end and kind, in order and without overlaps.

    Of two values that overlap the first counts; of two values that begin together the longer one.
    """
    folded = fold(text)
    searched_text = folded.text
    values: list[tuple[int, int, str]] = []
    matches: list[tuple[int, int, str]] = []
    searched: dict[str, int] = {}
    after, length = 0, len(searched_text)
    for window in range(0, length, WINDOW):
        end = min(window + WINDOW, length)
        reach = end + MARGIN
        for kind, (find, _, search) in settings.detectors.items():
            begin = max(window, searched.get(kind, 0)) if window else 0
            if search is not None and search(searched_text, begin, reach) is None:
                continue  # most texts have no value
            for start, last in find(searched_text, begin, end):
                matches.append((start, -last, kind))
                searched[kind] = last
        if not matches:
            continue
        settled = (
            length if end == length else end - LOCAL_CHARACTERS
        )  # later windows find values that begin from here on
        matches.sort()
        kept: list[tuple[int, int, str]] = []
        for item in matches:
            if item[0] >= settled:
                kept.append(item)
            elif item[0] >= after:
                after = -item[1]
                values.append((*folded.find_span(item[0], after), item[2]))
        matches = kept
    return values


def _replace_spans(spans: Iterable[Span]) -> Decision:
    replaced = tuple(spans)
    return Replace(spans=replaced) if replaced else None
