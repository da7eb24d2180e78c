"""Base64 of large files in slices, so that the event loop serves other requests in between.

A slice takes about 1 ms. Both slice lengths, in bytes and in characters, are whole base64 groups.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from tornado_gate.wire.gemini_generate.audio import decode_base64
from tornado_gate.wire.gemini_generate.json_values import normalize_base64

SLICE_BYTES: Final = 768 * 1024


async def encode_in_slices(data: bytes) -> str:
    """The base64 of `data`."""
    pieces: list[bytes] = []
    for start in range(0, len(data), SLICE_BYTES):
        pieces.append(base64.b64encode(data[start : start + SLICE_BYTES]))
        await asyncio.sleep(0)
    return b"".join(pieces).decode("ascii")


async def decode_in_slices(text: str) -> bytes:
    """Decode base64 of either alphabet. Raises UpstreamError when `text` is not base64."""
    plain = normalize_base64(text)
    pieces: list[bytes] = []
    for start in range(0, len(plain), SLICE_BYTES):
        pieces.append(decode_base64(plain[start : start + SLICE_BYTES]))
        await asyncio.sleep(0)
    return b"".join(pieces)
