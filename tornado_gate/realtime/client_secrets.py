"""Client secrets: short-lived keys with which web pages open realtime sessions.

A client secret may open realtime sessions with one model until it expires. It is stored as a hash, with the hash of the key that
created it: revoking that key also revokes its client secrets, and their sessions count as sessions of that key.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from tornado_gate.errors import InvalidField, RateLimited
from tornado_gate.storage.client_secrets import ClientSecretStore
from tornado_gate.types import ClientSecret, ClientSecretRequest

SECRET_PREFIX = "ek_"
LONGEST_SESSION = 128 * 1024
"""The longest session settings of a client secret, in bytes of JSON."""


class ClientSecretClaims(NamedTuple):
    """The key that created a client secret, its model and its session settings."""

    key_digest: bytes
    model: str
    session: Mapping[str, Any]


class ClientSecrets:
    """The store of client secrets.

    It creates at most `limit` unexpired ones for each account, and finds the claims of a secret.
    """

    def __init__(self, store: ClientSecretStore, limit: int) -> None:
        self._store = store
        self.limit = limit

    async def close(self) -> None:
        """Close the store, which the next call opens again."""
        await self._store.close()

    async def make(self, request: ClientSecretRequest, account: str, key_digest: bytes) -> ClientSecret:
        """Create a client secret for the key with this digest. Raises InvalidField, RateLimited."""
        value = SECRET_PREFIX + secrets.token_urlsafe(32)
        claims = orjson.dumps({"key": key_digest.hex(), "model": request.model, "session": dict(request.session)})
        if len(claims) > LONGEST_SESSION:
            message = (
                f"The session settings exceed the limit of {LONGEST_SESSION} bytes. Send the rest in 'session.update'."
            )
            raise InvalidField("session", message)
        expires = int(time.time()) + request.seconds
        if not await self._store.add(_hash_value(value), account, claims, expires, self.limit):
            message = f"This account has reached its limit of {self.limit} client secrets. Wait until one has expired."
            raise RateLimited(message, retry_after=30, code="too_many_client_secrets")
        return ClientSecret(value=value, expires_at=expires, model=request.model, session=request.session)

    async def find_claims(self, value: str) -> ClientSecretClaims | None:
        """Return the claims of a client secret; None if it does not exist or has expired. Raises Unavailable."""
        record = await self._store.find_secret(_hash_value(value))
        if record is None:
            return None
        claims = orjson.loads(record)
        return ClientSecretClaims(bytes.fromhex(claims["key"]), claims["model"], claims["session"])


def _hash_value(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
