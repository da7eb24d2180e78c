"""The file of counters: on a disk that is full, and with more counters than there is room for."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tornado_gate.admission import counter_file
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.counter_file import FIRST_CAPACITY, CounterFile
from tornado_gate.admission.counters import OPEN_REQUESTS, TOTAL, WINDOW
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.store import StoreUnavailable
from tornado_gate.ledger.spending import Used, find_period
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Bound


def test_a_full_disk_raises_an_error_instead_of_sigbus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page has its place on the disk before it is mapped."""
    file = CounterFile(tmp_path / "counters")

    def fail(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", fail)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                file.open()
    assert len(os.listdir("/proc/self/fd")) == before
    file.open()
    status = (tmp_path / "counters").stat()
    assert status.st_blocks * 512 >= status.st_size > 0
    file.close()


# More counters than there is room for

CAPACITY = 512
ROOM = CAPACITY // 2
"""What is kept when there are too many."""


def make_windows(count: int, beginning: str = "crowd") -> list[Bound]:
    return [make_bound("key", f"{beginning}-{number}", "requests_per_minute", 1) for number in range(count)]


def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    test: Callable[[EmbeddedStore, Metrics, list[int]], Awaitable[None]],
) -> None:
    """Run `test` with a store that has little room, metrics, and a clock that stands still between its changes."""
    monkeypatch.setattr(counter_file, "MOST_CAPACITY", CAPACITY)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    metrics, wall = Metrics(), [int(time.time())]

    async def main() -> None:
        store = EmbeddedStore(tmp_path, wall=lambda: wall[0], on_drop=metrics.limits.count_dropped_counters)
        try:
            await test(store, metrics, wall)
        finally:
            await store.close()

    asyncio.run(main())


def count_dropped(metrics: Metrics) -> int:
    (line,) = (
        line
        for line in metrics.render()[0].decode().splitlines()
        if line.startswith("tornado_gate_limit_counters_dropped_total ")
    )
    return int(float(line.partition(" ")[2]))


async def admit(store: EmbeddedStore, bound: Bound) -> bool:
    outcome = await store.reserve((bound,), [1])
    if outcome.unread:
        await store.raise_used({bound: Used(day_tokens=7, month_tokens=7)}, find_period(time.time()))
        outcome = await store.reserve((bound,), [1])
    return outcome.moment is not None


def test_counters_within_the_capacity_are_never_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(store: EmbeddedStore, metrics: Metrics, wall: list[int]) -> None:
        bounds = make_windows(ROOM)
        for bound in bounds:
            assert await admit(store, bound)
            wall[0] += 1
        assert [await admit(store, bound) for bound in bounds] == [False] * ROOM
        assert count_dropped(metrics) == 0

    run(tmp_path, monkeypatch, test)


