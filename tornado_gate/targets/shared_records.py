"""Small records that the processes of a machine share: slots of a mapped file, written under a lock.

Whether something has changed is one word in memory, so processes that look for changes make no system call. The lock ends with
its process, and is never waited for: what cannot be written now is written by the next `flush`. The first process that opens the
file empties it, so nothing survives the end of the whole gateway.

A record may have a *turn*: one process at a time holds it, until it gives it back or its time is over.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tornado_gate.storage.private import make_folder, open_private

SLOTS: Final = 512
SLOT_BYTES: Final = 1024
_WORDS: Final = SLOT_BYTES // 8
_SEQUENCE, _ENDS, _TURN, _NAME_1, _NAME_2, _LENGTH = range(6)
"""The words of a slot. `_SEQUENCE`: the number of its last change; `_ENDS` and `_TURN`: milliseconds of the monotonic clock."""
_DATA: Final = 6 * 8
MOST_BYTES: Final = SLOT_BYTES - _DATA
"""A longer record is not shared."""
TRIES: Final = 20


class SharedRecords:
    """The open file; without `open`, or if that fails, nothing is shared. Times are seconds of the monotonic clock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._users = -1
        self._map: mmap.mmap | None = None
        self._words: memoryview = memoryview(b"")
        self._seen = 0
        self._waiting: dict[tuple[str, ...], tuple[bytes, float]] = {}

    def open(self) -> None:
        """Open the file. Blocks. Raises OSError."""
        make_folder(self._path.parent)
        self._users = open_private(self._path.with_suffix(".users"), os.O_RDWR | os.O_CREAT)
        self._descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            self._prepare()
            fcntl.flock(self._users, fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._map = mmap.mmap(self._descriptor, (SLOTS + 1) * SLOT_BYTES)
        self._words = memoryview(self._map).cast("q")

    def _prepare(self) -> None:
        """Empty the file if no other process uses it."""
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        os.ftruncate(self._descriptor, 0)
        # Not only ftruncate: a process that writes to a mapped page without a place on a full disk is killed (SIGBUS).
        os.posix_fallocate(self._descriptor, 0, (SLOTS + 1) * SLOT_BYTES)

    def close(self) -> None:
        self._words.release()
        self._words = memoryview(b"")
        if self._map is not None:
            self._map.close()
            self._map = None
        for descriptor in (self._descriptor, self._users):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._users = -1

    @property
    def has_changes(self) -> bool:
        """Whether another process has written something, or something waits to be written."""
        return bool(self._waiting) or (self._map is not None and self._words[0] != self._seen)

    def write(self, name: tuple[str, ...], data: bytes, ends: float) -> None:
        """Share a record until `ends`. Nobody holds its turn any more."""
        if self._map is not None and len(data) <= MOST_BYTES:
            self._waiting[name] = data, ends
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            with self._lock() as is_locked:
                if is_locked:
                    self._write_waiting()

    def _write_waiting(self) -> None:
        words, data = self._words, self._map
        assert data is not None
        is_current = words[0] == self._seen
        for name, (record, ends) in self._waiting.items():
            base = self._find(name)
            words[base + _TURN], words[base + _LENGTH], words[base + _ENDS] = 0, len(record), int(ends * 1000)
            data[base * 8 + _DATA : base * 8 + _DATA + len(record)] = record
            words[0] += 1
            words[base + _SEQUENCE] = words[0]
        self._waiting.clear()
        if is_current:  # this process need not read what it has written itself
            self._seen = words[0]

    def read_changes(self, now: float) -> list[bytes]:
        """The records that were written since the last call and have not ended, also those of this process."""
        if self._map is None or self._words[0] == self._seen:
            return []
        with self._lock() as is_locked:
            if not is_locked:
                return []
            words, data, changed = self._words, self._map, []
            for base in range(_WORDS, (SLOTS + 1) * _WORDS, _WORDS):
                if words[base] > self._seen and words[base + _ENDS] > now * 1000 and words[base + _LENGTH]:
                    begin = base * 8 + _DATA
                    changed.append((words[base], data[begin : begin + words[base + _LENGTH]]))
            self._seen = words[0]
        return [record for _, record in sorted(changed)]

    def take_turn(self, name: tuple[str, ...], now: float, until: float) -> bool:
        """Whether no other process holds the turn of a record; True takes it. Also True if the file cannot be used."""
        with self._lock() as is_locked:
            if not is_locked:
                return True
            base = self._find(name)
            if self._words[base + _TURN] > now * 1000:
                return False
            self._words[base + _TURN] = int(until * 1000)
            self._words[base + _ENDS] = max(self._words[base + _ENDS], int(until * 1000))
            return True

    def give_turn(self, name: tuple[str, ...]) -> None:
        """This process no longer uses the turn that it took."""
        with self._lock() as is_locked:
            if is_locked:
                self._words[self._find(name) + _TURN] = 0

    def _find(self, name: tuple[str, ...]) -> int:
        """The first word of a record's slot; that of the record that ends first if all are taken."""
        words = self._words
        digest = memoryview(blake2b("\0".join(name).encode("utf-8", "surrogatepass"), digest_size=16).digest()).cast(
            "q"
        )
        first, second = digest
        found, least = _WORDS, None
        for base in range(_WORDS, (SLOTS + 1) * _WORDS, _WORDS):
            if words[base + _NAME_1] == first and words[base + _NAME_2] == second:
                return base
            if least is None or words[base + _ENDS] < least:
                found, least = base, words[base + _ENDS]
        words[found : found + _DATA // 8] = memoryview(bytes(_DATA)).cast("q")
        words[found + _NAME_1], words[found + _NAME_2] = first, second
        return found

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Whether the file is locked now. It is held for microseconds, so a few tries are enough."""
        is_locked = self._map is not None and any(self._try_lock() for _ in range(TRIES))
        try:
            yield is_locked
        finally:
            if is_locked:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
