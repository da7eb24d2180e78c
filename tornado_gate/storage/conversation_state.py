"""Conversation state: small values that later turns need, per account, limited in size and time.

Examples: a stored response that `previous_response_id` refers to; thinking that a client dropped and an upstream
requires. The values are in one SQLite file that all processes of a machine share; recent values are also cached in
memory. When the file has MAX_BYTES, the largest account loses the values that expire soonest (see `shares`). A failure
of the file fails no request: it is logged, and the value counts as missing.

A group of values, such as a conversation with its items, has a head and members, whose names begin with the name of the
head and a colon. It is read and extended as a whole. It is not cached, because processes change it. It expires and is
evicted from its head on, so that no group loses a part. If a group cannot be read or written, the request fails.

With `state: {store: database}` all nodes share the values in PostgreSQL (`tornado_gate.database.state_values`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson
from cachetools import LRUCache

from tornado_gate.account_shares import evict
from tornado_gate.codec.large_json import exceeds
from tornado_gate.errors import Unavailable
from tornado_gate.storage.sqlite import Schema, SqliteFile
from tornado_gate.types import ValueGroup

log = logging.getLogger(__name__)

T = TypeVar("T")

FILE_NAME = "memory.db"
LONGEST_VALUE = 8 * 1024 * 1024
MAX_BYTES = 512 * 1024 * 1024
CACHED_BYTES = 16 * 1024 * 1024
"""Memory of the cache, including the overhead of its entries. So it has at most CACHED_BYTES / ENTRY_BYTES entries,
32768.
"""
ENTRY_BYTES = 512
"""Overhead of a cache entry besides its strings: its tuples, and its slots in the three tables of an LRUCache;
measured: 480.
"""
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
        # returns the bytes of each account, and the values that it loses first, without reading the values
        "CREATE INDEX IF NOT EXISTS memory_held ON memory (account, expires, name, bytes)",
    ),
)


_IN_GROUP = "account = ? AND (name = ? OR (name > ? AND name < ?))"
"""A group: the value with the name `head`, and the values whose names begin with it and a colon (the character before
";").
"""


class MemoryFileError(Exception):
    """The file cannot be used. The message names the cause and the remedy."""


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
        """Return the values of these names that exist and have not expired."""
        self._make_file()
        values: dict[str, bytes] = {}
        with self._file.use_connection() as connection:
            for name in names:
                row = connection.execute(
                    "SELECT value FROM memory WHERE account = ? AND name = ? AND expires > ?",
                    (account, name, time.time()),
                ).fetchone()
                if row is not None:
                    values[name] = row[0]
        return values

    def put(self, account: str, values: Mapping[str, bytes], expires: float) -> None:
        """Store values until `expires` (Unix seconds); existing values of the same names are replaced."""
        self._make_file()
        with self._file.transaction() as connection:
            self._insert_values(connection, account, values, expires)

    def _insert_values(
        self, connection: sqlite3.Connection, account: str, values: Mapping[str, bytes], expires: float
    ) -> None:
        rows = [
            (account, name, value, len(value) + 2 * (len(account) + len(name)) + ROW_BYTES, expires)
            for name, value in values.items()
        ]
        connection.executemany("INSERT OR REPLACE INTO memory VALUES (?, ?, ?, ?, ?)", rows)
        self._writes += 1
        self._written_bytes += sum(row[3] for row in rows)
        if self._writes % WRITES_BETWEEN_PRUNES == 1 or self._written_bytes > BYTES_BETWEEN_PRUNES:
            self._written_bytes = 0
            self._prune_values(connection)

    def read_group(self, account: str, head: str) -> tuple[dict[str, bytes], int]:
        """Return the values of a group that have not expired, by name, and their bytes in the file."""
        self._make_file()
        select = f"SELECT name, value, bytes FROM memory WHERE {_IN_GROUP} AND expires > ? ORDER BY name"
        with self._file.use_connection() as connection:
            rows = connection.execute(select, (*_name_group(account, head), time.time())).fetchall()
        return {name: value for name, value, _ in rows}, sum(row[2] for row in rows)

    def extend_group(self, account: str, head: str, values: Mapping[str, bytes], expires: float, new: bool) -> bool:
        """Store values of a group in one transaction. The whole group then expires at `expires`.

        Returns False for a group without its head, unless the group is `new`. Then no value is stored.
        """
        self._make_file()
        exists = "SELECT 1 FROM memory WHERE account = ? AND name = ? AND expires > ?"
        with self._file.transaction() as connection:
            if not new and connection.execute(exists, (account, head, time.time())).fetchone() is None:
                return False
            connection.execute(
                f"UPDATE memory SET expires = ? WHERE {_IN_GROUP}", (expires, *_name_group(account, head))
            )
            self._insert_values(connection, account, values, expires)
            return True

    def delete_group(self, account: str, head: str) -> int:
        """Delete a group. Returns the number of its values."""
        self._make_file()
        with self._file.transaction() as connection:
            done = connection.execute(f"DELETE FROM memory WHERE {_IN_GROUP}", _name_group(account, head))
            return done.rowcount

    def delete(self, account: str, name: str) -> bool:
        """Delete a value. Returns False if it does not exist."""
        self._make_file()
        with self._file.transaction() as connection:
            done = connection.execute("DELETE FROM memory WHERE account = ? AND name = ?", (account, name))
            return bool(done.rowcount)

    def _make_file(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True

    def _prune_values(self, connection: sqlite3.Connection) -> None:
        """Delete expired values, then values of the largest accounts, until the rest fits."""
        connection.execute("DELETE FROM memory WHERE expires <= ?", (time.time(),))
        held = dict(connection.execute("SELECT account, SUM(bytes) FROM memory GROUP BY account").fetchall())

        def list_items(account: str) -> Iterator[tuple[int, tuple[str, str]]]:
            select = "SELECT bytes, name FROM memory WHERE account = ? ORDER BY expires, name"
            for size, name in connection.execute(select, (account,)).fetchall():
                yield size, (account, name)

        def remove(row: tuple[str, str]) -> bool:
            connection.execute("DELETE FROM memory WHERE account = ? AND name = ?", row)
            return True

        evict(sum(held.values()) - MAX_BYTES, held, list_items, remove)


def _name_group(account: str, head: str) -> tuple[str, str, str, str]:
    """Return the parameters of _IN_GROUP. The names of a group's members follow its head and a colon."""
    return account, head, f"{head}:", f"{head};"


