"""Client secrets of realtime sessions. The hash of each value is kept until it expires. Their number per account is
limited.

The secrets are in one SQLite file that all processes of a machine share, or with `state: {store: database}` in PostgreSQL
(`tornado_gate.database.state_secrets`). No secret is evicted: an account at its limit
gets no further one, and cannot displace another account's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tornado_gate.errors import Unavailable
from tornado_gate.storage.sqlite import Schema, SqliteFile

log = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "client-secrets.db"

_SCHEMA = Schema(
    version=1,
    statements=(
        "CREATE TABLE IF NOT EXISTS client_secrets (name TEXT PRIMARY KEY, account TEXT, claims BLOB, expires REAL)"
        " WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS client_secrets_held ON client_secrets (account)",
        "CREATE INDEX IF NOT EXISTS client_secrets_expires ON client_secrets (expires)",
    ),
)


class ClientSecretFileError(Exception):
    """The file cannot be used. The message names the cause and the remedy."""


class ClientSecretStore(Protocol):
    """The claims of secrets by the hashes of their values. The methods raise Unavailable when the store cannot be used."""

    async def close(self) -> None:
        """Close the file or the connections. The next call opens them again."""

    async def add(self, name: str, account: str, claims: bytes, expires: float, limit: int) -> bool:
        """Store the claims of a secret until `expires` (Unix seconds). Returns False if the account has `limit` secrets."""

    async def find_secret(self, name: str) -> bytes | None:
        """Return the claims of a secret; None if it does not exist or has expired."""


class ClientSecretFile:
    """The `ClientSecretStore` of one machine: an SQLite file."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, ClientSecretFileError)
        self._made = False

    async def close(self) -> None:
        await asyncio.to_thread(self._file.close)

    async def add(self, name: str, account: str, claims: bytes, expires: float, limit: int) -> bool:
        return await self._run_in_thread(self._add, name, account, claims, expires, limit)

    async def find_secret(self, name: str) -> bytes | None:
        return await self._run_in_thread(self._find_secret, name)

    def _add(self, name: str, account: str, claims: bytes, expires: float, limit: int) -> bool:
        self._make_file()
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM client_secrets WHERE expires <= ?", (time.time(),))
            count = "SELECT COUNT(*) FROM client_secrets WHERE account = ?"
            (held,) = connection.execute(count, (account,)).fetchone()
            if held >= limit:
                return False
            connection.execute("INSERT INTO client_secrets VALUES (?, ?, ?, ?)", (name, account, claims, expires))
        return True

    def _find_secret(self, name: str) -> bytes | None:
        self._make_file()
        with self._file.use_connection() as connection:
            select = "SELECT claims FROM client_secrets WHERE name = ? AND expires > ?"
            row = connection.execute(select, (name, time.time())).fetchone()
        return None if row is None else row[0]

    def _make_file(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True

    async def _run_in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        try:
            return await asyncio.to_thread(work, *arguments)
        except ClientSecretFileError as error:
            log.error("client secrets cannot be stored or checked: %s", error)
            message = "Client secrets are unavailable: the gateway cannot use its storage. Try again later."
            raise Unavailable(message) from error
