"""The store of tasks in a folder: what is on the disk, and what is wrong with it."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import resource
import shutil
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiofiles.threadpool.binary import AsyncBufferedIOBase

from tests.tasks.test_store_contract import IMAGE, a_task, end, is_gone, leased, pieces
from tornado_gate.errors import GateError
from tornado_gate.storage.files import MediaFull, MediaUnavailable
from tornado_gate.tasks import file_disk, file_index, record
from tornado_gate.tasks.file_disk import Disk
from tornado_gate.tasks.file_store import FOLDERS, FileTaskStore
from tornado_gate.tasks.file_sweep import Sweep
from tornado_gate.tasks.record import encode_record
from tornado_gate.types import replace

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> FileTaskStore:
    return FileTaskStore(tmp_path / "tasks")


@pytest.fixture
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left this moment counts as left long ago."""
    monkeypatch.setattr(file_disk, "LEFT_SECONDS", -1.0)


def files(store: FileTaskStore) -> list[str]:
    """All files but locks, by their path in the folder."""
    found = (path for path in store.disk.root.rglob("*") if not path.is_dir())
    return sorted(str(path.relative_to(store.disk.root)) for path in found if "locks" not in path.parts)


def record_file(store: FileTaskStore, task_id: str) -> Path:
    return file_index.record_path(store.disk, task_id)


async def everything(store: FileTaskStore) -> FileTaskStore:
    """Use every part of the store once."""
    running = await store.create(a_task(), pieces(IMAGE), "key")
    await store.request_cancel(running.id)
    await end(store, await store.create(a_task(), None))
    slot = await store.acquire_slot(store.digest("studio"), 1)
    assert slot is not None
    await slot.release()
    return store


@pytest.mark.gen_test
async def test_everything_is_for_its_owner_only(store: FileTaskStore) -> None:
    old = os.umask(0)
    try:
        await store.open()
        await everything(store)
    finally:
        os.umask(old)
    kinds: dict[bool, set[int]] = {True: set(), False: set()}
    for path in [store.disk.root, *store.disk.root.rglob("*")]:
        kinds[path.is_dir()].add(stat.S_IMODE(path.stat().st_mode))
    assert kinds == {True: {0o700}, False: {0o600}}


@pytest.mark.gen_test
async def test_a_deleted_task_leaves_nothing_but_a_line(store: FileTaskStore) -> None:
    made = await store.create(a_task(), pieces(IMAGE), "key")
    await store.request_cancel(made.id)
    await store.delete(made.id)
    (line,) = files(store)
    assert line.startswith("accounts/")
    await store.sweep(time.time())
    assert files(store) == []


@pytest.mark.gen_test
async def test_a_task_that_ended_leaves_its_record_its_date_its_key_and_its_line(store: FileTaskStore) -> None:
    made = await end(store, await store.create(a_task(), pieces(IMAGE), "key"), expires_at=HOUR)
    assert [name.partition("/")[0] for name in files(store)] == ["accounts", "due", "keys", "records"]
    assert await store.sweep(2 * HOUR) == [made.id]
    assert files(store) == []
    await store.sweep(2 * HOUR)
    assert list((store.disk.root / "due").iterdir()) == []


