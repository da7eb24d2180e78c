"""Small records that the processes of a machine share: slots of a mapped file, written under a lock.

One word in memory counts the changes, so a process looks for changes without a system call. The lock ends with its process.
No process waits for it: if a record cannot be written now, the next `flush` writes it. The first process that opens the file
empties it, so no record survives the end of the whole gateway.

A record may have a *turn*: one process at a time holds it, until the process returns it or its time is over.
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
"""The words of a slot. `_SEQUENCE` numbers its last change; `_ENDS` and `_TURN` are milliseconds of the monotonic clock."""
_DATA: Final = 6 * 8
MAX_BYTES: Final = SLOT_BYTES - _DATA
"""A longer record is not shared."""
TRIES: Final = 20


class SharedRecords:
    """The file of records. Before `open`, or if it fails, records are not shared. Times are seconds of the monotonic clock."""

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
        # ftruncate reserves no disk space: if the disk is full, a write to a mapped page kills the process (SIGBUS).
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
        """Return whether another process has written a record, or a record waits to be written."""
        return bool(self._waiting) or (self._map is not None and self._words[0] != self._seen)

    def write(self, name: tuple[str, ...], data: bytes, ends: float) -> None:
        """Share a record until `ends`, and end its turn."""
        if self._map is not None and len(data) <= MAX_BYTES:
            self._waiting[name] = data, ends
            self.flush()

    def flush(self) -> None:
        """Write the records that wait."""
        if self._waiting:
            with self._lock() as is_locked:
                if is_locked:
                    self._write_waiting()

    def _write_waiting(self) -> None:
        words, data = self._words, self._map
        assert data is not None
        is_current = words[0] == self._seen
        for name, (record, ends) in self._waiting.items():
            base = self._find_slot(name)
            words[base + _TURN], words[base + _LENGTH], words[base + _ENDS] = 0, len(record), int(ends * 1000)
            data[base * 8 + _DATA : base * 8 + _DATA + len(record)] = record
            words[0] += 1
            words[base + _SEQUENCE] = words[0]
        self._waiting.clear()
        if is_current:  # this process need not read its own records
            self._seen = words[0]

    def read_changes(self, now: float) -> list[bytes]:
        """Return the records that were written since the last call and have not ended, including this process's records."""
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
        """Take the turn of a record. Return False if another process holds it.

        If the file cannot be used, each process gets the turn.
        """
        with self._lock() as is_locked:
            if not is_locked:
                return True
            base = self._find_slot(name)
            if self._words[base + _TURN] > now * 1000:
                return False
            self._words[base + _TURN] = int(until * 1000)
            self._words[base + _ENDS] = max(self._words[base + _ENDS], int(until * 1000))
            return True

    def give_turn(self, name: tuple[str, ...]) -> None:
        """Return the turn that this process has taken."""
        with self._lock() as is_locked:
            if is_locked:
                self._words[self._find_slot(name) + _TURN] = 0

    def _find_slot(self, name: tuple[str, ...]) -> int:
        """Return the first word of a record's slot. If all slots are taken, the record that ends first loses its slot."""
        words = self._words
        digest = memoryview(blake2b("\0".join(name).encode("utf-8", "surrogatepass"), digest_size=16).digest()).cast(
            "q"
        )
        first, second = digest
        slot, first_end = _WORDS, None
        for base in range(_WORDS, (SLOTS + 1) * _WORDS, _WORDS):
            if words[base + _NAME_1] == first and words[base + _NAME_2] == second:
                return base
            if first_end is None or words[base + _ENDS] < first_end:
                slot, first_end = base, words[base + _ENDS]
        words[slot : slot + _DATA // 8] = memoryview(bytes(_DATA)).cast("q")
        words[slot + _NAME_1], words[slot + _NAME_2] = first, second
        return slot

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Lock the file and yield whether that succeeded. Locks are held for microseconds, so a few tries are enough."""
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
