"""Readers of request bodies: raw bytes -> body bytes, without I/O. A reader returns how many raw bytes it has used.

Chunked bodies are parsed here and not by llhttp, because llhttp does not tell where the last chunk ended, and because
extensions and trailers, which the gateway does not use, serve request smuggling.
"""

from __future__ import annotations

import re
from typing import Protocol

from tornado.httputil import HTTPInputError

MAX_CHUNKS_PER_TAKE = 256
"""Maximum number of chunks that are read before other connections get a turn, as in Tornado."""

_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
_LONGEST_SIZE = 16


class BodyReader(Protocol):
    """Reads one request body."""

    done: bool

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """Return (bytes of the body, number of bytes of `data` used). Raises HTTPInputError, also above `limit` bytes in all.

        May use fewer bytes than possible. If it uses none, it needs more data.
        """


class FixedLengthBodyReader:
    """A body with a Content-Length."""

    __slots__ = ("_left", "done")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """As `BodyReader`; the length has already been compared with the limit."""
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece, len(piece)


class ChunkedBodyReader:
    """A body with Transfer-Encoding: chunked (RFC 9112 7.1). Extensions and trailers are rejected."""

    __slots__ = ("_last", "_left", "_total", "done")

    def __init__(self) -> None:
        self._left: int | None = None  # bytes left of the current chunk; None: a size comes next
        self._last = False
        self._total = 0
        self.done = False

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """As `BodyReader`."""
        pieces = []
        at = 0
        for _ in range(MAX_CHUNKS_PER_TAKE):
            if self._left is None:
                size = self._parse_chunk_size(data, at)
                if size < 0:
                    break
                at = data.index(b"\r\n", at) + 2
                self._left = size
                self._total += size
                if self._total > limit:
                    raise HTTPInputError("the chunked body is larger than the limit")
                self._last = size == 0
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
            if self._left or not _has_line_end(data, at):
                break
            at += 2
            self._left = None
            if self._last:
                self.done = True
                break
        return b"".join(pieces), at

    @staticmethod
    def _parse_chunk_size(data: bytes, at: int) -> int:
        """Return the size at `at`; -1 if it is incomplete."""
        end = data.find(b"\r", at, at + _LONGEST_SIZE + 1)
        line = data[at:end] if end >= 0 else data[at : at + _LONGEST_SIZE + 1]
        if not _SIZE.fullmatch(line) and (line or end >= 0):
            raise HTTPInputError("invalid chunk size")
        return int(line, 16) if end >= 0 and _has_line_end(data, end) else -1


def _has_line_end(data: bytes, at: int) -> bool:
    """Whether CR LF is at `at`; False if it is incomplete. Raises HTTPInputError for anything else."""
    if not b"\r\n".startswith(data[at : at + 2]):
        raise HTTPInputError("improperly terminated chunk")
    return len(data) >= at + 2
