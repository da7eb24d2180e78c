"""The file of counters on a disk that is full."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from tornado_gate.limits.bounds import make_bound
from tornado_gate.limits.counter_file import FIRST_CAPACITY, CounterFile
from tornado_gate.limits.embedded import EmbeddedStore
from tornado_gate.limits.store import StoreUnavailable


def test_a_full_disk_is_an_error_and_no_death_by_sigbus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_disk_that_becomes_full_stops_no_process_and_leaves_nothing(
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


def test_a_change_that_cannot_be_made_keeps_no_other_process_from_its_turn(tmp_path: Path) -> None:
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
