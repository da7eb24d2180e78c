"""The keys that a process accepts: keys of conf and of the store, found by digest and cached."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice

from cachetools import LRUCache, TTLCache

from tornado_gate.accounts.key_record import KeyRecord, make_store_record
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.database.engine import DatabaseError
from tornado_gate.errors import Unavailable

log = logging.getLogger(__name__)

CACHED_KEYS = 10_000
UNKNOWN_KEY_SECONDS = 2.0
POLL_SECONDS = 0.4
TOUCH_SECONDS = 10.0
STORE_SECONDS = 5.0
"""The longest wait for the store. Then the key of a request is refused, unless it is cached."""
RECENT_SECONDS = 600.0
MOST_REFRESHED = 500
REFRESH_SECONDS = 5.0
"""The shortest time between two refreshes: changes may be frequent."""


_AWAY = "API keys cannot be checked: the key store is unavailable. Try again later."


class KeyRing:
    """Keys of the configuration and of the store, for the event loop. Lookups are cached until the store's revision
    changes.

    `conf` has the keys of the configuration, from `make_conf_records`. While the store cannot be read, they and cached
    keys remain valid, and the failure is logged once. After a change the keys that were used lately are read again at once, so
    that they are cached when the store fails next. `changes` counts the noticed changes of keys. The functions in
    `on_change` are called after each change, within a second: any key may then have other permissions, or none. The
    expiry of a key is no change.
    """

    def __init__(self, store: KeyStore, conf: Mapping[bytes, KeyRecord], *, poll_seconds: float = POLL_SECONDS) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._conf = conf
        self._found: LRUCache[bytes, KeyRecord] = LRUCache(CACHED_KEYS)
        self._unknown: TTLCache[bytes, None] = TTLCache(CACHED_KEYS, UNKNOWN_KEY_SECONDS)
        self._used: dict[str, float] = {}
        self._recent: dict[str, float] = {}
        self._stale: dict[bytes, None] = {}
        self._next_refresh = 0.0
        self._revision: int | None = None
        self.changes = 0
        self.on_change: list[Callable[[], None]] = []
        self._lost = False
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def replace(self, conf: Mapping[bytes, KeyRecord]) -> None:
        """Replace the keys of the configuration."""
        self._conf = conf
        self._note_change()

    async def start(self) -> None:
        """Read the revision and start polling it."""
        await self.check()
        if self._task is None:
            self._task = asyncio.create_task(self._watch_revision(), name="watch the revision of keys")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._write_last_used()
        await asyncio.to_thread(self._store.close)

    def find_expiry(self, digest: bytes) -> float | None:
        """Return when the cached key with this digest expires, in Unix seconds; None for never."""
        record = self._conf.get(digest) or self._found.get(digest)
        return None if record is None else record.expires

    async def find_key(self, key: str) -> KeyRecord | None:
        """Return the permissions of a key; None if it is unknown, revoked or expired.

        Raises Unavailable if the key is not cached and the store cannot be read.
        """
        return await self.find_by_digest(digest_key(key)) if key else None

    async def find_by_digest(self, digest: bytes) -> KeyRecord | None:
        """Return the permissions of the key with this digest, as `find` does."""
        record = self.find_cached(digest)
        if record is not None or digest in self._found or digest in self._unknown:
            return record
        record = await self._find_in_store(digest)
        return None if record is None else self._mark_used(record)

    def find_cached(self, digest: bytes) -> KeyRecord | None:
        """Return the permissions from the cache only; None if the store must be read, or the key has expired."""
        record = self._conf.get(digest)
        if record is not None:
            return record
        record = self._found.get(digest)
        if record is None:
            return None
        return self._mark_used(record)

    async def peek(self, digest: bytes) -> KeyRecord | None:
        """Return the permissions as `find_by_digest` does, without recording a use of the key."""
        record = self._conf.get(digest) or self._found.get(digest) or await self._find_in_store(digest)
        is_expired = record is not None and record.expires is not None and record.expires <= time.time()
        return None if is_expired else record

    def _mark_used(self, record: KeyRecord) -> KeyRecord | None:
        """Record the use of a key and return it; None if it has expired."""
        now = time.time()
        if record.expires is not None and record.expires <= now:
            return None
        self._used[record.id] = now
        return record

    async def _find_in_store(self, digest: bytes) -> KeyRecord | None:
        changes = self.changes
        if self._lost and self._task is not None:  # the next poll looks whether the store is back
            raise Unavailable(_AWAY)
        try:
            key = await self._store.database.run_within(STORE_SECONDS, self._store.find_key, digest)
        except DatabaseError as error:
            self._log_store_failure(error)
            raise Unavailable(_AWAY) from error
        record = None if key is None else make_store_record(key)
        if changes == self.changes:  # otherwise the result may be older than a revocation
            if record is None:
                self._unknown[digest] = None
            else:
                self._found[digest] = record
        return record

    def request_check(self) -> None:
        """Check for changes soon, before the next poll."""
        self._asked.set()

    async def check(self) -> None:
        """Check for changes now; a change clears the cache. Never raises."""
        try:
            revision = await self._store.database.run_within(STORE_SECONDS, self._store.revision)
        except DatabaseError as error:
            self._log_store_failure(error)
            return
        was_lost, self._lost = self._lost, False
        if was_lost:
            log.warning("the key store is readable again: %s", self._store.database.name)
        if revision != self._revision or was_lost:
            self._revision = revision
            recent = self._recent | self._used
            used = (digest for digest, record in self._found.items() if record.id in recent)
            self._stale |= dict.fromkeys(islice(used, MOST_REFRESHED))
            self._found.clear()
            self._unknown.clear()
            self._note_change()

    def _note_change(self) -> None:
        self.changes += 1
        for notify in self.on_change:
            notify()

    def _log_store_failure(self, error: DatabaseError) -> None:
        if not self._lost:
            log.error(
                "cannot read the key store; only cached keys and keys of the configuration are accepted: %s", error
            )
        self._lost = True

    async def _watch_revision(self) -> None:
        next_write = time.monotonic() + TOUCH_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._asked.wait()
            self._asked.clear()
            try:
                await self.check()
                await self.refresh()
                if time.monotonic() >= next_write:
                    next_write = time.monotonic() + TOUCH_SECONDS
                    await self._write_last_used()
            except Exception:  # if polling ended, revoked keys would stay valid
                log.exception("unexpected error while polling the key store")

    async def refresh(self) -> None:
        """Read the keys again that were used lately and dropped by a change, at most every REFRESH_SECONDS. Never raises."""
        if not self._stale or self._lost or time.monotonic() < self._next_refresh:
            return
        self._next_refresh = time.monotonic() + REFRESH_SECONDS
        digests = [digest for digest in self._stale if digest not in self._found][:MOST_REFRESHED]
        self._stale.clear()
        changes = self.changes
        try:
            keys = await self._store.database.run_within(STORE_SECONDS, self._store.find_keys, digests)
        except DatabaseError as error:
            self._log_store_failure(error)
            return
        if changes == self.changes:
            self._found.update({digest: make_store_record(key) for digest, key in keys.items()})

    async def _write_last_used(self) -> None:
        used, self._used = self._used, {}
        since = time.time() - RECENT_SECONDS
        self._recent = {key: last for key, last in (self._recent | used).items() if last >= since}
        if used and not self._lost:
            try:
                await self._store.database.run(self._store.touch, used)
            except DatabaseError as error:
                log.warning("could not store when keys were last used: %s", error)
