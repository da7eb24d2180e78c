"""API keys created by command: hashed, in an SQLite file in the data directory; and `KeyRing`, which looks them up.

A key is 256 random bits, so its SHA-256 is stored and no slow hash is needed. Every change increments `revision`, which each
process polls: a revocation takes effect everywhere within a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cachetools import LRUCache, TTLCache

from tornado_gate.config.model import KeyEntry, Role
from tornado_gate.errors import Unavailable
from tornado_gate.storage.private import KEY_FILE
from tornado_gate.storage.sqlite import Schema, SqliteFile
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

FILE_NAME = KEY_FILE
LONGEST_NAME = 100
PREFIX_CHARACTERS = 10
CACHED_KEYS = 10_000
UNKNOWN_KEY_SECONDS = 2.0
POLL_SECONDS = 0.4
TOUCH_SECONDS = 10.0

_COLUMNS = (
    "id",
    "name",
    "account",
    "digest",
    "prefix",
    "models",
    "operations",
    "created",
    "expires",
    "revoked",
    "last_used",
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM api_keys"
_SCHEMA = Schema(
    version=1,
    statements=(
        """CREATE TABLE IF NOT EXISTS api_keys (
            id TEXT PRIMARY KEY, name TEXT NOT NULL, account TEXT NOT NULL, digest BLOB NOT NULL UNIQUE,
            prefix TEXT NOT NULL, models TEXT NOT NULL, operations TEXT NOT NULL,
            created REAL NOT NULL, expires REAL, revoked REAL, last_used REAL)""",
        "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value)",
        "INSERT OR IGNORE INTO meta VALUES ('revision', 0)",
    ),
)


class KeyStoreError(Exception):
    """The key file cannot be used. The message names the file, the cause and what to do."""


def check_name(name: str) -> None:
    """Raise ValueError, with a message for the user, if `name` cannot be the name or the account of a key."""
    if not name.strip() or len(name) > LONGEST_NAME:
        raise ValueError(f"must have 1 to {LONGEST_NAME} characters, not only spaces")
    if not name.isprintable():
        raise ValueError("must not contain control characters or text that is not UTF-8")


def digest_key(key: str) -> bytes:
    """Return the stored hash of a key. Never raises, whatever a caller sent."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


_DURATION = re.compile(r"([0-9]{1,6})([hdw])", re.IGNORECASE)
_UNIT_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def parse_duration(text: str, now: float | None = None) -> float:
    """Return the Unix time of ``30d``, ``12h``, ``2w`` from now, or of ``2027-01-01`` (00:00 UTC).

    Raises ValueError with a message for the user.
    """
    now = time.time() if now is None else now
    if (match := _DURATION.fullmatch(text.strip())) is not None:
        moment = now + int(match[1]) * _UNIT_SECONDS[match[2].lower()]
    else:
        try:
            date = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError(
                f"'{text}' is neither a duration such as 30d, 12h or 2w nor a date such as 2027-01-01"
            ) from None
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if moment <= now:
        raise ValueError(f"'{text}' is not in the future; use a later time")
    return moment


class StoredKey(Value, frozen=True, kw_only=True):
    """A stored key. Times are Unix seconds; empty `models` and `operations` mean all."""

    id: str
    name: str
    account: str
    digest: bytes
    prefix: str
    models: tuple[str, ...]
    operations: tuple[str, ...]
    created: float
    expires: float | None
    revoked: float | None
    last_used: float | None

    hidden_fields = frozenset({"digest"})

    def is_active(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or self.expires > now)


def _parse_stored_key(row: Sequence[Any]) -> StoredKey:
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in ("models", "operations"):
        values[name] = tuple(json.loads(values[name]))
    return StoredKey(**values)


