"""Passwords: the allowed characters, and argon2id hashes. Hashing takes up to 0.1 s and 32 MiB, so never do it on an
event loop.
"""

from __future__ import annotations

import threading
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tornado_gate.accounts.errors import AccountError

SHORTEST = 8
LONGEST = 1024
HASHER = PasswordHasher(time_cost=3, memory_cost=32 * 1024, parallelism=1)
"""More than the minimum that OWASP recommends (2025: 19 MiB, 2 passes). Hashes with other parameters are renewed at
sign-in.
"""
CONCURRENT_HASHES = 2
_slots = threading.BoundedSemaphore(CONCURRENT_HASHES)
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Cn"})
"""Control characters, halves of surrogate pairs, unassigned code points. Keyboards do not produce them in the same way
everywhere.
"""


def check_password(password: str, field: str = "password") -> str:
    """Return the password as it is hashed, in the normal form NFC, because keyboards spell letters differently. Raises
    AccountError.
    """
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
    """Return the hash of a password that `check_password` has returned."""
    with _slots:
        return HASHER.hash(password)


def verify_password(stored: str | None, password: str) -> bool:
    """Return whether the password is right. The time is the same without a stored hash, and for a password that no
    account can have.
    """
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
    """Return whether a hash was made with other parameters than the current ones."""
    return HASHER.check_needs_rehash(stored)


_dummies: dict[PasswordHasher, str] = {}


def _make_dummy() -> str:
    """Return a hash that no password has, with the current parameters. It is made once."""
    if HASHER not in _dummies:
        _dummies[HASHER] = HASHER.hash("no account has this hash")
    return _dummies[HASHER]
