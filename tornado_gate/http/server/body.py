"""Readers of request bodies: raw bytes -> body bytes, without I/O. A reader returns the number of raw bytes it has used.

Chunked bodies are parsed here and not by llhttp, because llhttp does not report where the last chunk ended. Chunk extensions and
trailers are ignored, as RFC 9112 7.1.1 and 7.1.2 require. They must follow its grammar exactly, because request smuggling uses
texts that parsers read differently. They must be short, because they cost time and carry no data.
"""

from __future__ import annotations

import re
from typing import Protocol

from tornado.httputil import HTTPInputError

from tornado_gate.http.server.refusals import Refused, body_too_large_error

MAX_CHUNKS_PER_TAKE = 256
"""Maximum number of chunks that are read before other connections get a turn, as in Tornado."""

MAX_LINE_BYTES = 1024
MAX_OVERHEAD_BYTES = 16 * 1024
"""Maximum size of all chunk extensions and the trailer of a body."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
_EXTENDED_SIZE = re.compile(
    rb"([0-9a-fA-F]{1,16})(?:[ \t]*;[ \t]*%b(?:[ \t]*=[ \t]*(?:%b|%b))?)+" % (_TOKEN, _TOKEN, _QUOTED)
)
_TRAILER = re.compile(rb"(%b):[\t -~\x80-\xff]*" % _TOKEN)
_LINE_START = re.compile(rb"\Z|[!#$%&'*+\-.^_`|~0-9A-Za-z]")
_FRAMING_FIELDS = frozenset({b"content-length", b"transfer-encoding", b"host"})


class BodyReader(Protocol):
    """A reader of one request body."""

    done: bool

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """Return (bytes of the body, number of bytes of `data` used). Raises HTTPInputError, also above `limit` bytes in total.

        May use fewer bytes than possible. If it uses none, it needs more data.
        """


class FixedLengthBodyReader:
    """A body with a Content-Length."""

    __slots__ = ("_left", "done")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = length == 0

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """Read as `BodyReader`; the length has already been compared with the limit."""
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.done = self._left == 0
        return piece, len(piece)


class ChunkedBodyReader:
    """A body with Transfer-Encoding: chunked (RFC 9112 7.1). Extensions and trailers are checked, limited and ignored."""

    __slots__ = ("_in_trailer", "_left", "_overhead", "_total", "done")

    def __init__(self) -> None:
        self._left: int | None = None  # bytes left of the current chunk; None: a size comes next
        self._in_trailer = False
        self._total = 0
        self._overhead = 0
        self.done = False

    def take(self, data: bytes, limit: int) -> tuple[bytes, int]:
        """Read as `BodyReader`."""
        pieces = []
        at = 0
        for _ in range(MAX_CHUNKS_PER_TAKE):
            if self._left is None and not self._in_trailer:
                end = _find_line_end(data, at)
                if end < 0:
                    break
                self._begin_chunk(data[at:end], limit)
                at = end + 2
            if self._in_trailer:
                at = self._skip_trailer(data, at)
                break
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
            if self._left or not _has_line_end(data, at):
                break
            at += 2
            self._left = None
        return b"".join(pieces), at

    def _begin_chunk(self, line: bytes, limit: int) -> None:
        """Start the chunk with this size and these extensions. Raises HTTPInputError."""
        if not _SIZE.fullmatch(line):
            match = _EXTENDED_SIZE.fullmatch(line)
            if match is None:
                raise HTTPInputError("invalid chunk size")
            self._count_overhead(len(line))
            line = match[1]
        size = int(line, 16)
        self._total += size
        if self._total > limit:
            raise Refused(body_too_large_error())
        if size:
            self._left = size
        else:
            self._in_trailer = True

    def _skip_trailer(self, data: bytes, at: int) -> int:
        """Skip the trailer, or the part of it that has arrived. Return the position after it."""
        while (end := _find_line_end(data, at)) >= 0:
            line, at = data[at:end], end + 2
            if not line:
                self.done = True
                break
            match = _TRAILER.fullmatch(line)
            if match is None or match[1].lower() in _FRAMING_FIELDS:
                raise HTTPInputError("invalid trailer")
            self._count_overhead(len(line))
        return at

    def _count_overhead(self, length: int) -> None:
        self._overhead += length
        if self._overhead > MAX_OVERHEAD_BYTES:
            raise HTTPInputError("the chunk extensions and the trailer are too large")


def _find_line_end(data: bytes, at: int) -> int:
    """Return the position of the CR LF that ends the line at `at`; -1 if it is incomplete. Raises HTTPInputError."""
    end = data.find(b"\r", at, at + MAX_LINE_BYTES + 1)
    if end >= 0:
        return end if _has_line_end(data, end) else -1
    if len(data) - at > MAX_LINE_BYTES or data.find(b"\n", at) >= 0 or not _LINE_START.match(data, at):
        raise HTTPInputError("invalid chunk size")
    return -1


def _has_line_end(data: bytes, at: int) -> bool:
    """Return whether CR LF is at `at`; False if it is incomplete. Raises HTTPInputError for anything else."""
    if not b"\r\n".startswith(data[at : at + 2]):
        raise HTTPInputError("improperly terminated chunk")
    return len(data) >= at + 2
