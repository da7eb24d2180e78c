"""Base64 of images in slices, because an image of several megabytes would block the event loop for too long."""

from __future__ import annotations

import asyncio
import binascii
from typing import Final

from tornado_gate.errors import UpstreamError

SLICE_BYTES: Final = 256 * 1024
"""Base64 groups per slice: 768 KiB of bytes, 1 MiB of text."""


async def encode(data: bytes) -> bytes:
    """Return the base64 of `data`, as ASCII bytes."""
    view = memoryview(data)
    pieces = []
    for at in range(0, len(data), 3 * SLICE_BYTES):
        pieces.append(binascii.b2a_base64(view[at : at + 3 * SLICE_BYTES], newline=False))
        await asyncio.sleep(0)
    return b"".join(pieces)


async def decode(text: str) -> bytes:
    """Return the bytes of an upstream's image, given as plain base64 or as a ``data:`` URL.

    Line breaks and missing padding are accepted. Raises UpstreamError for invalid base64 and for an empty image.
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
        raise UpstreamError("The upstream returned an image that is not valid base64. Retry the request.") from error
    if not pieces:
        raise UpstreamError("The upstream returned an empty image. Retry the request.")
    return b"".join(pieces)
