"""Bodies of requests: raw bytes -> body bytes, without I/O. A reader says how many raw bytes it has used; the rest stays.

Chunks are read here and not by llhttp, because it does not say where the last one ended, and because extensions and
trailers, which nothing of ours reads, are what requests are smuggled with.
"""

from __future__ import annotations

import re
from typing import Protocol

from tornado.httputil import HTTPInputError

MAX_CHUNKS_PER_TAKE = 256
"""How many chunks are read before others get their turn, as in Tornado."""

_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
_LONGEST_SIZE = 16


class BodyReader(Protocol):
    """Reads one body."""

    done: bool

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """(bytes of the body, how many of `data` they took). Raises HTTPInputError, also beyond `limit` bytes in all.

        May use less than it could; when it uses nothing, it needs more.
        """


class FixedLengthBodyReader:
    """With a Content-Length."""

    __slots__ = ("_left", "done")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """As `Body` says. The limit was held against the length before."""
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece, len(piece)


class ChunkedBodyReader:
    """With Transfer-Encoding: chunked (RFC 9112 7.1), without extensions and trailers."""

    __slots__ = ("_last", "_left", "_total", "done")

    def __init__(self) -> None:
        self._left: int | None = None  # of the chunk that is read; None: a size comes next
        self._last = False
        self._total = 0
        self.done = False

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """As `Body` says."""
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
                    raise HTTPInputError("chunked body too large")
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
        """The size that stands at `at`; -1 when it has not come whole."""
        end = data.find(b"\r", at, at + _LONGEST_SIZE + 1)
        line = data[at:end] if end >= 0 else data[at : at + _LONGEST_SIZE + 1]
        if not _SIZE.fullmatch(line) and (line or end >= 0):
            raise HTTPInputError("invalid chunk size")
        return int(line, 16) if end >= 0 and _has_line_end(data, end) else -1


def _has_line_end(data: bytes, at: int) -> bool:
    """Whether CR LF stands there; False when it has not come yet. Raises HTTPInputError when something else does."""
    if not b"\r\n".startswith(data[at : at + 2]):
        raise HTTPInputError("improperly terminated chunk")
    return len(data) >= at + 2
