"""The division of streamed text into sentences for speech synthesis, in any language. No I/O."""

from __future__ import annotations

import re
from typing import Final

MAX_SENTENCE_LENGTH: Final = 300
"""The maximum number of characters; a longer sentence is split at a comma or between words."""

_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s++|[。！？]+|\n+")
_SOFT_END = re.compile(r"[,;:、，；]\s*|\s+")
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"\s*+\d++\.\s++")
"""A number at the beginning of a line ("1. "), which is not a sentence."""


class SentenceSplitter:
    """A splitter that takes text in chunks and returns sentences, which joined are the same text."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """Return the sentences that are complete now. The text after a sentence shows that it has ended."""
        self._text += text
        sentences: list[str] = []
        start = searched = 0
        has_word = False
        for end in _END.finditer(self._text):
            has_word = has_word or _WORD.search(self._text, searched, end.end()) is not None
            searched = end.end()
            if has_word and not _NUMBER.fullmatch(self._text, start, searched):
                sentences += _cut_long_text(self._text[start:searched])
                start, has_word = searched, False
        self._text = self._text[start:]
        if len(self._text) > MAX_SENTENCE_LENGTH:
            *cut, self._text = _cut_long_text(self._text)
            sentences += cut
        return sentences

    def flush(self) -> list[str]:
        """Return the remaining text, when the text has ended."""
        text, self._text = self._text, ""
        return _cut_long_text(text) if _is_speakable(text) else []


def _is_speakable(text: str) -> bool:
    """Return whether the text contains words and is not only a number."""
    return bool(_WORD.search(text)) and not _NUMBER.fullmatch(text)


def _cut_long_text(text: str) -> list[str]:
    """Yield the text in chunks of at most MAX_SENTENCE_LENGTH characters."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > MAX_SENTENCE_LENGTH:
        last = start + MAX_SENTENCE_LENGTH
        ends = [
            end.end() for end in _SOFT_END.finditer(text, start, last) if end.end() > start + MAX_SENTENCE_LENGTH // 2
        ]
        at = ends[-1] if ends else last
        pieces.append(text[start:at])
        start = at
    return [*pieces, text[start:]] if start < len(text) else pieces
