"""Conversation state: small values that later turns need, per account, limited in size and time.

Examples: a stored response that `previous_response_id` refers to; thinking that a client dropped and an upstream requires. Kept
in one SQLite file that all processes of a machine share; recent values are also cached in memory. A failure of the file fails no
request: it is logged, and the value counts as missing.
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
    """The file cannot be used; the message says why and what to do."""


class MemoryStore:
    """The SQLite file. Synchronous: call it from a thread. Raises MemoryFileError."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, MemoryFileError)
        self._writes = 0
        self._made = False

    def get(self, account: str, names: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those names that exist and have not expired."""
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
        """Store values until `expires` (Unix seconds); existing values of the same names are replaced."""
        self._make()
        rows = [(account, name, value, len(value), expires) for name, value in values.items()]
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?)", rows)
            self._writes += 1
            if self._writes % WRITES_BETWEEN_PRUNES == 1:
                self._prune(connection)

    def delete(self, account: str, name: str) -> bool:
        """Delete a value. Returns False if it does not exist."""
        self._make()
        with self._file.transaction() as connection:
            done = connection.execute("DELETE FROM memory WHERE account = ? AND name = ?", (account, name))
            return bool(done.rowcount)

    def _make(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True

    def _prune(self, connection: Any) -> None:
        """Delete expired values, then those that expire soonest, until the rest fits."""
        connection.execute("DELETE FROM memory WHERE expires <= ?", (time.time(),))
        (total,) = connection.execute("SELECT COALESCE(SUM(bytes), 0) FROM memory").fetchone()
        while total > MAX_BYTES:
            rows = connection.execute("SELECT account, name, bytes FROM memory ORDER BY expires LIMIT 500").fetchall()
            connection.executemany("DELETE FROM memory WHERE account = ? AND name = ?", [row[:2] for row in rows])
            total -= sum(row[2] for row in rows)


class SharedMemory:
    """The async interface; one per process. `get_account_memory` returns the part of one account."""

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
                log.warning("could not read conversation state: %s", error)
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
            log.warning("could not write conversation state: %s", error)

    async def delete(self, account: str, name: str) -> bool:
        self._cache.pop((account, name), None)
        try:
            return await asyncio.to_thread(self._store.delete, account, name)
        except MemoryFileError as error:
            log.warning("could not delete conversation state: %s", error)
            return False


class AccountMemory:
    """The type of `call.memory`: JSON values by name, visible to one account only."""

    __slots__ = ("_account", "_memory")

    def __init__(self, memory: SharedMemory, account: str) -> None:
        self._memory = memory
        self._account = account

    async def get(self, name: str) -> Any | None:
        """Return the value, or None if it is missing, expired or evicted."""
        return (await self._memory.get(self._account, [name])).get(name)

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of those names."""
        return await self._memory.get(self._account, names)

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Store a JSON value for `seconds`; a value above 8 MiB is not stored."""
        await self._memory.put(self._account, {name: value}, seconds)

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        await self._memory.put(self._account, values, seconds)

    async def delete(self, name: str) -> bool:
        """Delete a value. Returns False if it does not exist."""
        return await self._memory.delete(self._account, name)
