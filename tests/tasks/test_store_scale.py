"""Many thousand tasks: what is done often costs no more than it does among a hundred."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_store_contract import a_task, leased
from tornado_gate.tasks.file_index import record_path
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.file_sweep import due_path, marker_name
from tornado_gate.tasks.record import TaskRecord, encode_record
from tornado_gate.tasks.store import ActiveTask, compute_digest
from tornado_gate.types import replace

MANY, FEW = 20_000, 100
ACTIVE_EACH = 10
"""Of so many tasks one has not ended."""
EXPIRES = 4_000_000_000.0
DUE = 1000.0
TEMPLATE = "video_" + "f" * 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("scale")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def many(folder: Path) -> tuple[FileTaskStore, list[str]]:
    return filled(folder / "many", MANY)


@pytest.fixture(scope="module")
def few(folder: Path) -> tuple[FileTaskStore, list[str]]:
    return filled(folder / "few", FEW)


def write(path: Path | str, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, data)
    os.close(descriptor)


def resealed(data: bytes, task_id: str, created: int) -> bytes:
    """The bytes of a record under another id, as quickly as so many of them need it."""
    record = data[data.index(b'"record":') + 9 : -2]
    record = record.replace(TEMPLATE.encode(), task_id.encode()).replace(b"1790000000.5", b"%d.5" % created)
    return b'{"sha256":"' + hashlib.sha256(record).hexdigest().encode() + b'","record":' + record + b"}\n"


def filled(folder: Path, number: int) -> tuple[FileTaskStore, list[str]]:
    """A store with so many tasks of one account, written as the store would, without its care; and their ids, oldest first."""
    store = FileTaskStore(folder)
    store.disk.make("active", "accounts", *(f"records/{shard:02x}" for shard in range(256)))
    ids, lines = [f"video_{secrets.token_hex(16)}" for _ in range(number)], []
    running = a_task(id=TEMPLATE, created_at=1_790_000_000.5)
    ended = replace(running, step="done", status="completed", expires_at=EXPIRES)
    kinds = {
        "running": encode_record(running),
        "ended": encode_record(ended),
        "due": encode_record(replace(ended, expires_at=DUE)),
    }
    for count, task_id in enumerate(ids):
        kind = "due" if count == 1 else "ended" if count % ACTIVE_EACH else "running"
        created = 1_790_000_000 + count
        write(record_path(store.disk, task_id), resealed(kinds[kind], task_id, created))
        if kind == "running":
            task = ActiveTask(created * 10**9 + 5 * 10**8, compute_digest("studio"), compute_digest("acme"), task_id)
            write(folder / "active" / marker_name(task), b"")
        elif count % 100 == 1:
            path = due_path(store.disk, DUE if kind == "due" else EXPIRES, task_id)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, b"")
        lines.append(f"{created * 10**9 + 5 * 10**8:020d} {task_id}\n")
    write(store._index.path("acme"), "".join(lines).encode())
    return store, ids


async def seconds_of_gets(store: FileTaskStore, ids: list[str]) -> list[float]:
    took = []
    for task_id in [secrets.choice(ids) for _ in range(500)]:
        began = time.perf_counter()
        await store.get(task_id)
        took.append(time.perf_counter() - began)
    return took


@pytest.mark.qa
@pytest.mark.timeout(180)
@pytest.mark.gen_test(timeout=60)
async def test_a_restart_finds_what_is_to_be_run_at_once(many: tuple[FileTaskStore, list[str]]) -> None:
    store = FileTaskStore(many[0].disk.root)
    began = time.perf_counter()
    await store.open()
    active = await store.list_active()
    took = time.perf_counter() - began
    assert [task.id for task in active] == many[1][::ACTIVE_EACH]
    assert took < 2.0
    print(f"open and active among {MANY} records, {len(active)} of them active: {took:.3f} s")


@pytest.mark.qa
@pytest.mark.timeout(180)
@pytest.mark.gen_test(timeout=60)
async def test_no_record_is_read_to_find_what_is_active(
    many: tuple[FileTaskStore, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> bytes:
        raise AssertionError("a record was read")

    for name in ("read", "read_blocking"):
        monkeypatch.setattr(f"tornado_gate.tasks.file_disk.Disk.{name}", forbidden)
    assert len(await many[0].list_active()) == await many[0].count_active("acme") == MANY // ACTIVE_EACH


@pytest.mark.timeout(180)
@pytest.mark.gen_test(timeout=60)
async def test_one_task_is_found_without_a_look_at_any_folder(
    many: tuple[FileTaskStore, list[str]], few: tuple[FileTaskStore, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any) -> Any:
        raise AssertionError("a folder was listed")

    monkeypatch.setattr(os, "scandir", forbidden)
    monkeypatch.setattr(os, "listdir", forbidden)
    for (store, ids), number in ((few, FEW), (many, MANY)):
        p99 = statistics.quantiles(await seconds_of_gets(store, ids), n=100)[98]
        print(f"get among {number}: p99 {p99 * 1e6:.0f} us")
    store, ids = many
    record = await store.get(ids[0])
    lease = await leased(store, record.id)
    await store.save(record, lease)
    await lease.release()
    await store.list("acme", ids[50], 20, "desc")
    made = await store.create(a_task(account="new"), None, "key")
    await store.request_cancel(made.id)
    await store.delete(made.id)


def watched(store: FileTaskStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the records that are read from now on."""
    read: list[str] = []
    real = store._records.read_blocking

    def reading(task_id: str) -> TaskRecord:
        read.append(task_id)
        return real(task_id)

    monkeypatch.setattr(store._records, "read_blocking", reading)
    return read


@pytest.mark.timeout(180)
@pytest.mark.gen_test(timeout=60)
@pytest.mark.parametrize("after", [0, MANY // 2, MANY - 21])
async def test_a_page_costs_as_many_records_as_it_shows(
    many: tuple[FileTaskStore, list[str]], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    store, ids = many
    read = watched(store, monkeypatch)
    page = await store.list("acme", ids[after], 20, "asc")
    assert [record.id for record in page.records] == ids[after + 1 : after + 21]
    assert page.has_more == (after < MANY - 21)
    assert len(read) <= 21


@pytest.mark.qa
@pytest.mark.timeout(180)
@pytest.mark.gen_test(timeout=60)
async def test_a_sweep_reads_only_what_is_due(
    many: tuple[FileTaskStore, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ids = many
    read = watched(store, monkeypatch)
    assert await store.sweep(DUE) == [ids[1]]
    assert read == [ids[1]]
    assert (await store.list("acme", "", 2, "asc")).records[1].id == ids[2]
