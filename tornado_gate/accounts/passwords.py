"""Passwords: what one may contain, and argon2id hashes. Hashing takes up to 0.1 s and 32 MiB: never on an event loop."""

from __future__ import annotations

import threading
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tornado_gate.accounts.errors import AccountError

SHORTEST = 8
LONGEST = 1024
HASHER = PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)
"""More than the least that OWASP recommends (2025: 19 MiB, 2 passes). Hashes with other parameters are renewed at sign-in."""
CONCURRENT_HASHES = 2
_slots = threading.BoundedSemaphore(CONCURRENT_HASHES)
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Cn"})
"""Control characters, halves of surrogate pairs, unassigned code points: no keyboard types them the same everywhere."""


def check_password(password: str, field: str = "password") -> str:
    """The password as it is hashed, in the normal form NFC: keyboards spell letters differently. Raises AccountError."""
    if len(password) > LONGEST:
        raise AccountError(f"A password has at most {LONGEST} characters.", code="invalid_password", field=field)
    normal = unicodedata.normalize("NFC", password)
    if len(normal) < SHORTEST:
        raise AccountError(f"A password has at least {SHORTEST} characters.", code="invalid_password", field=field)
    if any(unicodedata.category(letter) in _REFUSED_CATEGORIES for letter in normal):
        raise AccountError(
            "The password has control characters or invalid Unicode.", code="invalid_password", field=field
        )
    return normal


def hash_password(password: str) -> str:
    """The hash of a password that `check_password` has returned."""
    with _slots:
        return HASHER.hash(password)


def verify_password(stored: str | None, password: str) -> bool:
    """Whether the password is right. Takes equally long without a stored hash, and for a password that no account can have."""
    try:
        presented = check_password(password)
    except AccountError:
        stored, presented = None, "no account has this password"
    try:
        with _slots:
            return HASHER.verify(stored or _make_dummy(), presented) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


def needs_new_hash(stored: str) -> bool:
    """Whether a hash was made with other parameters than today's."""
    return HASHER.check_needs_rehash(stored)


_dummies: dict[PasswordHasher, str] = {}


def _make_dummy() -> str:
    """A hash that no password has, made with today's parameters. Made once."""
    if HASHER not in _dummies:
        _dummies[HASHER] = HASHER.hash("no account has this hash")
    return _dummies[HASHER]