def test_if_there_are_too_many_counters_the_longest_unused_windows_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one that only refuses: its caller is at the limit and would exceed it."""

    async def test(store: EmbeddedStore, metrics: Metrics, wall: list[int]) -> None:
        reached, *others = make_windows(CAPACITY * 3 // 4 + 1)
        assert await admit(store, reached)
        for bound in others:
            wall[0] += 1
            assert await admit(store, bound)
            assert not await admit(store, reached)
        assert count_dropped(metrics) == CAPACITY * 3 // 4 - ROOM
        latest = others[-ROOM // 2 :]
        assert [await admit(store, bound) for bound in latest] == [False] * len(latest), "their minutes go on"
        assert await admit(store, others[0]), "the degraded mode that docs/deployment/limits.md states"

    run(tmp_path, monkeypatch, test)


def test_budgets_are_dropped_first_and_open_requests_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long ago the open requests began: they would be forgotten until they end. A budget is in the ledger."""

    async def test(store: EmbeddedStore, metrics: Metrics, wall: list[int]) -> None:
        long = make_bound("key", "long", "concurrent_requests", 1)
        assert await admit(store, long)
        wall[0] += 1
        budget = make_bound("key", "budget", "tokens_per_day", 9)
        for bound in make_windows(CAPACITY * 3 // 4 - 2):
            assert await admit(store, bound)
        wall[0] += 1
        assert await admit(store, budget), "8 of 9"
        for bound in make_windows(3, "last"):
            assert await admit(store, bound)
        assert count_dropped(metrics) > 0
        assert not await admit(store, long)
        outcome = await store.reserve((budget,), [1])
        assert outcome.unread == [budget], "nothing is admitted before the ledger was read"

    run(tmp_path, monkeypatch, test)


def test_open_requests_of_a_dead_process_use_no_capacity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
import asyncio, os, sys
from pathlib import Path
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.embedded import EmbeddedStore

async def main():
    store = EmbeddedStore(Path(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        await store.reserve((make_bound("key", f"dead-{number}", "concurrent_requests", 1),), [1])
    os._exit(0)

asyncio.run(main())
"""
    monkeypatch.setattr(counter_file, "MOST_CAPACITY", CAPACITY)
    subprocess.run([sys.executable, "-c", program, str(tmp_path), str(ROOM)], check=True)

    async def test(store: EmbeddedStore, metrics: Metrics, wall: list[int]) -> None:
        bounds = make_windows(ROOM)
        for bound in bounds:
            assert await admit(store, bound)
        assert [await admit(store, bound) for bound in bounds] == [False] * ROOM
        assert count_dropped(metrics) == 0

    run(tmp_path, monkeypatch, test)


def test_a_disk_that_becomes_full_stops_no_process_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file must grow and cannot: requests are not counted, other processes get the lock, no descriptor is lost."""

    def fail(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def run() -> None:
        store, other = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path)
        known = make_bound("key", "known", "requests_per_minute", 1000)
        held = await store.reserve([known], [5])
        assert held.moment is not None
        assert (await other.reserve([known], [1])).moment is not None
        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as full:
            full.setattr(os, "posix_fallocate", fail)
            for number in range(FIRST_CAPACITY):
                bound = make_bound("key", str(number), "requests_per_minute", 3)
                try:
                    await store.reserve([bound], [1])
                except StoreUnavailable as error:
                    assert "cannot grow" in str(error)
            store.change([known], [-5], held.moment)
            unseen = make_bound("key", "unseen", "requests_per_minute", 3)
            store.change([unseen], [1], held.moment)
            with pytest.raises(StoreUnavailable):
                await store.read([known])
            assert [level.used for level in await other.read([known])] == [1]
        assert len(os.listdir("/proc/self/fd")) == before
        assert sorted(os.listdir(tmp_path)) == ["counters"]
        assert [level.used for level in await store.read([known, unseen])] == [1, 1]
        await store.close()
        await other.close()

    asyncio.run(run())


def test_a_failed_change_does_not_keep_the_lock_from_other_processes(tmp_path: Path) -> None:
    async def run() -> None:
        store, other = EmbeddedStore(tmp_path), EmbeddedStore(tmp_path)
        bound = make_bound("key", "a", "tokens_per_minute", 1000)
        held = await store.reserve([bound], [5])
        assert held.moment is not None
        with pytest.raises(ValueError, match="invalid value"):
            store.change([bound], [2**62], held.moment)
        assert (await other.reserve([bound], [1])).levels[0].used == 6
        await store.close()
        await other.close()

    asyncio.run(run())


# Several processes


def open_file(path: Path) -> CounterFile:
    file = CounterFile(path)
    assert file.open()
    return file


def find_slots(file: CounterFile, count: int) -> list[int]:
    """The slots of counters that are the same for every process. The file is locked meanwhile."""
    assert file.try_lock()
    slots = [file.find_slot((number, number + 1), WINDOW) for number in range(count)]
    file.unlock()
    return slots


def test_a_counter_that_another_process_created_gets_no_second_slot(tmp_path: Path) -> None:
    """The file is replaced when three quarters of its slots are taken: not before, and not by counters that exist."""
    path = tmp_path / "counters"
    first, second = open_file(path), open_file(path)
    room = FIRST_CAPACITY * 3 // 4
    inode = path.stat().st_ino
    slots = find_slots(first, room)
    assert len(set(slots)) == room
    assert find_slots(second, room) == slots
    assert path.stat().st_ino == inode
    find_slots(second, room + 1)
    assert path.stat().st_ino != inode
    for file in (first, second):
        file.close()


def test_a_process_waits_for_the_lock_and_then_opens_the_file_that_another_process_created(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    first, second = open_file(path), open_file(path)
    assert first.try_lock()
    assert not second.try_lock()
    for number in range(FIRST_CAPACITY):
        first.find_slot((number, 1), WINDOW)
    lease = first.make_lease()
    first.unlock()
    assert not second.try_lock(), "it opens the other file; the caller tries again"
    assert second.try_lock()
    assert second.make_lease() == lease + 1
    assert not first.try_lock()
    second.unlock()
    for file in (first, second):
        file.close()


def test_a_process_that_starts_while_the_file_is_locked_does_not_wait(tmp_path: Path) -> None:
    """The process that has locked it may be one that does not run."""
    path = tmp_path / "counters"
    first, second = open_file(path), CounterFile(path)
    assert first.try_lock()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert not second.open()
        assert not second.is_open
    assert len(os.listdir("/proc/self/fd")) == before
    first.unlock()
    assert second.open()
    assert find_slots(second, 3) == find_slots(first, 3)
    for file in (first, second):
        file.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from tornado_gate.admission.counter_file import CounterFile
from tornado_gate.admission.counters import OPEN_REQUESTS, TOTAL, WINDOW, add_open, add_to_window, advance_window
file = CounterFile(Path(sys.argv[1]))
assert file.open() and file.try_lock()
window, requests = file.find_slot((1, 1), WINDOW), file.find_slot((2, 1), OPEN_REQUESTS)
advance_window(file.words, window, 5_000)
add_to_window(file.words, window, 5_000, 7)
add_open(file.words, requests, 1, 3)
file.words[window + TOTAL] += 90  # the sum is written, the bucket is not yet
file.words[requests + TOTAL] += 90
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_change_in_the_middle_of_which_a_process_was_killed_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == -9
    file = open_file(path)
    for _ in range(2):
        assert file.try_lock(), "the lock ended with its process"
        bases = file.find_slot((1, 1), WINDOW), file.find_slot((2, 1), OPEN_REQUESTS)
        assert [file.words[base + TOTAL] for base in bases] == [7, 3]
        for base in bases:
            file.words[base + TOTAL] += 90
        file.unlock(is_whole=False)  # the next one repairs it again
    assert file.try_lock()
    assert [file.words[base + TOTAL] for base in bases] == [7, 3]
    file.unlock()
    file.close()
