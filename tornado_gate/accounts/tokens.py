"""Random secrets of cookies and links, and ids. The database has digests of the secrets only."""

from __future__ import annotations

import hashlib
import secrets

LONGEST = 200
"""The maximum length of a presented token. A longer token is not hashed."""


def make_token() -> str:
    """Return 256 random bits for a cookie or an address."""
    return secrets.token_urlsafe(32)


def make_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(8)}"


def digest_token(token: str) -> bytes:
    """Return the stored digest of a token. Never raises, for any text."""
    return hashlib.sha256(token[:LONGEST].encode("utf-8", "surrogatepass")).digest()
