"""The boxes of an MP4 or QuickTime file, followed while it arrives: a file that ends inside a box was cut off. Pure.

A file is a sequence of boxes, each with its length before it (ISO/IEC 14496-12:2022, 4.2). The length shows errors that HTTP
cannot show: a server announced too short a body, or ended a connection that alone marks the end of the body.
"""

from __future__ import annotations

from typing import Final

_KINDS: Final = frozenset(
    {
        *(b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"mfra", b"meta", b"free", b"skip", b"wide", b"uuid", b"pdin"),
        *(b"sidx", b"ssix", b"prft", b"emsg"),
    }
)
"""The boxes of the first level. After any other box the file is not followed: some writers append other data."""
_HEAD_BYTES: Final = 8
_LARGE_HEAD_BYTES: Final = 16
_UNTIL_END, _LARGE = 0, 1
"""Lengths with a special meaning."""


class BoxFollower:
    """A follower that takes a file in chunks of any size. `is_cut`: the file, if it ends here, ends inside a box."""

    __slots__ = ("_follows", "_head", "_left")

    def __init__(self) -> None:
        self._follows = True
        self._head = b""  # the beginning of the next box, until its length is known
        self._left = 0  # bytes of the current box that are still to come

    @property
    def is_cut(self) -> bool:
        return self._follows and self._left > 0

    def take(self, piece: bytes) -> None:
        """Follow the boxes through `piece`, the next bytes of the file."""
        at = 0
        while self._follows and at < len(piece):
            if self._left:
                step = min(self._left, len(piece) - at)
                self._left -= step
                at += step
                continue
            missing = (
                _LARGE_HEAD_BYTES if int.from_bytes(self._head[:4]) == _LARGE and len(self._head) >= 4 else _HEAD_BYTES
            )
            step = min(missing - len(self._head), len(piece) - at)
            self._head += piece[at : at + step]
            at += step
            self._read_head()

    def _read_head(self) -> None:
        """Find the length of the box whose beginning is in `_head`, if enough bytes have arrived."""
        head = self._head
        if len(head) < _HEAD_BYTES:
            return
        length, read = int.from_bytes(head[:4]), len(head)
        if length == _LARGE and read < _LARGE_HEAD_BYTES and head[4:8] in _KINDS:
            return
        if length == _LARGE:
            length = int.from_bytes(head[8:])
        self._head = b""
        self._left = length - read
        self._follows = length != _UNTIL_END and self._left >= 0 and head[4:8] in _KINDS
