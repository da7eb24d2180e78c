"""Vectors as floats or as bytes: little-endian 32-bit floats, which is what ``encoding_format: base64`` carries.

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
    """The numbers. Raises UpstreamError for bytes that are none, or that hold what JSON has no word for."""
    if not isinstance(vector, bytes):
        return list(vector)
    if len(vector) % FLOAT_BYTES:
        raise UpstreamError("The upstream sent a vector that is no row of 32-bit floats.")
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    if not math.isfinite(sum(numbers)):  # of doubles, which no number of finite 32-bit floats brings to infinity
        raise UpstreamError("The upstream sent a vector with numbers that are infinite or none.")
    return numbers.tolist()


def pack_floats(vector: Vector) -> bytes:
    """The bytes. Raises UpstreamError for a number that no 32-bit float can hold."""
    if isinstance(vector, bytes):
        return vector
    try:
        return struct.pack(f"<{len(vector)}f", *vector)
    except (struct.error, OverflowError) as error:
        raise UpstreamError("The upstream sent a vector whose numbers are no 32-bit floats.") from error


def to_base64(vector: Vector) -> str:
    """The bytes in base64."""
    return binascii.b2a_base64(pack_floats(vector), newline=False).decode("ascii")


def from_base64(text: str) -> bytes:
    """The bytes of a vector that came in base64. Raises UpstreamError for what is none."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (TypeError, ValueError) as error:  # of which binascii.Error is one
        raise UpstreamError("The upstream sent a vector that is not base64.") from error
    if not data or len(data) % FLOAT_BYTES:
        raise UpstreamError("The upstream sent a vector that is no row of 32-bit floats.")
    return data
