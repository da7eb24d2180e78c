"""The conversion of vectors between floats and bytes: little-endian 32-bit floats, the content of ``encoding_format: base64``.

Public, for plugins. Source: openai-python 3.52, resources/embeddings.py, which unpacks ``float32`` from base64.
"""

from __future__ import annotations

import binascii
import math
import struct
import sys
from array import array

from tornado_gate.errors import UpstreamError
from tornado_gate.types import Vector

FLOAT_BYTES = 4


def to_floats(vector: Vector) -> list[float]:
    """Return the vector as floats. Raises UpstreamError for an invalid length and for infinite or NaN values."""
    if not isinstance(vector, bytes):
        return list(vector)
    if len(vector) % FLOAT_BYTES:
        raise UpstreamError("The upstream returned an invalid embedding: its length is not a multiple of 4 bytes.")
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    if not math.isfinite(sum(numbers)):  # the sum is a double: finite 32-bit floats cannot overflow it
        raise UpstreamError("The upstream returned an invalid embedding: it has infinite or NaN values.")
    return numbers.tolist()


def pack_floats(vector: Vector) -> bytes:
    """Return the vector as bytes. Raises UpstreamError for a value that does not fit into a 32-bit float."""
    if isinstance(vector, bytes):
        return vector
    try:
        return struct.pack(f"<{len(vector)}f", *vector)
    except (struct.error, OverflowError) as error:
        raise UpstreamError("The upstream returned an invalid embedding: a value is not a 32-bit float.") from error


def to_base64(vector: Vector) -> str:
    """Return the vector's bytes in base64. Raises the UpstreamError of `pack_floats`."""
    return binascii.b2a_base64(pack_floats(vector), newline=False).decode("ascii")


def from_base64(text: str) -> bytes:
    """Return the bytes of a vector in base64. Raises UpstreamError for invalid base64 and for an invalid length."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (TypeError, ValueError) as error:  # binascii.Error is a ValueError
        raise UpstreamError("The upstream returned an invalid embedding: it is not base64.") from error
    if not data or len(data) % FLOAT_BYTES:
        raise UpstreamError("The upstream returned an invalid embedding: its length is not a multiple of 4 bytes.")
    return data
