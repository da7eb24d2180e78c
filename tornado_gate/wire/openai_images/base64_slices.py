"""Base64 of pictures, in slices: a picture of some megabytes would hold the event loop for longer than anybody may."""

from __future__ import annotations

import asyncio
import binascii
from typing import Final

from tornado_gate.errors import UpstreamError

SLICE_BYTES: Final = 256 * 1024
"""Groups of base64 at once: 768 KiB of bytes, 1 MiB of text."""


async def encode(data: bytes) -> bytes:
    """The base64 of `data`, as ASCII."""
    view = memoryview(data)
    pieces = []
    for at in range(0, len(data), 3 * SLICE_BYTES):
        pieces.append(binascii.b2a_base64(view[at : at + 3 * SLICE_BYTES], newline=False))
        await asyncio.sleep(0)
    return b"".join(pieces)


async def decode(text: str) -> bytes:
    """The bytes of a picture that an upstream sent, as plain base64 or as a ``data:`` URL.

    Line breaks and missing padding are forgiven. Raises UpstreamError for what is no base64, and for an empty picture.
    """
    if text[:5].lower() == "data:":
        text = text.partition(",")[2]
    try:
        raw = text.encode("ascii")
        if b"\n" in raw:
            raw = raw.translate(None, b"\r\n")
        raw += b"=" * (-len(raw) % 4)
        pieces = []
        for at in range(0, len(raw), 4 * SLICE_BYTES):
            pieces.append(binascii.a2b_base64(raw[at : at + 4 * SLICE_BYTES], strict_mode=True))
            await asyncio.sleep(0)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise UpstreamError("The upstream sent a picture that is not base64.") from error
    if not pieces:
        raise UpstreamError("The upstream sent an empty picture.")
    return b"".join(pieces)
