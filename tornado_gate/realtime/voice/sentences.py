"""Splits streamed text into sentences for speech synthesis, in any language. No I/O."""

from __future__ import annotations

import re
from typing import Final

MAX_SENTENCE_LENGTH: Final = 300
"""Characters; a longer sentence is split at a comma or between words."""

_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+|\n+")
_SOFT_END = re.compile(r"[,;:、，；]\s*|\s+")
_WORD = re.compile(r"\w")


class SentenceSplitter:
    """Takes text in pieces and returns sentences, which joined are the same text."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """The sentences that are complete now. The text after a sentence shows that it has ended."""
        self._text += text
        found: list[str] = []
        start = 0
        for end in _END.finditer(self._text):
            if _is_speakable(self._text[start : end.end()]):
                found += _cut_long_text(self._text[start : end.end()])
                start = end.end()
        self._text = self._text[start:]
        if len(self._text) > MAX_SENTENCE_LENGTH:
            *cut, self._text = _cut_long_text(self._text)
            found += cut
        return found

    def flush(self) -> list[str]:
        """The remaining text, when the text has ended."""
        text, self._text = self._text, ""
        return _cut_long_text(text) if _is_speakable(text) else []


def _is_speakable(text: str) -> bool:
    """Whether the text contains words. A number at the beginning of a line ("1. ") is not a sentence."""
    return bool(_WORD.search(text)) and not re.fullmatch(r"\s*\d+\.\s+", text)


def _cut_long_text(text: str) -> list[str]:
    """The text in pieces of at most MAX_SENTENCE_LENGTH characters."""
    pieces: list[str] = []
    while len(text) > MAX_SENTENCE_LENGTH:
        ends = [
            end.end()
            for end in _SOFT_END.finditer(text, 0, MAX_SENTENCE_LENGTH)
            if end.end() > MAX_SENTENCE_LENGTH // 2
        ]
        at = ends[-1] if ends else MAX_SENTENCE_LENGTH
        pieces.append(text[:at])
        text = text[at:]
    return [*pieces, text] if text else pieces
