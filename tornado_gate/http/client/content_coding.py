"""Content codings that an upstream applies although none was asked for. RFC 9110 8.4.1."""

from __future__ import annotations

import zlib

from tornado_gate.http.client.faults import MalformedResponse

PIECE_BYTES = 256 * 1024
"""At most so much is unpacked at once, however well it was packed."""

_UNSUPPORTED_CODINGS = frozenset({"br", "zstd", "compress"})


class Inflater:
    """Undoes gzip, also of several members, or deflate: with or without zlib's header, as servers disagree."""

    __slots__ = ("_gzip", "_object", "_over", "_packed", "_unfinished")

    def __init__(self, coding: str) -> None:
        self._gzip = coding != "deflate"
        self._object: zlib._Decompress | None = None
        self._packed = b""
        self._unfinished = False  # the last piece was full, so zlib may hold more of what it has taken in
        self._over = False

    def take(self, packed: bytes) -> bytes:
        """Add `packed`; the next piece of what was packed, b"" when more is needed first. Raises Malformed."""
        self._packed += packed
        while self._packed or self._unfinished:
            try:
                piece = self._inflate_piece()
            except zlib.error as error:
                raise MalformedResponse(f"a packed body that cannot be unpacked: {error}") from error
            if piece:
                return piece
        return b""

    def finish(self) -> None:
        """Nothing more comes. Raises Malformed when something is missing."""
        if self._object is not None:
            raise MalformedResponse("a packed body that was cut off")

    def _inflate_piece(self) -> bytes:
        if self._over:
            raise MalformedResponse("bytes after the end of a packed body")
        if self._object is None:
            bare = not self._gzip and self._packed[0] & 0x0F != zlib.DEFLATED
            self._object = zlib.decompressobj((-1 if bare else 1) * zlib.MAX_WBITS + 16 * self._gzip)
        piece = self._object.decompress(self._packed, PIECE_BYTES)
        self._unfinished = len(piece) == PIECE_BYTES
        self._packed = self._object.unconsumed_tail
        if self._object.eof:
            self._packed = self._object.unused_data
            self._object, self._unfinished = None, False
            self._over = not self._gzip
        return piece


def make_inflater(coding: str) -> Inflater | None:
    """What undoes the value of a Content-Encoding header; None when nothing is to be done, or it names no coding at all.

    Raises Malformed for codings that exist and that we did not ask for.
    """
    coding = coding.strip().lower()
    if coding in _UNSUPPORTED_CODINGS:
        raise MalformedResponse(f"a body packed with {coding}, which was not asked for")
    return Inflater(coding) if coding in ("gzip", "x-gzip", "deflate") else None
