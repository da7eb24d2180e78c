"""The bytes that each account holds in a folder of a bucket, which all nodes fill.

They come from listings of the bucket, and from the uploads of this process. So a process counts
its own files immediately, and files of other processes after its next listing: the bound of all nodes together is
exceeded by at most what the others store within LISTED_SECONDS. Large folders are listed more rarely, so that listing
takes at most one hundredth of the time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tornado_gate.account_shares import evict
from tornado_gate.storage.bucket import Bucket, ListedObject
from tornado_gate.storage.file_ids import FileIds
from tornado_gate.storage.files import FILE_ID

LISTED_SECONDS = 60.0
UNUSED_LISTED_SECONDS = 3600.0
"""The interval of listings without uploads of this process: they only find expired files."""
PAUSE_FACTOR = 100
EVICTED_PART = 0.02


class _OwnedObject(NamedTuple):
    modified: float
    size: int
    key: str
    owner: str


class BucketUsage:
    """The usage of `folder`, such as ``media/``, by owner. `is_listed` is false until the first listing."""

    def __init__(self, bucket: Bucket, folder: str, ids: FileIds) -> None:
        self._bucket = bucket
        self._folder = folder
        self._ids = ids
        self._next_listing = 0.0
        self._next_unused_listing = 0.0
        self._open_listings: list[Counter[str]] = []
        self._has_changed = False
        self.held: Counter[str] = Counter()
        self.reserved: Counter[str] = Counter()
        self.is_listed = False

    @property
    def is_due(self) -> bool:
        """Return whether the folder should be listed again."""
        return time.monotonic() >= (self._next_listing if self._has_changed else self._next_unused_listing)

    def add(self, owner: str, size: int) -> None:
        """Count a file that this process has uploaded."""
        for held in (self.held, *self._open_listings):
            held[owner] += size
        self._has_changed = True

    def reserve(self, owner: str, size: int) -> None:
        """Count a file until `release`, because no listing contains it before its upload has ended."""
        self.reserved[owner] += size

    def release(self, owner: str, size: int) -> None:
        """End a reservation, after the call of `add` if the file is uploaded."""
        self.reserved[owner] -= size
        if not self.reserved[owner]:
            del self.reserved[owner]

    def count_all(self) -> int:
        """Return the bytes of all owners."""
        return self.held.total() + self.reserved.total()

    def count_held(self, owner: str) -> int:
        """Return the bytes of an owner."""
        return self.held[owner] + self.reserved[owner]

    async def refresh(self, may_have_expired: Callable[[float], bool]) -> list[str]:
        """List the folder. Return the keys of objects that may have expired by the time of their upload.

        Raises MediaUnavailable.
        """
        old: list[str] = []
        with self._open_listing() as held:
            async for page in self._bucket.list_pages(self._folder):
                for entry in self._iterate_own(page):
                    held[entry.owner] += entry.size
                    if may_have_expired(entry.modified):
                        old.append(entry.key)
        return old

    async def choose_evicted(self, max_bytes: int, needed: int, writer: str) -> list[str]:
        """List the folder, and return the keys of the files that `writer` displaces with `needed` bytes.

        They are the oldest of the largest owners. EVICTED_PART of the folder becomes free too, so that the next file needs
        no listing. Raises MediaUnavailable.
        """
        by_owner: dict[str, list[_OwnedObject]] = {}
        with self._open_listing() as held:
            async for page in self._bucket.list_pages(self._folder):
                for entry in self._iterate_own(page):
                    by_owner.setdefault(entry.owner, []).append(entry)
                    held[entry.owner] += entry.size
        excess = self.count_all() + needed - max_bytes
        if excess <= 0:
            return []
        evicted: list[_OwnedObject] = []

        def list_objects(owner: str) -> Iterator[tuple[int, _OwnedObject]]:
            return ((entry.size, entry) for entry in sorted(by_owner.get(owner, ())))

        def remove(entry: _OwnedObject) -> bool:
            evicted.append(entry)
            return True

        evict(
            excess + int(max_bytes * EVICTED_PART),
            held + self.reserved + Counter({writer: needed}),
            list_objects,
            remove,
            writer,
        )
        for entry in evicted:
            self.held[entry.owner] -= entry.size
        return [entry.key for entry in evicted]

    @contextmanager
    def _open_listing(self) -> Iterator[Counter[str]]:
        """Yield the counter of a listing, which replaces `held` at its end. Uploads during it may count twice."""
        begun, held = time.monotonic(), Counter[str]()
        self._open_listings.append(held)
        try:
            yield held
        finally:
            self._open_listings.remove(held)
        self.held = held
        self._plan_next(begun)

    def _plan_next(self, begun: float) -> None:
        now = time.monotonic()
        pause = max(LISTED_SECONDS, PAUSE_FACTOR * (now - begun))
        self._next_listing, self._next_unused_listing = now + pause, now + max(pause, UNUSED_LISTED_SECONDS)
        self._has_changed, self.is_listed = False, True

    def _iterate_own(self, page: list[ListedObject]) -> Iterator[_OwnedObject]:
        for entry in page:
            file_id = entry.key.removeprefix(self._folder)
            if FILE_ID.fullmatch(file_id):
                yield _OwnedObject(entry.modified, entry.size, entry.key, self._ids.read_owner(file_id))