class _Cached(NamedTuple):
    """A value in the cache; `size` is the memory that its entry takes."""

    expires: float
    value: bytes
    size: int


class StateStore(Protocol):
    """The values of all accounts; one object per process. The methods are those of `call.memory`, with the account.

    The methods of groups raise Unavailable when the store cannot be used.
    """

    async def close(self) -> None:
        """Close the file or the connections. The next call opens them again."""

    def get_account_memory(self, account: str) -> AccountMemory:
        """Return the part of one account."""

    async def get(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names. Raises Unavailable if they are in the database and it is away."""

    async def find(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names; none if the store cannot be used."""

    async def put(self, account: str, values: Mapping[str, Any], seconds: float) -> None:
        """Store values. A failure of the store is logged, and fails no request."""

    async def delete(self, account: str, name: str) -> bool:
        """Delete a value. Returns False if it does not exist."""

    async def read_group(self, account: str, head: str) -> ValueGroup:
        """Return a group of values, as all processes have stored it."""

    async def extend_group(self, account: str, head: str, values: Mapping[str, Any], seconds: float, new: bool) -> bool:
        """Store values of a group. Returns False for a group without its head, unless it is `new`."""

    async def delete_group(self, account: str, head: str) -> bool:
        """Delete a group. Returns False if it does not exist."""


def encode_values(values: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the values as JSON, without those that are longer than LONGEST_VALUE."""
    raw = {name: orjson.dumps(value) for name, value in values.items() if not exceeds(value, LONGEST_VALUE)}
    return {name: value for name, value in raw.items() if len(value) <= LONGEST_VALUE}


class SharedMemory:
    """The `StateStore` of one machine: the file, and a cache of this process."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._cache: LRUCache[tuple[str, str], _Cached] = LRUCache(CACHED_BYTES, lambda cached: cached.size)

    async def close(self) -> None:
        await asyncio.to_thread(self._store.close)

    def get_account_memory(self, account: str) -> AccountMemory:
        return AccountMemory(self, account)

    async def get(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        missing: list[str] = []
        for name in names:
            cached = self._cache.get((account, name))
            if cached is not None and cached.expires > time.time():
                values[name] = orjson.loads(cached.value)
            else:
                missing.append(name)
        if missing:
            try:
                values |= await asyncio.to_thread(self._read_file, account, missing)
            except MemoryFileError as error:
                log.warning("could not read conversation state: %s", error)
        return values

    def _read_file(self, account: str, names: Iterable[str]) -> dict[str, Any]:
        """Return parsed values: those of a long conversation would hold the event loop."""
        return {name: orjson.loads(value) for name, value in self._store.get(account, names).items()}

    find = get

    async def put(self, account: str, values: Mapping[str, Any], seconds: float) -> None:
        raw = encode_values(values)
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

    async def read_group(self, account: str, head: str) -> ValueGroup:
        return await self._run_in_thread(self._read_group, account, head)

    def _read_group(self, account: str, head: str) -> ValueGroup:
        raw, size = self._store.read_group(account, head)
        return ValueGroup({name: orjson.loads(value) for name, value in raw.items()}, size)

    async def extend_group(self, account: str, head: str, values: Mapping[str, Any], seconds: float, new: bool) -> bool:
        raw = {name: orjson.dumps(value) for name, value in values.items()}
        return await self._run_in_thread(self._store.extend_group, account, head, raw, time.time() + seconds, new)

    async def delete_group(self, account: str, head: str) -> bool:
        return bool(await self._run_in_thread(self._store.delete_group, account, head))

    async def _run_in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `work`, which runs in a thread. Raises Unavailable when the file cannot be used."""
        try:
            return await asyncio.to_thread(work, *arguments)
        except MemoryFileError as error:
            log.warning("could not use conversation state: %s", error)
            message = "The gateway's store of conversations cannot be used at the moment. Retry later."
            raise Unavailable(message, code="storage_unavailable") from error

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

    def __init__(self, memory: StateStore, account: str) -> None:
        self._memory = memory
        self._account = account

    async def get(self, name: str) -> Any | None:
        """Return the value, or None if it is missing, expired or evicted."""
        return (await self._memory.get(self._account, [name])).get(name)

    async def get_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names."""
        return await self._memory.get(self._account, names)

    async def find_many(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the existing values of these names; none if the store cannot be used."""
        return await self._memory.find(self._account, names)

    async def put(self, name: str, value: Any, seconds: float) -> None:
        """Store a JSON value for `seconds`; a value above 8 MiB is not stored."""
        await self._memory.put(self._account, {name: value}, seconds)

    async def put_many(self, values: Mapping[str, Any], seconds: float) -> None:
        await self._memory.put(self._account, values, seconds)

    async def delete(self, name: str) -> bool:
        """Delete a value. Returns False if it does not exist."""
        return await self._memory.delete(self._account, name)

    async def read_group(self, head: str) -> ValueGroup:
        """Return a group of values, as all processes have stored it."""
        return await self._memory.read_group(self._account, head)

    async def extend_group(self, head: str, values: Mapping[str, Any], seconds: float, *, new: bool = False) -> bool:
        """Store values of a group. Returns False for a group without its head, unless it is `new`."""
        return await self._memory.extend_group(self._account, head, values, seconds, new)

    async def delete_group(self, head: str) -> bool:
        """Delete a group. Returns False if it does not exist."""
        return await self._memory.delete_group(self._account, head)
