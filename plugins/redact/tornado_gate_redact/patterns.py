"""Patterns of conf. RE2 needs time in proportion to the text, for every pattern, so no pattern can block the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tornado_gate_redact.detectors import MARGIN, Detector

MAX_CHARACTERS: Final = 1000
"""The longest match of a pattern: the number of characters that a stream holds back."""


def compile_pattern(pattern: str) -> Detector:
    """Return the detector of a pattern. Raises ValueError with a message for the operator."""
    import re2  # type: ignore[import-untyped]  # on first use: it takes 2.5 MB, and most entries have no patterns

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
        characters = re._parser.parse(pattern).getwidth()[1]  # no public function returns it
    except (re2.error, re.error, RecursionError) as error:
        detail = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise ValueError(
            f"is no regular expression of RE2: {detail}; look-around and references are not allowed"
        ) from None
    if not 0 < characters <= MAX_CHARACTERS:
        raise ValueError(
            f"must match 1 to {MAX_CHARACTERS} characters: limit what repeats, such as [0-9]{{1,12}} instead of [0-9]+"
        )
    return Detector(_make_finder(compiled), characters)


def _make_finder(compiled: Any) -> Any:
    def find(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        first = max(0, start - 1)  # the character before, for \b
        window = text[first : end + MARGIN]
        for match in compiled.finditer(window, start - first):
            if match.start() + first >= end:
                return
            if match.end() > match.start():
                yield match.start() + first, match.end() + first

    return find