class KeyStore:
    """The key file. Synchronous: call it from a thread if an event loop runs. Safe for threads, processes and forks.

    Every method raises KeyStoreError if the file is missing, damaged, locked for too long, or not writable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._file = SqliteFile(self.path, _SCHEMA, KeyStoreError)

    @classmethod
    def open(cls, data_dir: Path) -> KeyStore:
        """Open the store in `data_dir`; creates both if they are missing, readable by their owner only."""
        store = cls(data_dir / FILE_NAME)
        store._file.make()
        return store

    @classmethod
    def open_existing(cls, data_dir: Path) -> KeyStore | None:
        """Open the store in `data_dir`; None if there is none. Creates nothing."""
        return cls.open(data_dir) if os.path.exists(data_dir / FILE_NAME) else None

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        self._file.close()

    def create(
        self,
        name: str,
        *,
        account: str | None = None,
        models: Iterable[str] = (),
        operations: Iterable[str] = (),
        expires: float | None = None,
    ) -> tuple[str, StoredKey]:
        """Create a key; return its text, which is not stored, and the stored record.

        Raises ValueError for an invalid name or account.
        """
        identity = "key_" + secrets.token_hex(6)
        check_name(name)
        check_name(account or identity)
        text = "tg-" + secrets.token_urlsafe(32)
        stored = StoredKey(
            id=identity,
            name=name,
            account=account or identity,
            digest=digest_key(text),
            prefix=text[:PREFIX_CHARACTERS],
            models=tuple(models),
            operations=tuple(operations),
            created=time.time(),
            expires=expires,
            revoked=None,
            last_used=None,
        )
        values = [getattr(stored, column) for column in _COLUMNS]
        row = [json.dumps(value) if isinstance(value, tuple) else value for value in values]
        with self._begin_change() as connection:
            connection.execute(f"INSERT INTO api_keys VALUES ({', '.join('?' * len(row))})", row)
        return text, stored

    def list(self) -> tuple[StoredKey, ...]:
        """Return all keys, also revoked and expired ones, oldest first."""
        with self._file.use_connection() as connection:
            rows = connection.execute(f"{_SELECT} ORDER BY created, id").fetchall()
            return tuple(_parse_stored_key(row) for row in rows)

    def find(self, wanted: bytes) -> StoredKey | None:
        """Return the key with this digest; None if it is unknown, revoked or expired."""
        with self._file.use_connection() as connection:
            row = connection.execute(f"{_SELECT} WHERE digest = ?", (wanted,)).fetchone()
            key = None if row is None else _parse_stored_key(row)
        if key is None or not hmac.compare_digest(key.digest, wanted) or not key.is_active(time.time()):
            return None
        return key

    def revoke(self, identity: str) -> bool:
        """Revoke the key with this id. Returns False if it does not exist or was already revoked."""
        with self._begin_change() as connection:
            update = "UPDATE api_keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
            return bool(connection.execute(update, (time.time(), identity)).rowcount)

    def revision(self) -> int:
        """Return a number that changes with every change of the keys or their permissions."""
        with self._file.use_connection() as connection:
            (revision,) = connection.execute("SELECT value FROM meta WHERE name = 'revision'").fetchone()
            return int(revision)

    def has_keys(self) -> bool:
        """Whether any key was ever created, also revoked and expired ones."""
        with self._file.use_connection() as connection:
            return connection.execute("SELECT 1 FROM api_keys LIMIT 1").fetchone() is not None

    def touch(self, times: Mapping[str, float]) -> None:
        """Record when keys were last used, by id. Does not change the revision, as permissions stay the same."""
        update = "UPDATE api_keys SET last_used = MAX(COALESCE(last_used, 0), ?) WHERE id = ?"
        with self._file.transaction() as connection:
            connection.executemany(update, [(moment, identity) for identity, moment in times.items()])

    @contextmanager
    def _begin_change(self) -> Iterator[sqlite3.Connection]:
        """A transaction that increments the revision."""
        with self._file.transaction() as connection:
            yield connection
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'revision'")


class KeyRecord(Value, frozen=True, kw_only=True):
    """The permissions of a presented key. `id` is safe to log; limits are None if the key defines none."""

    id: str
    account: str
    name: str
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    expires: float | None = None
    role: Role = "member"
    source: Literal["conf", "store"] = "store"


def _make_conf_record(entry: KeyEntry) -> KeyRecord:
    return KeyRecord(
        id=f"conf:{entry.name}",
        account=entry.account,
        name=entry.name,
        models=tuple(entry.models),
        operations=tuple(entry.operations),
        requests_per_minute=entry.requests_per_minute,
        tokens_per_minute=entry.tokens_per_minute,
        role=entry.role,
        source="conf",
    )


def _make_store_record(key: StoredKey) -> KeyRecord:
    return KeyRecord(
        id=key.id,
        account=key.account,
        name=key.name,
        models=key.models,
        operations=key.operations,
        expires=key.expires,
    )


class KeyRing:
    """Keys of the configuration and of the store, for the event loop. Lookups are cached until the store's revision changes.

    `conf` maps digests to entries. While the store cannot be read, keys of the configuration and cached keys remain valid, and
    the failure is logged once. `changes` counts the changes of keys that were noticed; the functions in `on_change` are called
    after each, within a second of it: any key may then have other permissions, or none. That a key expires is no change.
    """

    def __init__(self, store: KeyStore, conf: Mapping[bytes, KeyEntry], *, poll_seconds: float = POLL_SECONDS) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._conf: dict[bytes, KeyRecord] = {}
        self._found: LRUCache[bytes, KeyRecord] = LRUCache(CACHED_KEYS)
        self._unknown: TTLCache[bytes, None] = TTLCache(CACHED_KEYS, UNKNOWN_KEY_SECONDS)
        self._used: dict[str, float] = {}
        self._revision: int | None = None
        self.changes = 0
        self.on_change: list[Callable[[], None]] = []
        self._lost = False
        self._task: asyncio.Task[None] | None = None
        self.replace(conf)

    def replace(self, conf: Mapping[bytes, KeyEntry]) -> None:
        """Replace the keys of the configuration. An empty key is ignored."""
        self._conf = {digest: _make_conf_record(entry) for digest, entry in conf.items() if entry.key}
        self._note_change()

    async def start(self) -> None:
        """Read the revision and start polling it."""
        await self.check()
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="watch the revision of keys")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._write_last_used()
        await asyncio.to_thread(self._store.close)

    def find_expiry(self, wanted: bytes) -> float | None:
        """When the cached key with this digest expires, in Unix seconds; None for never."""
        record = self._conf.get(wanted) or self._found.get(wanted)
        return None if record is None else record.expires

    async def find(self, key: str) -> KeyRecord | None:
        """Return the permissions of a key; None if it is unknown, revoked or expired.

        Raises Unavailable if the key is not cached and the store cannot be read.
        """
        return await self.find_by_digest(digest_key(key)) if key else None

    async def find_by_digest(self, wanted: bytes) -> KeyRecord | None:
        """As `find`, by the digest of a key."""
        record = self.find_cached(wanted)
        if record is not None or wanted in self._found or wanted in self._unknown:
            return record
        record = await self._find_in_store(wanted)
        return None if record is None else self._mark_used(record)

    def find_cached(self, wanted: bytes) -> KeyRecord | None:
        """As `find_by_digest`, from the cache only: None if the store must be read, or the key has expired."""
        record = self._conf.get(wanted)
        if record is not None:
            return record
        record = self._found.get(wanted)
        if record is None:
            return None
        return self._mark_used(record)

    def _mark_used(self, record: KeyRecord) -> KeyRecord | None:
        """Record the use of a key and return it; None if it has expired."""
        now = time.time()
        if record.expires is not None and record.expires <= now:
            return None
        self._used[record.id] = now
        return record

    async def _find_in_store(self, wanted: bytes) -> KeyRecord | None:
        changes = self.changes
        try:
            key = await asyncio.to_thread(self._store.find, wanted)
        except KeyStoreError as error:
            self._log_store_failure(error)
            raise Unavailable("API keys cannot be checked: the key store is unavailable. Try again later.") from error
        if changes == self.changes:  # otherwise the result may be older than a revocation
            if key is None:
                self._unknown[wanted] = None
            else:
                self._found[wanted] = _make_store_record(key)
        return None if key is None else _make_store_record(key)

    async def check(self) -> None:
        """Check for changes now; a change clears the cache. Never raises."""
        try:
            revision = await asyncio.to_thread(self._store.revision)
        except KeyStoreError as error:
            self._log_store_failure(error)
            return
        was_lost, self._lost = self._lost, False
        if was_lost:
            log.warning("the key store is readable again: %s", self._store.path)
        if revision != self._revision or was_lost:
            self._revision = revision
            self._found.clear()
            self._unknown.clear()
            self._note_change()

    def _note_change(self) -> None:
        self.changes += 1
        for notify in self.on_change:
            notify()

    def _log_store_failure(self, error: KeyStoreError) -> None:
        if not self._lost:
            log.error(
                "cannot read the key store; only cached keys and keys of the configuration are accepted: %s", error
            )
        self._lost = True

    async def _watch(self) -> None:
        next_write = time.monotonic() + TOUCH_SECONDS
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self.check()
                if time.monotonic() >= next_write:
                    next_write = time.monotonic() + TOUCH_SECONDS
                    await self._write_last_used()
            except Exception:  # if polling ended, revoked keys would stay valid
                log.exception("unexpected error while polling the key store")

    async def _write_last_used(self) -> None:
        used, self._used = self._used, {}
        if used and not self._lost:
            try:
                await asyncio.to_thread(self._store.touch, used)
            except KeyStoreError as error:
                log.warning("could not store when keys were last used: %s", error)
