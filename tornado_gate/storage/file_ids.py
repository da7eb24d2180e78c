"""Ids of stored files: 96 random bits, 32 bits from which only the gateway can derive the account, and an extension.

So a scan of the folder yields the bytes of each account without reading metadata. Callers pass addresses on, and these
do not reveal which files belong to one account.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

NONCE_BYTES, OWNER_BYTES = 12, 4


class FileIds:
    """A maker and reader of ids. `secret` encrypts the owners."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, owner: str, extension: str) -> str:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return f"{nonce.hex()}{self._encrypt_owner(nonce, owner)}.{extension}"

    def read_owner(self, file_id: str) -> str:
        """Return the owner of a file; an arbitrary owner for an id that was made with another secret."""
        split, end = 2 * NONCE_BYTES, 2 * (NONCE_BYTES + OWNER_BYTES)
        return self._encrypt_owner(bytes.fromhex(file_id[:split]), file_id[split:end])

    def _encrypt_owner(self, nonce: bytes, owner: str) -> str:
        """Encrypt an owner, or decrypt it."""
        mask = hmac.digest(self._secret, b"owner\n" + nonce, "sha256")[:OWNER_BYTES]
        return (int.from_bytes(mask) ^ int(owner, 16)).to_bytes(OWNER_BYTES).hex()


def digest_account(account: str) -> str:
    """Return the owner of an account's files, 8 hex digits. Two accounts may have the same owner, which is rare: they
    use one share.
    """
    return hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()[: 2 * OWNER_BYTES]
