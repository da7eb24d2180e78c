"""Open realtime sessions of this process, and client secrets: short-lived keys with which web pages open sessions.

A client secret may open realtime sessions with one model until it expires. It is stored as a hash, with the hash of the key that
created it: revoking that key also revokes its client secrets. The open sessions of each key are counted here.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tornado_gate.errors import RateLimited
from tornado_gate.storage.conversation_state import AccountMemory
from tornado_gate.types import Caller, ClientSecret, ClientSecretRequest

SECRET_PREFIX = "ek_"


class ClientSecretClaims(NamedTuple):
    """The key that created a client secret, its model and its session settings."""

    key_digest: bytes
    model: str
    session: Mapping[str, Any]


class ClientSecrets:
    """Creates client secrets and finds the claims of one."""

    def __init__(self, memory: AccountMemory) -> None:
        self._memory = memory

    async def make(self, request: ClientSecretRequest, key_digest: bytes) -> ClientSecret:
        """Create a client secret for the key with this digest."""
        value = SECRET_PREFIX + secrets.token_urlsafe(32)
        held = {"key": key_digest.hex(), "model": request.model, "session": dict(request.session)}
        await self._memory.put(_make_memory_name(value), held, request.seconds)
        expires = int(time.time()) + request.seconds
        return ClientSecret(value=value, expires_at=expires, model=request.model, session=request.session)

    async def find(self, value: str) -> ClientSecretClaims | None:
        """The claims of a client secret; None if it does not exist or has expired."""
        held = await self._memory.get(_make_memory_name(value))
        if not isinstance(held, dict):
            return None
        return ClientSecretClaims(bytes.fromhex(held["key"]), held["model"], held["session"])


def _make_memory_name(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()


class OpenSessions:
    """The open sessions of this process. `close_all` calls the `close` of each when the gateway shuts down."""

    def __init__(self) -> None:
        self._open: dict[object, Callable[[], None]] = {}
        self._of_key: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, session: object, caller: Caller, most: int, close: Callable[[], None]) -> None:
        """Count a session. Raises RateLimited when the key has `most` sessions open."""
        if self._of_key[caller.id] >= most:
            message = f"This API key has reached its limit of {most} open realtime sessions. Close one, or retry later."
            raise RateLimited(message, retry_after=10, code="too_many_sessions")
        self._open[session] = close
        self._of_key[caller.id] += 1

    def remove(self, session: object, caller: Caller) -> None:
        """Remove a session that has ended."""
        if self._open.pop(session, None) is not None:
            self._of_key[caller.id] -= 1
            if not self._of_key[caller.id]:
                del self._of_key[caller.id]

    def close_all(self) -> None:
        """Call the `close` of every open session."""
        for close in list(self._open.values()):
            close()
