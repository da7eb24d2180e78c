"""What one turn of a conversation must remember for the next: small values, by account, bounded and expiring.

A stored response that `previous_response_id` names; the thinking that a client dropped and an upstream insists on. Kept in
one SQLite file, which all processes of a machine share, with the newest values in memory too. Losing it loses comfort, never
a request: a file that fails is logged, and what was asked for is not there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from cachetools import LRUCache

from tornado_gate.storage.sqlite import Schema, SqliteFile

log = logging.getLogger(__name__)

FILE_NAME = "memory.db"
LONGEST_VALUE = 8 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
CACHED_BYTES = 16 * 1024 * 1024
WRITES_BETWEEN_PRUNES = 200

_SCHEMA = Schema(
    version=1,
    statements=(
        "CREATE TABLE IF NOT EXISTS memory (account TEXT, name TEXT, value BLOB, bytes INTEGER, expires REAL,"
        " PRIMARY KEY (account, name)) WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS memory_expires ON memory (expires)",
    ),
)


class MemoryFileError(Exception):
    """The file cannot be used; the message says what to do."""


class MemoryStore:
    """The file. Synchronous: call it from a thread. Raises MemoryFileError."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, MemoryFileError)
        self._writes = 0
        self._made = False

    def get(self, account: str, names: Iterable[str]) -> dict[str, bytes]:
        """The values of those names that are there and have not expired."""
        self._make()
        found: dict[str, bytes] = {}
        with self._file.use_connection() as connection:
            for name in names:
                row = connection.execute(
                    "SELECT value FROM memory WHERE account = ? AND name = ? AND expires > ?",
                    (account, name, time.time()),
                ).fetchone()
                if row is not None:
                    found[name] = row[0]
        return found

    def put(self, account: str, values: Mapping[str, bytes], expires: float) -> None:
        """Keep values until `expires` (Unix seconds), in place of what had their names."""
        self._make()
        rows = [(account, name, value, len(value), expires) for name, value in values.items()]
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?)", rows)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_PRUNES == 1:
                self._prune(connection)

    def delete(self, account: str, name: str) -> bool:
        """Forget a value. False when it was not there."""
        self._make()
        with self._file.transaction() as connection:
            done = connection.execute("DELETE FROM memory WHERE account = ? AND name = ?", (account, name))
            return bool(done.rowcount)

    def _make(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True

    def _prune(self, connection: Any) -> None:
        """Expired values go first, then those that would expire soonest, until the rest fits."""
        connection.execute("DELETE FROM memory WHERE expires <= ?", (time.time(),))
        (total,) = connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM memory").fetchone()
        while total > MAX_BYTES:
            rows = connection.execute("SELECT account, name, bytes FROM memory ORDER BY expires LIMIT 500").fetchall()
            connection.executemany("DELETE FROM memory WHERE account = ? AND name = ?", [row[:2] for row in rows])
            total -= sum(row[2] for row in rows)


class SharedMemory:
    """The async side: one for each process. `of` gives the part that belongs to an account."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._cache: LRUCache[tuple[str, str], tuple[float, bytes]] = LRUCache(CACHED_BYTES, lambda kept: len(kept[1]))

    def get_account_memory(self, account: str) -> AccountMemory:
        return AccountMemory(self, account)

    async def get(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for name in names:
            cached = self._cache.get((account, name))
            if cached is not None and cached[0] > time.time():
                found[name] = cached[1]
            else:
                missing.append(name)
        if missing:
            try:
                found |= await asyncio.to_thread(self._store.get, account, missing)
            except MemoryFileError as error:
                log.warning("what was remembered cannot be read: %s", error)
        return {name: orjson.loads(value) for name, value in found.items()}

    async def put(self, account: str, values: Mapping[str, Any], seconds: float) -> None:
        raw = {name: orjson.dumps(value) for name, value in values.items()}
        raw = {name: value for name, value in raw.items() if len(value) <= LONGEST_VALUE}
        expires = time.time() + seconds
        for name, value in raw.items():
            self._cache[account, name] = expires, value
        try:
            await asyncio.to_thread(self._store.put, account, raw, expires)
        except MemoryFileError as error:
            log.warning("what should be remembered cannot be written: %s", error)

    async def delete(self, account: str, name: str) -> bool:
        self._cache.pop((account, name), None)
        try:
            return await asyncio.to_thread(self._store.delete, account, name)
        except MemoryFileError as error:
            log.warning("what was remembered cannot be forgotten: %s", error)
            return False


class AccountMemory:
    """What `call.memory` is: JSON values by name, seen by one account only."""

    __slots__ = ("_account", "_memory")

    def __init__(self, memory: SharedMemory, account: str) -> None:
        self._memory = memory
        self._account = account

    async def get(self, name: str) -> Any | None:
        """The value, or None when it is not there, has expired or was pushed out."""
        return (await self._memory.get(self._account, [name])).get(name)

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """The values of those names that are there."""
        return await self._memory.get(self._account, names)

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Keep a JSON value for `seconds`; one above 8 MiB is not kept."""
        await self._memory.put(self._account, {name: value}, seconds)

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        await self._memory.put(self._account, values, seconds)

    async def delete(self, name: str) -> bool:
        """Forget a value. False when it was not there."""
        return await self._memory.delete(self._account, name)
