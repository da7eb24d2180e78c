"""Decodes content codings that an upstream applies although none was requested. RFC 9110 8.4.1."""

from __future__ import annotations

import zlib

from tornado_gate.http.client.faults import MalformedResponse

PIECE_BYTES = 256 * 1024
"""Maximum size of one decompressed piece."""

_UNSUPPORTED_CODINGS = frozenset({"br", "zstd", "compress"})


class Inflater:
    """Decompresses gzip, also with several members, and deflate with or without the zlib header (servers send both)."""

    __slots__ = ("_gzip", "_object", "_over", "_packed", "_unfinished")

    def __init__(self, coding: str) -> None:
        self._gzip = coding != "deflate"
        self._object: zlib._Decompress | None = None
        self._packed = b""
        self._unfinished = False  # the last piece was full: zlib may hold more output
        self._over = False

    def take(self, packed: bytes) -> bytes:
        """Add `packed` and return the next decompressed piece, b"" if more input is needed. Raises MalformedResponse."""
        self._packed += packed
        while self._packed or self._unfinished:
            try:
                piece = self._inflate_piece()
            except zlib.error as error:
                raise MalformedResponse(f"the body cannot be decompressed: {error}") from error
            if piece:
                return piece
        return b""

    def finish(self) -> None:
        """Check that the compressed body is complete. Raises MalformedResponse if it is not."""
        if self._object is not None:
            raise MalformedResponse("the compressed body is incomplete")

    def _inflate_piece(self) -> bytes:
        if self._over:
            raise MalformedResponse("data after the end of the compressed body")
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
    """Return the decompressor for a Content-Encoding header; None if the body is not compressed or the coding is unknown.

    Raises MalformedResponse for codings that exist but are not supported.
    """
    coding = coding.strip().lower()
    if coding in _UNSUPPORTED_CODINGS:
        raise MalformedResponse(f"the body has the unsupported content coding {coding}")
    return Inflater(coding) if coding in ("gzip", "x-gzip", "deflate") else None
