"""A parser that divides a form (multipart/form-data) into its parts while it arrives; no I/O.

Borders are searched with `bytes.find`, so content that imitates borders costs no more than other content. Memory is bounded: at
most the headers of one part are held back, or a possible border.

Sources: RFC 7578; RFC 2046 5.1.1 for preamble and boundaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from tornado_gate.errors import RequestError, TooLarge

MAX_PARTS = 200
MAX_HEADER_BYTES = 8 * 1024
"""Limit for the headers of one part."""
MAX_PREAMBLE_BYTES = 64 * 1024
"""Limit for the bytes before the first boundary: a body without a boundary is refused before all of it is read."""

_HEADER_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]++):[ \t]*+([^\r\n\0]*+)")
_AFTER_BORDER: Final = 2
"""The bytes after a delimiter that make it a border: CR LF before a part, two hyphens at the end of the form."""


class FormSink(Protocol):
    """A receiver of the parts of a form, in order. Exceptions of its methods end the parsing."""

    def on_part(self, headers: dict[bytes, bytes]) -> None:
        """Begin a part. Names of headers are in lower case."""

    def on_data(self, data: memoryview) -> None:
        """Add content to the part."""

    def on_part_end(self) -> None: ...


class FormParser:
    """The parser of one form. `is_complete`: the final border was read; further bytes are ignored."""

    def __init__(self, boundary: bytes, sink: FormSink) -> None:
        self.is_complete = False
        self._sink = sink
        self._delimiter = b"\r\n--" + boundary
        self._border = re.compile(re.escape(self._delimiter) + rb"(?:\r\n|--)")
        self._held = b"\r\n"  # a form may begin with its first boundary
        self._position = 0
        self._parts = self._skipped = 0
        self._read: Callable[[], bool] = self._read_preamble

    def write(self, data: bytes) -> None:
        """Parse the next bytes. Raises RequestError for an invalid form, TooLarge for a form above the limits."""
        if self.is_complete:
            return
        self._held += data
        self._position = 0
        while not self.is_complete and self._read():
            pass
        self._held = b"" if self.is_complete else self._held[self._position :]

    # Each method reads held bytes from `_position` on. It returns whether the next state can continue; otherwise more bytes are
    # needed.

    def _read_preamble(self) -> bool:
        border = self._held.find(self._delimiter)
        end = border if border >= 0 else max(0, len(self._held) - len(self._delimiter) + 1)
        self._skipped += end
        if self._skipped > MAX_PREAMBLE_BYTES:
            raise invalid_form_error(
                "The body does not contain the boundary that the Content-Type header names. Use the same boundary in both."
            )
        if border < 0:
            self._position = end
            return False
        self._position = border + len(self._delimiter)
        self._read = self._read_border_end
        return True

    def _read_border_end(self) -> bool:
        after = self._held[self._position : self._position + _AFTER_BORDER]
        if len(after) < _AFTER_BORDER:
            return False
        if after == b"--":
            self.is_complete = True
            return False
        if after != b"\r\n":
            raise _malformed_error()
        # the next search begins with this CR LF, so that a part without headers has an end, too
        self._read = self._read_headers
        return True

    def _read_headers(self) -> bool:
        end = self._held.find(b"\r\n\r\n", self._position)
        if (end if end >= 0 else len(self._held)) - self._position > MAX_HEADER_BYTES:
            raise TooLarge(f"The headers of a form part are too large; at most {MAX_HEADER_BYTES} bytes are allowed.")
        if end < 0:
            return False
        headers: dict[bytes, bytes] = {}
        for line in self._held[self._position + 2 : end].split(b"\r\n") if end > self._position else ():
            match = _HEADER_LINE.fullmatch(line)
            if match is None:
                raise _malformed_error()
            headers[match[1].lower()] = match[2].rstrip(b" \t")
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise TooLarge(f"The form has too many parts; at most {MAX_PARTS} are allowed.")
        self._position = end + len(b"\r\n\r\n")
        self._sink.on_part(headers)
        self._read = self._read_content
        return True

    def _read_content(self) -> bool:
        start, held = self._position, self._held
        next_border = held.find(self._delimiter, start)
        border = self._border.search(held, next_border) if next_border >= 0 else None
        end = len(held) - len(self._delimiter) - _AFTER_BORDER + 1 if border is None else border.start()
        if end > start:
            self._sink.on_data(memoryview(held)[start:end])
            self._position = end
        if border is None:
            return False
        self._sink.on_part_end()
        self._position = border.end() - _AFTER_BORDER
        self._read = self._read_border_end
        return True


def invalid_form_error(message: str) -> RequestError:
    return RequestError(message, code="invalid_form")


def _malformed_error() -> RequestError:
    return invalid_form_error("The body is not valid multipart/form-data: a boundary or part header is malformed.")
