"""The keys that a process accepts: keys of conf and of the store, found by digest and cached."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from heapq import nlargest

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
"""A key that was used within this time is read again after a change."""
MOST_READ_AGAIN = 500
READ_AGAIN_SECONDS = 0.4
"""The time for these keys. The remaining ones are read on their next use: a change takes effect within a second."""
PAUSE_SECONDS = 0.1
"""The pause after a change before the next check: changes may be frequent."""
LOOKUPS = 2
"""How often a key is looked up for one request while changes are noticed."""

_AWAY = "API keys cannot be checked: the key store is unavailable. Try again later."


class KeyRing:
    """Keys of the configuration and of the store, for the event loop. Lookups are cached until the store's revision
    changes.

    `conf` has the keys of the configuration, from `make_conf_records`. While the store cannot be read, they and cached
    keys remain valid, and the failure is logged once. A new revision takes effect together with the keys that were used
    lately, which are read again. If the store fails in between, the cache stays as it was, and the change is noticed later.
    `changes` counts the noticed changes of keys. The functions in `on_change` are called after each change, within a
    second: any key may then have other permissions, or none. The expiry of a key is no change.
    """

    def __init__(self, store: KeyStore, conf: Mapping[bytes, KeyRecord], *, poll_seconds: float = POLL_SECONDS) -> None:
        self._store = store
        self._poll_seconds = poll_seconds
        self._conf = conf
        self._found: LRUCache[bytes, KeyRecord] = LRUCache(CACHED_KEYS)
        self._unknown: TTLCache[bytes, None] = TTLCache(CACHED_KEYS, UNKNOWN_KEY_SECONDS)
        self._used: dict[str, float] = {}
        self._recent: dict[str, float] = {}
        self._arrived: set[bytes] = set()
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
        record = None
        for _ in range(LOOKUPS):
            changes = self.changes
            record = await self._look_up(digest)
            if changes == self.changes:
                break
        else:  # the record may be older than the latest change
            self._read_again_soon()
        if record is not None:
            self._found[digest] = record
            self._arrived.add(digest)
        elif changes == self.changes:
            self._unknown[digest] = None
        return record

    async def _look_up(self, digest: bytes) -> KeyRecord | None:
        if self._lost and self._task is not None:  # the next poll looks whether the store is back
            raise Unavailable(_AWAY)
        try:
            key = await self._store.database.run_within(STORE_SECONDS, self._store.find_key, digest)
        except DatabaseError as error:
            self._log_store_failure(error)
            raise Unavailable(_AWAY) from error
        return None if key is None else make_store_record(key)

    def request_check(self) -> None:
        """Check for changes soon, before the next poll."""
        self._asked.set()

    async def check(self) -> None:
        """Check for changes now; a change replaces the cache. Never raises."""
        database, store = self._store.database, self._store
        try:
            revision = await database.run_within(STORE_SECONDS, store.revision)
            if revision == self._revision and not self._lost:
                self._arrived.clear()
                return
            digests = self._list_recent()
            self._arrived.clear()
            keys = await database.run_within(STORE_SECONDS, store.find_keys, digests, READ_AGAIN_SECONDS)
        except DatabaseError as error:
            self._log_store_failure(error)
            return
        if self._lost:
            log.warning("the key store is readable again: %s", database.name)
        self._lost = False
        self._revision = revision
        self._replace_cache({digest: make_store_record(key) for digest, key in keys.items()}, digests)
        self._note_change()

    def _list_recent(self) -> list[bytes]:
        """Return the digests of cached keys that were used lately, the latest first, at most MOST_READ_AGAIN."""
        used = self._recent | self._used
        times = ((used[record.id], digest) for digest, record in self._found.items() if record.id in used)
        return [digest for _, digest in nlargest(MOST_READ_AGAIN, times)]

    def _replace_cache(self, records: Mapping[bytes, KeyRecord], digests: Collection[bytes]) -> None:
        """Cache `records`, which were just read for `digests`, and the keys that requests have looked up meanwhile.

        The latter may be older than the change, so they are read again at once.
        """
        arrived = self._arrived.difference(digests)
        kept = {digest: self._found[digest] for digest in arrived if digest in self._found}
        self._found.clear()
        self._unknown.clear()
        self._found.update(records)
        self._found.update(kept)
        if kept:
            self._read_again_soon()

    def _read_again_soon(self) -> None:
        self._revision = None
        self._asked.set()

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
            changes = self.changes
            try:
                await self.check()
                if changes != self.changes:
                    await asyncio.sleep(PAUSE_SECONDS)
                if time.monotonic() >= next_write:
                    next_write = time.monotonic() + TOUCH_SECONDS
                    await self._write_last_used()
            except Exception:  # if polling ended, revoked keys would stay valid
                log.exception("unexpected error while polling the key store")

    async def _write_last_used(self) -> None:
        used, self._used = self._used, {}
        since = time.time() - RECENT_SECONDS
        self._recent = {key: last for key, last in (self._recent | used).items() if last >= since}
        if used and not self._lost:
            try:
                await self._store.database.run(self._store.touch, used)
            except DatabaseError as error:
                log.warning("could not store when keys were last used: %s", error)
