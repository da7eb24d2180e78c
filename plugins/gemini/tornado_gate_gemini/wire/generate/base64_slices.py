"""Base64 of large files in slices, so that the event loop serves other requests in between.

A slice takes about 1 ms. Both slice lengths, in bytes and in characters, are whole base64 groups.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tornado_gate.http.fetch.pictures import ENCODED_BYTES
from tornado_gate.http.fetch.pictures import encode as encode_in_slices
from tornado_gate_gemini.wire.generate.audio import decode_base64
from tornado_gate_gemini.wire.generate.json_values import normalize_base64

SLICE_BYTES: Final = ENCODED_BYTES

__all__ = ["SLICE_BYTES", "decode_in_slices", "encode_in_slices"]


async def decode_in_slices(text: str) -> bytes:
    """Decode base64 of either alphabet. Raises UpstreamError when `text` is not base64."""
    plain = normalize_base64(text)
    pieces: list[bytes] = []
    for start in range(0, len(plain), SLICE_BYTES):
        pieces.append(decode_base64(plain[start : start + SLICE_BYTES]))
        await asyncio.sleep(0)
    return b"".join(pieces)
