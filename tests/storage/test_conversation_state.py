"""What is remembered: by account, bounded, expiring, shared by processes; a broken file harms no request."""

from __future__ import annotations

import asyncio
import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from tornado_gate.errors import Unavailable
from tornado_gate.storage import conversation_state
from tornado_gate.storage.conversation_state import MemoryStore, SharedMemory


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(tmp_path)


@pytest.mark.gen_test
async def test_neither_the_cache_nor_the_file_grows_without_bound(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_state, "CACHED_BYTES", 1000)
    monkeypatch.setattr(conversation_state, "MAX_BYTES", 5000)
    monkeypatch.setattr(conversation_state, "WRITES_BETWEEN_PRUNES", 10)
    whole = SharedMemory(store)
    for number in range(101):
        await whole.get_account_memory("ann").put(f"{number}", "x" * 98, 60 + number)
    assert whole._cache.currsize <= 1000
    fresh = SharedMemory(store).get_account_memory("ann")
    kept = await fresh.get_many([str(number) for number in range(101)])
    assert len(kept) <= 60
    assert "100" in kept


@pytest.mark.gen_test
async def test_large_values_are_pruned_before_many_writes(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_state, "MAX_BYTES", 5000)
    monkeypatch.setattr(conversation_state, "BYTES_BETWEEN_PRUNES", 2000)
    ann = SharedMemory(store).get_account_memory("ann")
    for number in range(20):
        await ann.put(f"{number}", "x" * 1000, 60 + number)
    fresh = SharedMemory(store).get_account_memory("ann")
    assert len(await fresh.get_many([str(number) for number in range(20)])) <= 7


@pytest.mark.qa
@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("characters", [1, 400, 5000])
async def test_the_cache_takes_no_more_memory_than_it_counts(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, characters: int
) -> None:
    monkeypatch.setattr(MemoryStore, "put", lambda *_: None)
    monkeypatch.setattr(conversation_state, "CACHED_BYTES", 2 * 1024 * 1024)
    whole = SharedMemory(store)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(5000):
            memory = whole.get_account_memory(f"account-{number % 50}")
            await memory.put(f"response:resp_{number:048x}", "x" * characters, 3600)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert whole._cache.currsize <= conversation_state.CACHED_BYTES
    assert taken <= 1.25 * conversation_state.CACHED_BYTES
    assert len(whole._cache) <= conversation_state.CACHED_BYTES / conversation_state.ENTRY_BYTES


@pytest.mark.gen_test
async def test_another_process_reads_it(store: MemoryStore, tmp_path: Path) -> None:
    await SharedMemory(store).get_account_memory("ann").put("name", "seen", 60)
    code = (
        "import sys, pathlib; from tornado_gate.storage.conversation_state import MemoryStore;"
        "print(MemoryStore(pathlib.Path(sys.argv[1])).get('ann', ['name'])['name'].decode())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert said.strip() == b'"seen"'


@pytest.mark.gen_test
async def test_a_file_that_is_damaged_is_as_good_as_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / conversation_state.FILE_NAME).write_bytes(b"this is no database" * 1000)
    ann = SharedMemory(MemoryStore(tmp_path)).get_account_memory("ann")
    await ann.put("name", 1, 60)
    assert await ann.get("name") == 1
    assert await ann.get("other") is None
    assert not await ann.delete("other")
    assert "could not write conversation state" in caplog.text


# Groups


@pytest.mark.gen_test
async def test_all_of_a_group_expires_when_its_newest_value_does(store: MemoryStore) -> None:
    ann = SharedMemory(store).get_account_memory("ann")
    await ann.extend_group("g", {"g": "head", "g:1": 1}, 1000, new=True)
    await ann.extend_group("g", {"g:2": 2}, 2000)
    with store._file.use_connection() as connection:
        (expiries,) = connection.execute("SELECT COUNT(DISTINCT expires) FROM memory").fetchone()
    assert expiries == 1


@pytest.mark.gen_test
async def test_a_broken_file_fails_requests_about_groups(tmp_path: Path) -> None:
    (tmp_path / conversation_state.FILE_NAME).write_bytes(b"no database" * 100)
    ann = SharedMemory(MemoryStore(tmp_path)).get_account_memory("ann")
    for work in (ann.read_group("g"), ann.extend_group("g", {"g": 1}, 60, new=True), ann.delete_group("g")):
        with pytest.raises(Unavailable) as caught:
            await work
        assert caught.value.code == "storage_unavailable"


@pytest.mark.gen_test
async def test_a_closed_store_has_no_file_open_and_opens_it_again(store: MemoryStore, tmp_path: Path) -> None:
    ann = SharedMemory(store).get_account_memory("ann")
    await ann.put("name", 1, 60)
    assert list_open_files(tmp_path)
    store.close()
    assert list_open_files(tmp_path) == []
    assert await SharedMemory(store).get_account_memory("ann").get("name") == 1
    store.close()


def list_open_files(folder: Path) -> list[str]:
    links = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return [name for link in links if link.is_symlink() and (name := os.readlink(link)).startswith(str(folder))]