@pytest.mark.gen_test
async def test_the_record_is_on_the_disk_before_its_name_and_the_name_before_the_answer(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.open()
    seen: list[tuple[str, str]] = []

    def watch(name: str, subject: Callable[..., str]) -> None:
        real = getattr(os, name)

        def watched(*arguments: Any) -> Any:
            seen.append((name, subject(*arguments)))
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)

    watch("fsync", lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
    watch("rename", lambda source, target: str(target))
    made = await store.create(a_task(), pieces(IMAGE), "key")
    monkeypatch.undo()
    path = record_file(store, made.id)
    placed = max(place for place, step in enumerate(seen) if step == ("rename", str(path)))
    part = next(subject for kind, subject in seen[placed::-1] if "/tasks/tmp/" in subject)
    assert ("fsync", part) in seen[:placed]
    assert seen[placed + 1 :] == [("fsync", str(path.parent))]
    before = [subject for kind, subject in seen[:placed] if kind == "fsync"]
    for folder in ("images", "active", "accounts"):
        assert str(store.disk.root / folder) in before, f"{folder} is made durable before the record"
    assert any(subject.startswith(str(store.disk.root / "keys")) for subject in before)


@pytest.mark.gen_test
async def test_a_record_that_is_replaced_is_durable_before_and_after_it_has_its_name(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await store.create(a_task(), None)
    path, steps = record_file(store, made.id), list[str]()

    def sync(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append("part" if name.parent.name == "tmp" else "folder" if name == path.parent else str(name))

    def rename(source: Path, target: Path) -> None:
        steps.append("named")
        rename_file(source, target)

    rename_file = os.rename
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    lease = await store.acquire_lease(made.id)
    assert lease is not None
    steps.clear()
    await store.save(replace(made, progress=5), lease)
    assert steps == ["part", "named", "folder"]
    await lease.release()


# Damage


@pytest.mark.gen_test
@pytest.mark.parametrize("how", ["empty", "torn", "flipped", "another's", "nonsense"])
async def test_a_damaged_record_is_set_aside_and_harms_no_other(
    store: FileTaskStore, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    made, other = [await store.create(a_task(), None, key) for key in ("one", "two")]
    await store.list_active()
    path = record_file(store, made.id)
    data = path.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "torn": data[:-40],
            "flipped": data.replace(b"a cat", b"a bat"),
            "another's": encode_record(other),
            "nonsense": b"\xff" * 99,
        }[how]
    )
    assert [task.id for task in await store.list_active()] == [made.id, other.id]  # which reads no record
    assert await store.acquire_lease(made.id) is None
    assert await is_gone(store, made.id)
    assert [task.id for task in await store.list_active()] == [other.id]
    assert (await store.list("acme", "", 9, "asc")).records == (other,)
    (aside,) = (store.disk.root / "damaged").iterdir()
    assert aside.name == path.name
    (line,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.ERROR]
    assert str(path) in line
    assert "damaged" in line
    assert (await store.create(a_task(), None, "one")).id != made.id
    assert (await store.create(a_task(), None, "two")).id == other.id


@pytest.mark.gen_test
async def test_a_record_of_a_newer_gateway_is_left_where_it_is(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await store.create(a_task(), None)
    ended = await end(store, await store.create(a_task(), None), expires_at=5.0)
    with monkeypatch.context() as older:
        older.setattr(record, "VERSION", 0)
        for task_id in (made.id, ended.id):
            with pytest.raises(MediaUnavailable):
                await store.get(task_id)
        assert await store.acquire_lease(made.id) is None
        assert (await store.list("acme", "", 9, "asc")).records == ()
        assert await store.sweep(10.0) == []
    assert await store.get(made.id) == made
    assert await store.sweep(10.0) == [ended.id]


@pytest.mark.gen_test
async def test_a_torn_line_of_an_account_is_written_over(store: FileTaskStore) -> None:
    first = await store.create(a_task(), None)
    (log,) = (store.disk.root / "accounts").iterdir()
    with log.open("ab") as file:
        file.write(b"00000000000000000000 video_00")
    assert (await store.list("acme", "", 9, "asc")).records == (first,)
    second = await store.create(a_task(), None)
    assert (await store.list("acme", "", 9, "asc")).records == (first, second)
    assert log.stat().st_size == 2 * file_index.LINE_BYTES


@pytest.mark.gen_test
async def test_a_spoilt_line_hides_no_other(store: FileTaskStore) -> None:
    made = [await store.create(a_task(), None) for _ in range(3)]
    (log,) = (store.disk.root / "accounts").iterdir()
    data = bytearray(log.read_bytes())
    data[file_index.LINE_BYTES + 30] ^= 255
    log.write_bytes(data)
    assert (await store.list("acme", "", 9, "desc")).records == (made[2], made[0])


@pytest.mark.gen_test
async def test_a_line_in_the_wrong_account_shows_nobody_elses_task(store: FileTaskStore) -> None:
    await store.create(a_task(), None)
    (log,) = (store.disk.root / "accounts").iterdir()
    theirs = await store.create(a_task(account="other"), None)
    with log.open("ab") as file:
        file.write(f"{theirs.created_ns:020d} {theirs.id}\n".encode())
    assert len((await store.list("acme", "", 9, "asc")).records) == 1


@pytest.mark.gen_test
@pytest.mark.parametrize("content", [b"", b"video_", b"\xff\0", b"../../x"])
async def test_a_spoilt_key_counts_as_unused(store: FileTaskStore, content: bytes) -> None:
    made = await store.create(a_task(), None, "key")
    (key,) = [path for path in (store.disk.root / "keys").rglob("*") if path.is_file()]
    key.write_bytes(content)
    again = await store.create(a_task(digest="body-2"), None, "key")
    assert again.id != made.id
    await store.delete(made.id)
    assert (await store.create(a_task(digest="body-2"), None, "key")).id == again.id


@pytest.mark.gen_test
async def test_a_key_that_leads_to_anothers_task_shows_it_to_nobody(store: FileTaskStore) -> None:
    theirs = await store.create(a_task(account="other"), None)
    await store.create(a_task(), None, "key")
    (key,) = [path for path in (store.disk.root / "keys").rglob("*") if path.is_file()]
    key.write_bytes(theirs.id.encode())
    assert (await store.create(a_task(), None, "key")).account == "acme"


@pytest.mark.gen_test
@pytest.mark.parametrize("how", ["gone", "shorter"])
async def test_an_image_that_was_lost_is_a_fault_and_not_a_task_without_one(store: FileTaskStore, how: str) -> None:
    made = await store.create(a_task(), pieces(IMAGE))
    image = await store.find_image(made.id)
    assert image is not None
    path = store.disk.root / "images" / made.id
    if how == "gone":
        path.unlink()
    else:
        os.truncate(path, 5)
    with pytest.raises(MediaUnavailable):
        await store.find_image(made.id)
    with pytest.raises(MediaUnavailable):
        await image.read()
    with pytest.raises(MediaUnavailable):
        [chunk async for chunk in image.chunks()]


# What is not ours


@pytest.mark.gen_test
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
async def test_foreign_files_are_left_alone_and_reported_once(
    store: FileTaskStore, kind: str, caplog: pytest.LogCaptureFixture, nothing_is_young: None
) -> None:
    await store.open()
    made = await store.create(a_task(), None, "key")
    ended = await end(store, await store.create(a_task(), None), expires_at=5.0)
    foreign = [store.disk.root / folder / "README" for folder in FOLDERS]
    foreign += [next((store.disk.root / "due").iterdir()) / "README", store.disk.root / "due" / "1970010100x"]
    for path in foreign:
        if kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to("/etc/passwd")
        else:
            path.write_bytes(b"hello")
    for _ in range(3):
        assert [task.id for task in await store.list_active()] == [made.id]
        await store.sweep(3.0)
    assert await store.sweep(10.0) == [ended.id]
    assert set(foreign) <= set(store.disk.root.rglob("*"))
    said = [entry.getMessage() for entry in caplog.records if "is ignored" in entry.getMessage()]
    assert len(said) == len(set(said))
    assert {f"{store.disk.root}/active/README", f"{store.disk.root}/tmp/README"} <= {line.split()[0] for line in said}


@pytest.mark.gen_test
async def test_a_file_in_the_place_of_an_hour_stops_no_sweep(store: FileTaskStore) -> None:
    ended = await end(store, await store.create(a_task(), None), expires_at=2 * HOUR)
    (store.disk.root / "due" / "1970010101").write_bytes(b"")
    assert await store.sweep(3 * HOUR) == [ended.id]


@pytest.mark.gen_test
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
async def test_what_is_no_file_is_no_record(store: FileTaskStore, kind: str, tmp_path: Path) -> None:
    made = await store.create(a_task(), None)
    path = record_file(store, made.id)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert await is_gone(store, made.id)


@pytest.mark.gen_test
async def test_a_link_in_the_place_of_a_lock_is_not_followed(store: FileTaskStore, tmp_path: Path) -> None:
    folder = store.disk.root / "slots" / store.digest("studio")
    folder.mkdir(parents=True)
    (folder / "0").symlink_to(tmp_path / "victim")
    with pytest.raises(MediaUnavailable):
        await store.acquire_slot(store.digest("studio"), 1)
    assert not (tmp_path / "victim").exists()


# A disk that is not well


FAULTS = [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EIO, 503), (errno.EROFS, 503), (errno.EACCES, 503)]


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> Iterator[None]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        if name == "write":
            patch.setattr(AsyncBufferedIOBase, "write", fail)
        yield


@pytest.mark.gen_test
@pytest.mark.parametrize(("number", "status"), FAULTS)
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "pwrite"])
async def test_a_fault_of_the_disk_makes_no_task_and_passes(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch, call: str, number: int, status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    await store.open()
    task = a_task()
    with failing(monkeypatch, call, number), pytest.raises(GateError) as raised:
        await store.create(task, pieces(IMAGE), "key")
    assert raised.value.status == status
    assert raised.value.code == ("storage_full" if status == 507 else "storage_unavailable")
    assert str(store.disk.root) not in raised.value.message
    assert str(store.disk.root) in caplog.text
    assert os.strerror(number) in caplog.text
    assert await store.list_active() == []
    assert [name for name in files(store) if not name.startswith("accounts/")] == []
    assert await store.create(task, pieces(IMAGE), "key") == await store.get(task.id)


@pytest.mark.gen_test
async def test_a_task_whose_folder_cannot_be_made_durable_is_taken_back(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last thing that can fail: the record is in its place already."""
    await store.open()
    task = a_task()
    folder = record_file(store, task.id).parent
    real = Disk.sync

    def sync(self: Disk, path: Path) -> None:
        if path == folder and path.is_dir() and os.listdir(path):
            raise OSError(errno.EIO, "input/output error")
        real(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "sync", sync)
        with pytest.raises(MediaUnavailable):
            await store.create(task, None, "key")
    assert await is_gone(store, task.id)
    assert await store.list_active() == []
    assert (await store.create(task, None, "key")).id == task.id


@pytest.mark.gen_test
async def test_a_record_that_cannot_be_saved_stays_as_it_was(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    for call in ("write", "fsync", "rename"):
        with failing(monkeypatch, call, errno.ENOSPC), pytest.raises(MediaFull):
            await store.save(replace(made, progress=50), lease)
        assert await store.get(made.id) == made
        assert not [name for name in files(store) if name.startswith("tmp/")]
    await store.save(replace(made, progress=50), lease)
    await lease.release()
    assert (await store.get(made.id)).progress == 50


@pytest.mark.gen_test
async def test_a_limit_on_the_size_of_files_is_a_fault_like_others(store: FileTaskStore) -> None:
    await store.open()
    task = a_task()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(MediaUnavailable):
            await store.create(task, pieces(IMAGE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert await is_gone(store, task.id)
    assert not [name for name in files(store) if not name.startswith("accounts/")]


@pytest.mark.gen_test
async def test_a_file_in_the_place_of_the_folder_is_a_fault_until_it_is_gone(store: FileTaskStore) -> None:
    store.disk.root.write_bytes(b"")
    attempts: list[Callable[[], Any]] = [
        store.open,
        store.list_active,
        lambda: store.create(a_task(), None),
        lambda: store.create(a_task(), pieces(IMAGE), "key"),
        lambda: store.get("video_" + "0" * 32),
        lambda: store.acquire_lease("video_" + "0" * 32),
        lambda: store.acquire_slot(store.digest("studio"), 1),
        lambda: store.list("acme", "", 5, "asc"),
        lambda: store.sweep(1.0),
        lambda: store.count_active("acme"),
    ]
    for attempt in attempts:
        with pytest.raises(MediaUnavailable):
            await attempt()
    store.disk.root.unlink()
    await everything(store)
    assert len(await store.list_active()) == 1


@pytest.mark.gen_test
async def test_a_folder_that_was_taken_away_is_made_again(store: FileTaskStore) -> None:
    await everything(store)
    shutil.rmtree(store.disk.root)
    assert await store.list_active() == []
    assert (await store.list("acme", "", 5, "asc")).records == ()
    assert await store.sweep(time.time()) == []
    await everything(store)


@pytest.mark.gen_test
async def test_a_lock_that_nobody_lets_go_of_does_not_hold_a_thread_for_ever(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_disk, "LOCK_SECONDS", 0.05)
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    held = store.disk.hold_lock(store.disk.root / "locks" / f"record-{made.id[6:8]}")
    with held, pytest.raises(MediaUnavailable):
        await store.save(made, lease)
    await store.save(made, lease)
    await lease.release()


# What is left behind


@pytest.mark.gen_test
async def test_what_dead_processes_left_is_swept(store: FileTaskStore, nothing_is_young: None) -> None:
    made = await store.create(a_task(), pieces(IMAGE), "key")
    await store.request_cancel(made.id)
    kept = files(store)
    ghost = a_task()
    marker = f"{ghost.created_ns:020d}.{'0' * 8}.{'0' * 8}.{ghost.id}"
    for name in (f"tmp/{'a' * 32}", f"images/{ghost.id}", f"cancels/{ghost.id}", f"active/{marker}"):
        (store.disk.root / name).parent.mkdir(exist_ok=True)
        (store.disk.root / name).write_bytes(b"x")
    await store.sweep(time.time())
    assert files(store) == kept


@pytest.mark.gen_test
async def test_what_is_young_or_in_somebodys_hands_is_not_swept(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.open()
    part = store.disk.part()
    (store.disk.root / "images" / a_task().id).write_bytes(b"x")
    await store.sweep(time.time())
    assert len(files(store)) == 2
    monkeypatch.setattr(file_disk, "LEFT_SECONDS", -1.0)
    await store.sweep(time.time())
    assert files(store) == [f"tmp/{part.path.name}"]
    part.unlock()
    await store.sweep(time.time())
    assert files(store) == []


@pytest.mark.gen_test
async def test_a_sweep_leaves_a_task_that_is_being_made_alone(
    store: FileTaskStore, nothing_is_young: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its record is not there it looks like what a dead process left, but for its locks."""
    twin = FileTaskStore(store.disk.root)
    await store.open()
    swept: list[str] = []
    real = Disk.place

    def place(self: Disk, part: Any, path: Path) -> None:
        if self is store.disk:
            sweep = Sweep(twin.disk, read=twin._records.read_blocking, remove=twin._remove)
            sweep.delete_leftovers()
            twin._index.compact("acme", lambda: {task.id for task in twin._list_active()})
            assert all(twin._leases.acquire_lease(task.id) is None for task in twin._list_active())
            swept.append(path.parent.name)
        real(self, part, path)

    monkeypatch.setattr(Disk, "place", place)
    made = await store.create(a_task(), pieces(IMAGE), "key")
    monkeypatch.undo()
    assert swept[:2] == ["images", "active"]
    assert len(swept) == 4
    image = await store.find_image(made.id)
    assert image is not None
    assert await image.read() == IMAGE
    assert [task.id for task in await store.list_active()] == [made.id]
    assert (await store.list("acme", "", 5, "asc")).records == (made,)


@pytest.mark.gen_test
async def test_a_marker_without_a_record_gives_no_lease_and_is_removed(store: FileTaskStore) -> None:
    made = await store.create(a_task(), None)
    await store.list_active()
    record_file(store, made.id).unlink()
    assert await store.acquire_lease(made.id) is None
    assert await store.list_active() == []


@pytest.mark.gen_test
async def test_keys_without_a_task_are_swept_in_their_turn(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other = [await store.create(a_task(), None, key) for key in ("one", "two")]
    record_file(store, made.id).unlink()
    shards = [path.name for path in (store.disk.root / "keys").iterdir()]
    for shard in shards:
        monkeypatch.setattr("tornado_gate.tasks.file_sweep.secrets.token_hex", lambda _, shard=shard: shard)
        await store.sweep(time.time())
    monkeypatch.undo()
    (key,) = [path for path in (store.disk.root / "keys").rglob("*") if path.is_file()]
    assert key.read_text() == other.id


@pytest.mark.gen_test
async def test_an_account_whose_tasks_are_mostly_gone_gets_a_shorter_file(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "FEWEST_DEAD", 4)
    made = [await store.create(a_task(), None) for _ in range(10)]
    (log,) = (store.disk.root / "accounts").iterdir()
    for record_ in made[:4]:
        await store.delete(record_.id)
    await store.sweep(time.time())
    assert log.stat().st_size == 10 * file_index.LINE_BYTES
    await store.delete(made[4].id)
    await store.sweep(time.time())
    assert log.stat().st_size == 5 * file_index.LINE_BYTES
    assert (await store.list("acme", "", 9, "asc")).records == tuple(made[5:])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.gen_test
async def test_a_list_is_read_over_the_borders_of_blocks(store: FileTaskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "BLOCK_LINES", 3)
    made = [(await store.create(a_task(), None)).id for _ in range(10)]
    for place, after in enumerate(made):
        newer = (await store.list("acme", after, 20, "asc")).records
        older = (await store.list("acme", after, 20, "desc")).records
        assert [record_.id for record_ in newer] == made[place + 1 :]
        assert [record_.id for record_ in older] == made[:place][::-1]


@pytest.mark.gen_test
async def test_a_sweep_looks_at_no_task_that_is_not_due(store: FileTaskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100 * HOUR + 1800
    due = await end(store, await store.create(a_task(), None), expires_at=now - 1)
    for later in (1, HOUR, 50 * HOUR):
        await end(store, await store.create(a_task(), None), expires_at=now + later)
    opened: list[str] = []
    real = store._records.read_blocking

    def read(task_id: str) -> record.TaskRecord:
        opened.append(task_id)
        return real(task_id)

    monkeypatch.setattr(store._records, "read_blocking", read)
    assert await store.sweep(now) == [due.id]
    assert opened == [due.id]


@pytest.mark.gen_test
async def test_a_caller_that_leaves_while_its_image_comes_leaves_nothing(store: FileTaskStore) -> None:
    came = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield IMAGE
        came.set()
        await asyncio.Event().wait()

    making = asyncio.ensure_future(store.create(a_task(), slow()))
    await came.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    async with asyncio.timeout(60):
        while await asyncio.to_thread(files, store):
            pass


@pytest.mark.gen_test
async def test_a_change_is_finished_though_its_caller_is_cancelled_and_closing_waits_for_it(
    store: FileTaskStore,
) -> None:
    """As when a server ends this moment: what an upstream has answered is not lost."""
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    saving = asyncio.ensure_future(store.save(replace(made, progress=50), lease))
    await asyncio.sleep(0)  # it has begun
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    await store.close()
    assert (await FileTaskStore(store.disk.root).get(made.id)).progress == 50
    assert not [name for name in files(store) if name.startswith("tmp/")]
    await lease.release()


@pytest.mark.gen_test
async def test_a_read_of_a_record_takes_two_calls_of_a_thread(
    store: FileTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await store.create(a_task(), None)
    loop = asyncio.get_running_loop()
    calls, real = [], loop.run_in_executor

    def count(executor: Any, function: Any, *arguments: Any) -> Any:
        calls.append(function)
        return real(executor, function, *arguments)

    monkeypatch.setattr(loop, "run_in_executor", count)
    assert await store.get(made.id) == made
    assert len(calls) == 2


@pytest.mark.gen_test
async def test_a_fork_does_not_keep_a_lease_alive(store: FileTaskStore) -> None:
    """As a worker process does that is forked while a task runs, and outlives its parent."""
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    twin = FileTaskStore(store.disk.root)
    (end_of_child, keeps), (tells, told) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, b"1" if not lease.is_held else b"0")
        os.read(end_of_child, 1)
        os._exit(0)
    assert os.read(tells, 1) == b"1"
    assert await twin.acquire_lease(made.id) is None, "what the child closes stays locked"
    await lease.release()
    other = await leased(twin, made.id)
    await other.release()
    os.write(keeps, b"1")
    await asyncio.to_thread(os.waitpid, child, 0)


@pytest.mark.gen_test
async def test_the_record_is_json_that_an_operator_can_read(store: FileTaskStore) -> None:
    made = await store.create(a_task(), None)
    assert json.loads(record_file(store, made.id).read_bytes())["record"]["id"] == made.id
