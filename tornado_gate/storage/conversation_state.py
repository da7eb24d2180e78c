"""Conversation state: small values that later turns need, per account, limited in size and time.

Examples: a stored response that `previous_response_id` refers to; thinking that a client dropped and an upstream requires. Kept
in one SQLite file that all processes of a machine share; recent values are also cached in memory. When the file has MAX_BYTES,
the account that holds most loses the values that expire soonest (see `shares`). A failure of the file fails no request: it is
logged, and the value counts as missing.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from cachetools import LRUCache

from tornado_gate.storage.shares import evict
from tornado_gate.storage.sqlite import Schema, SqliteFile

log = logging.getLogger(__name__)

FILE_NAME = "memory.db"
LONGEST_VALUE = 8 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
CACHED_BYTES = 16 * 1024 * 1024
"""Memory of the cache, with everything that an entry takes: so it has at most CACHED_BYTES / ENTRY_BYTES entries, 32768."""
ENTRY_BYTES = 512
"""Memory of a cache entry besides its strings: its tuples, and its places in the three tables of an LRUCache; measured: 480."""
WRITES_BETWEEN_PRUNES = 200
BYTES_BETWEEN_PRUNES = 16 * 1024 * 1024
ROW_BYTES = 64
"""Space of a row in the file besides its strings."""

_SCHEMA = Schema(
    version=2,
    statements=(
        "CREATE TABLE IF NOT EXISTS memory (account TEXT, name TEXT, value BLOB, bytes INTEGER, expires REAL,"
        " PRIMARY KEY (account, name)) WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS memory_expires ON memory (expires)",
        # answers how much each account holds, and what it loses first, without reading the values
        "CREATE INDEX IF NOT EXISTS memory_held ON memory (account, expires, name, bytes)",
    ),
)


class MemoryFileError(Exception):
    """The file cannot be used; the message says why and what to do."""


class MemoryStore:
    """The SQLite file. Synchronous: call it from a thread. Raises MemoryFileError."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, MemoryFileError)
        self._writes = self._written_bytes = 0
        self._made = False

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        self._file.close()

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
        rows = [
            (account, name, value, len(value) + 2 * (len(account) + len(name)) + ROW_BYTES, expires)
            for name, value in values.items()
        ]
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?)", rows)
            self._writes += 1
            self._written_bytes += sum(row[3] for row in rows)
            if self._writes % WRITES_BETWEEN_PRUNES == 1 or self._written_bytes > BYTES_BETWEEN_PRUNES:
                self._written_bytes = 0
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

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Delete expired values, then those of the accounts that hold most, until the rest fits."""
        connection.execute("DELETE FROM memory WHERE expires <= ?", (time.time(),))
        held = dict(connection.execute("SELECT account, SUM(bytes) FROM memory GROUP BY account").fetchall())

        def list_items(account: str) -> Iterator[tuple[int, tuple[str, str]]]:
            select = "SELECT bytes, name FROM memory WHERE account = ? ORDER BY expires"
            for size, name in connection.execute(select, (account,)).fetchall():
                yield size, (account, name)

        def remove(row: tuple[str, str]) -> bool:
            connection.execute("DELETE FROM memory WHERE account = ? AND name = ?", row)
            return True

        evict(sum(held.values()) - MAX_BYTES, held, list_items, remove)


class _Cached(NamedTuple):
    """A value in the cache; `size` is the memory that its entry takes."""

    expires: float
    value: bytes
    size: int


class SharedMemory:
    """The async interface; one per process. `get_account_memory` returns the part of one account."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._cache: LRUCache[tuple[str, str], _Cached] = LRUCache(CACHED_BYTES, lambda cached: cached.size)

    def close(self) -> None:
        """Close the file, which the next call opens again. Blocks on the disk."""
        self._store.close()

    def get_account_memory(self, account: str) -> AccountMemory:
        return AccountMemory(self, account)

    async def get(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for name in names:
            cached = self._cache.get((account, name))
            if cached is not None and cached.expires > time.time():
                found[name] = cached.value
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
            self._cache_value(account, name, value, expires)
        try:
            await asyncio.to_thread(self._store.put, account, raw, expires)
        except MemoryFileError as error:
            log.warning("could not write conversation state: %s", error)

    def _cache_value(self, account: str, name: str, value: bytes, expires: float) -> None:
        copied = bytes(memoryview(value))  # orjson's own bytes object occupies 4 KB, however short it is
        size = sum(map(sys.getsizeof, (account, name, copied))) + ENTRY_BYTES
        if size <= self._cache.maxsize:
            self._cache[account, name] = _Cached(expires, copied, size)
        else:
            self._cache.pop((account, name), None)

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
