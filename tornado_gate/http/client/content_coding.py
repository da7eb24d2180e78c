"""The decoding of content codings that an upstream applies although none was requested. RFC 9110 8.4.1."""

from __future__ import annotations

import zlib

from tornado_gate.http.client.faults import CompressionTooHigh, MalformedResponse

PIECE_BYTES = 256 * 1024
"""Maximum size of one decompressed piece."""

MAX_RATIO = 100
"""Maximum growth of a body by decompression. JSON and text grow by a factor of 3 to 20; zeros grow by 1000."""

RATIO_FREE_BYTES = 1024 * 1024
"""Up to this decompressed size the growth is not limited: short repetitive bodies grow more."""

_SUPPORTED_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_UNSUPPORTED_CODINGS = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})


class Inflater:
    """A decompressor of gzip, also with several members, and deflate with or without the zlib header (servers send both).

    The work of one call is bounded by PIECE_BYTES. `has_more`: the last call returned a chunk, and more may follow without input.
    """

    __slots__ = ("_gzip", "_object", "_over", "_packed", "_packed_bytes", "_piece_bytes", "_unfinished")

    def __init__(self, coding: str) -> None:
        self._gzip = coding != "deflate"
        self._object: zlib._Decompress | None = None
        self._packed = b""
        self._unfinished = False  # the last piece was full: zlib may hold more output
        self._over = False
        self._packed_bytes = 0
        self._piece_bytes = 0

    @property
    def has_more(self) -> bool:
        return bool(self._packed) or self._unfinished

    def take(self, packed: bytes) -> bytes:
        """Add `packed` and return the next decompressed piece, b"" if more input is needed.

        Raises MalformedResponse, and CompressionTooHigh for a body that grows by more than MAX_RATIO.
        """
        if packed:
            self._packed = self._packed + packed if self._packed else packed
            self._packed_bytes += len(packed)
        while self._packed or self._unfinished:
            try:
                piece = self._inflate_piece()
            except zlib.error as error:
                raise MalformedResponse(f"the body cannot be decompressed: {error}") from error
            if piece:
                self._piece_bytes += len(piece)
                consumed = self._packed_bytes - len(self._packed)
                if self._piece_bytes > max(RATIO_FREE_BYTES, MAX_RATIO * consumed):
                    raise CompressionTooHigh(f"the compressed body grows by more than a factor of {MAX_RATIO}")
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

    Raises MalformedResponse for codings that exist but are not supported, and for several codings on top of each other.
    """
    codings = [name for item in coding.split(",") if (name := item.strip().lower()) not in ("", "identity")]
    for name in codings:
        if name in _UNSUPPORTED_CODINGS:
            raise MalformedResponse(f"the body has the unsupported content coding {name}")
    supported = [name for name in codings if name in _SUPPORTED_CODINGS]
    if len(supported) > 1 or (supported and len(codings) > 1):
        raise MalformedResponse("the body has several content codings")
    return Inflater(supported[0]) if supported else None
