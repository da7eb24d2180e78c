"""What an upstream must answer to a prompt, so that a caller can tell a wrong, a mixed or a cut answer.

A prompt asks for a number of words of a nonce. Everything in the answer follows from the nonce, and no two requests share one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import struct
import zlib

PROMPT = re.compile(rb"say (\d+) words of ([0-9a-f]{16})")
NONCE = re.compile(r"[0-9a-f]{16}")
DIMENSIONS = 16
FILM_BYTES = 200_000


def make_nonce() -> str:
    return secrets.token_hex(8)


def make_prompt(nonce: str, count: int) -> str:
    return f"say {count} words of {nonce}"


def read_prompt(body: bytes) -> tuple[str, int]:
    """(nonce, number of words) of the last prompt in a request. Raises ValueError if there is none."""
    found = PROMPT.findall(body)
    if not found:
        raise ValueError("the request has no prompt of the soak test")
    count, nonce = found[-1]
    return nonce.decode(), int(count)


def make_words(nonce: str, count: int) -> list[str]:
    """The pieces of the answer, each a stream event."""
    return [f"{nonce}.{number} " for number in range(count)] + [f"{nonce}.end"]


def make_vector(nonce: str, index: int) -> list[float]:
    """The embedding of input `index`: exact in float32, so that base64 and floats agree."""
    digest = hashlib.sha256(f"{nonce} {index}".encode()).digest()
    return [(digest[n] - 128) / 128 for n in range(DIMENSIONS)]


def make_bytes(nonce: str, size: int) -> bytes:
    """Content of a file: repeats of a digest."""
    digest = hashlib.sha256(nonce.encode()).digest()
    return (digest * (size // len(digest) + 1))[:size]


def make_sound(nonce: str) -> bytes:
    """An MP3 in name: an ID3 header with the nonce, then bytes of it."""
    return b"ID3\x04\0\0\0\0\0\0" + nonce.encode() + make_bytes(nonce, 20_000)


def make_film(nonce: str) -> bytes:
    """An MP4 in name: its first box says so."""
    return b"\0\0\0\x18ftypmp42" + bytes(12) + nonce.encode() + make_bytes(nonce, FILM_BYTES)


def make_picture(nonce: str) -> bytes:
    """A valid PNG of 1 x 1 pixel whose comment is the nonce."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"tEXt", b"Comment\0" + nonce.encode()), (b"IDAT", zlib.compress(b"\0\0\0\0"))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_make_chunk(kind, data) for kind, data in (*parts, (b"IEND", b"")))


def _make_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
