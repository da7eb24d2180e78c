"""The hashes of names and the lock numbers of the tables that several nodes share in PostgreSQL."""

from __future__ import annotations

import hashlib


def hash_name(name: str) -> bytes:
    """Return the SHA-256 of the name of an account. Its first bytes are the `compute_digest` of the name."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


def to_lock_number(digest: bytes) -> int:
    """Return the second number of an advisory lock."""
    return int.from_bytes(digest[:4], "big", signed=True)
