"""The file of counters that the processes of a machine share: a hash table of slots in shared memory, under one lock.

Each reservation holds the lock for about 20 microseconds. The kernel releases the lock when its process ends. A process that dies
in the middle of a change leaves a mark. The next process sees the mark and computes the sums again, so no half-counted change
remains. The contents are pages of the operating system's cache, which survive the end of all processes. After a crash of the
machine, the lost counters are read from the ledger. To reserve three bounds and settle them takes 45 microseconds of CPU; two
SQLite transactions alone took 78.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tornado_gate.admission.counters import (
    ID_1,
    ID_2,
    KIND,
    OPEN_REQUESTS,
    PERIOD_SUMS,
    TOUCHED,
    WINDOW,
    WORDS,
    Words,
    drop_dead_leases,
    is_idle,
    repair,
)
from tornado_gate.ledger.spending import find_period
from tornado_gate.storage.private import make_folder, open_private

MAGIC: Final = 0x7467_6C69_6D31
FIRST_CAPACITY: Final = 512
MOST_CAPACITY: Final = 1 << 18
"""The maximum number of slots. A slot has 1 KiB, so the file has at most 256 MiB, for about 100,000 subjects limited at the same
time.
"""
SLOT_BYTES: Final = WORDS * 8
_WORTH: Final = {PERIOD_SUMS: 0, WINDOW: 1, OPEN_REQUESTS: 2}
"""The value of each kind of counter. If there are too many counters, those with the lowest value are removed, oldest use first.
Sums of days and months have the lowest value: the ledger restores them, except for amounts that running requests have
reserved. A removed window loses the counts of at most a minute. A removed counter of open requests loses them until they end,
which can take long.
"""

_MAGIC, _CAPACITY, _COUNT, _BUSY, _NEXT_LEASE, _MOVED = range(6)
"""The words of the first slot, which is the head of the file."""


class CounterFile:
    """The open file of counters. Use every method except `try_lock` only between `try_lock` and `unlock`. Raises OSError.

    `on_drop` receives the number of counters that were dropped because there were too many. `is_alive` returns whether the
    process with a lease lives. Open requests of dead processes do not count.
    """

    def __init__(
        self,
        path: Path,
        on_drop: Callable[[int], None] = lambda _count: None,
        is_alive: Callable[[int], bool] = lambda _lease: True,
    ) -> None:
        self.path = path
        self._on_drop = on_drop
        self._is_alive = is_alive
        self.words: Words = memoryview(b"")
        self._descriptor = -1
        self._map: mmap.mmap | None = None
        self._bases: dict[tuple[int, int], int] = {}

    def open(self) -> bool:
        """Open the file, and create it if it is missing. Return False while another process has locked it."""
        make_folder(self.path.parent)
        self._descriptor = open_private(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_complete():
                _write_empty(self._descriptor, FIRST_CAPACITY)
            self._map_memory()
        except BaseException as error:  # the disk may be full, for example; the next call tries again
            os.close(self._descriptor)
            self._descriptor = -1
            if isinstance(error, BlockingIOError):
                return False
            raise
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return True

    def _is_complete(self) -> bool:
        head = os.pread(self._descriptor, 2 * 8, 0)
        magic, capacity = int.from_bytes(head[:8], "little"), int.from_bytes(head[8:], "little")
        return magic == MAGIC and os.fstat(self._descriptor).st_size == (capacity + 1) * SLOT_BYTES

    def _map_memory(self) -> None:
        self._map = mmap.mmap(self._descriptor, 0)
        self.words = memoryview(self._map).cast("q")
        self._bases = {}

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def close(self) -> None:
        self.words.release()
        if self._map is not None:
            self._map.close()
            self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def try_lock(self) -> bool:
        """Lock the file if no other process has locked it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        words = self.words
        if words[_MOVED]:
            self._open_larger()
            return False
        if words[_BUSY]:
            repair(words, self._list_bases())
        words[_BUSY] = 1
        return True

    def unlock(self, *, is_whole: bool = True) -> None:
        """Let other processes lock the file. Unless the last change `is_whole`, the next process computes the sums again."""
        if is_whole:
            self.words[_BUSY] = 0
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _open_larger(self) -> None:
        """Open the larger file that another process has made, now or when it is next used."""
        status = self.path.stat() if self.path.exists() else None
        if status is not None and status.st_ino == os.fstat(self._descriptor).st_ino:
            self.words[_MOVED] = 0  # the other process died before it had put the larger file in place
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            return
        self.close()
        self.open()

    # Slots

    def find_slot(self, counter: tuple[int, int], kind: int) -> int:
        """Return the first word of a counter's slot. Create the slot if it is missing."""
        words = self.words
        base = self._bases.get(counter)
        if base is not None and words[base + ID_1] == counter[0] and words[base + ID_2] == counter[1]:
            return base
        base = self._probe(counter)
        if not words[base + ID_2]:
            if words[_COUNT] * 4 >= words[_CAPACITY] * 3:
                self._rebuild()
                words, base = self.words, self._probe(counter)
            words[base + ID_1], words[base + ID_2], words[base + KIND] = *counter, kind
            words[_COUNT] += 1
        self._bases[counter] = base
        return base

    def _probe(self, counter: tuple[int, int]) -> int:
        words = self.words
        mask = words[_CAPACITY] - 1
        slot = counter[0] & mask
        while True:
            base = (slot + 1) * WORDS
            if not words[base + ID_2] or (words[base + ID_1] == counter[0] and words[base + ID_2] == counter[1]):
                return base
            slot = (slot + 1) & mask

    def _list_bases(self) -> Iterator[int]:
        words = self.words
        for base in range(WORDS, (words[_CAPACITY] + 1) * WORDS, WORDS):
            if words[base + ID_2]:
                yield base

    def _rebuild(self) -> None:
        """Put the slots that still count into a new file, and lock that file. Make it larger if necessary."""
        old, now = self.words, time.time()
        month, moment = find_period(now).month, read_clock()
        is_alive = cache(self._is_alive)  # a cache, because each lease needs a look at the disk
        for base in self._list_bases():
            if old[base + KIND] == OPEN_REQUESTS:
                drop_dead_leases(old, base, is_alive)
        kept = [base for base in self._list_bases() if not is_idle(old, base, moment, month)]
        capacity = old[_CAPACITY]
        while len(kept) * 2 > capacity and capacity < MOST_CAPACITY:
            capacity *= 2
        if len(kept) * 2 > capacity:
            self._on_drop(len(kept) - capacity // 2)
            kept = sorted(kept, key=lambda base: (_WORTH[old[base + KIND]], old[base + TOUCHED]))[-capacity // 2 :]
        slots = [bytes(old[base : base + WORDS]) for base in kept]
        lease = old[_NEXT_LEASE]
        path = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        descriptor = _create_larger(path, capacity)
        previous, previous_map = self._descriptor, self._map
        self._descriptor = descriptor
        self._map_memory()
        words = self.words
        words[_NEXT_LEASE], words[_COUNT], words[_BUSY] = lease, len(slots), 1
        for slot in slots:
            values = memoryview(slot).cast("q")
            base = self._probe((values[ID_1], values[ID_2]))
            words[base : base + WORDS] = values
        old[_MOVED] = 1
        path.replace(self.path)
        old.release()
        if previous_map is not None:
            previous_map.close()
        os.close(previous)  # closing also unlocks it

    def make_lease(self) -> int:
        """Return a number that no other process has had."""
        self.words[_NEXT_LEASE] += 1
        return self.words[_NEXT_LEASE]


def _create_larger(path: Path, capacity: int) -> int:
    """Return the descriptor of a new, locked file. If there is no room for it, delete the file again. Raises OSError."""
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _write_empty(descriptor, capacity)
    except BaseException:
        os.close(descriptor)
        path.unlink()
        raise
    return descriptor


def _write_empty(descriptor: int, capacity: int) -> None:
    os.ftruncate(descriptor, 0)
    # ftruncate is not enough: the kernel kills a process that writes to a mapped page without space on a full disk (SIGBUS).
    os.posix_fallocate(descriptor, 0, (capacity + 1) * SLOT_BYTES)
    os.pwrite(descriptor, MAGIC.to_bytes(8, "little") + capacity.to_bytes(8, "little"), 0)


def read_clock() -> int:
    """Return the milliseconds of a clock that all processes of the machine share and that no administrator can set."""
    return time.monotonic_ns() // 1_000_000
