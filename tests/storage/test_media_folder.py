"""Files that the gateway keeps: whole or not at all, for a while, within a cap, in one folder that processes share."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import stat
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiofiles
import pytest

from tests.support.process import Child
from tornado_gate.errors import GateError, NotFound
from tornado_gate.storage import media_folder
from tornado_gate.storage.files import (
    MAX_METADATA_BYTES,
    MediaFile,
    MediaFull,
    MediaUnavailable,
    load_media_secret,
)
from tornado_gate.storage.media_folder import MediaFolder

DATA = bytes(range(256)) * 4


@pytest.fixture
def store(tmp_path: Path) -> MediaFolder:
    return MediaFolder(tmp_path / "media", secret=load_media_secret(tmp_path))


def other(store: MediaFolder, **settings: Any) -> MediaFolder:
    """The same folder under other settings, as another process may have it."""
    return MediaFolder(store.folder, secret=store._secret, **settings)


def address(store: MediaFolder, kept: MediaFile) -> str:
    return store.sign(kept.id, time.time() + 60)


def names(store: MediaFolder) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def content(store: MediaFolder, file_id: str) -> bytes:
    async with store.open_for_reading(file_id) as (_, file):
        return await file.read()


async def is_gone(store: MediaFolder, file_id: str) -> bool:
    try:
        await content(store, file_id)
    except NotFound:
        return True
    return False


# Addresses


@pytest.mark.gen_test
async def test_an_address_is_made_of_random_bits_and_the_kind_of_the_file(store: MediaFolder) -> None:
    first, second = [await store.put(DATA, "video/mp4", "../../name") for _ in range(2)]
    assert re.fullmatch(r"/media/[0-9a-f]{32}\.mp4\?expires=\d+&signature=[0-9a-f]{64}", address(store, first))
    assert first.id != second.id


@pytest.mark.gen_test
async def test_files_are_for_their_owner_only(store: MediaFolder) -> None:
    await store.put(DATA, "image/png")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()} == {0o600}


# An end


@pytest.mark.gen_test
async def test_a_file_that_has_expired_is_gone_and_then_removed(store: MediaFolder) -> None:
    old = await other(store, seconds=-1).put(DATA, "image/png")
    assert await is_gone(store, old.id)
    assert names(store)
    await store.sweep()
    assert names(store) == []
    old = await other(store, seconds=-1).put(DATA, "image/png")
    new = await store.put(DATA, "image/png")
    assert names(store) == [new.id, f"{new.id}.about"]
    assert old.id != new.id


@pytest.mark.gen_test
async def test_a_file_outlives_a_restart(store: MediaFolder) -> None:
    kept = await store.put(DATA, "image/png", "cat.png")
    assert await other(store).find_file(kept.id) == kept
    await store.delete(kept.id)
    assert names(store) == []


def room_for(count: int, size: int = 1024) -> int:
    """A cap under which `count` files fit, each with its facts, and one more does not."""
    return (count - 1) * (size + 400) + size + MAX_METADATA_BYTES


async def put_aged(store: MediaFolder, age: float) -> MediaFile:
    """A file that was written `age` seconds ago."""
    kept = await store.put(DATA, "image/png")
    os.utime(store.folder / kept.id, (0, time.time() - age))
    return kept


@pytest.mark.gen_test
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_oldest_files_make_room_after_those_that_have_expired(store: MediaFolder, streamed: bool) -> None:
    small = other(store, max_bytes=room_for(3))
    middle, oldest = await put_aged(small, 20), await put_aged(small, 30)
    expired = await put_aged(other(store, max_bytes=small.max_bytes, seconds=-1), 10)
    assert len(names(store)) == 6
    first = await small.put(pieces(DATA) if streamed else DATA, "image/png")
    assert {name[:36] for name in names(store)} == {middle.id, oldest.id, first.id}
    second = await small.put(pieces(DATA) if streamed else DATA, "image/png")
    assert {name[:36] for name in names(store)} == {middle.id, first.id, second.id}
    assert expired.id not in names(store)


@pytest.mark.gen_test
async def test_a_file_that_is_being_read_is_not_evicted(store: MediaFolder) -> None:
    small = other(store, max_bytes=room_for(2))
    read, unread = await put_aged(small, 20), await put_aged(small, 10)
    async with small.open_for_reading(read.id) as (_, file):
        third = await other(store, max_bytes=small.max_bytes).put(DATA, "image/png")
        assert await file.read() == DATA
        await small.delete(read.id)
        assert {name[:36] for name in names(store)} == {read.id, third.id}
        async with small.open_for_reading(third.id):
            with pytest.raises(MediaFull):
                await small.put(DATA, "image/png")
    assert unread.id not in names(store)
    fourth = await small.put(DATA, "image/png")
    assert {name[:36] for name in names(store)} == {third.id, fourth.id}


@pytest.mark.gen_test
async def test_a_file_that_is_being_written_is_not_evicted(store: MediaFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_folder, "ABANDONED_SECONDS", -1.0)
    small = other(store, max_bytes=room_for(2))

    async def source() -> AsyncIterator[bytes]:
        yield DATA[:512]
        await small.put(DATA, "image/png")
        await small.sweep()
        yield DATA[512:]

    kept = await small.put(source(), "image/png")
    assert await content(store, kept.id) == DATA


@pytest.mark.gen_test
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_file_that_can_never_fit_evicts_nobody(store: MediaFolder, streamed: bool) -> None:
    small = other(store, max_bytes=room_for(3))
    kept = await small.put(DATA, "image/png")
    with pytest.raises(MediaFull) as caught:
        await small.put(pieces(DATA, DATA * 10) if streamed else DATA * 11, "image/png")
    assert caught.value.status == 507
    assert names(store) == [kept.id, f"{kept.id}.about"]


@pytest.mark.gen_test
async def test_a_file_of_unknown_size_makes_room_while_it_grows(
    store: MediaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_folder, "BYTES_BETWEEN_SCANS", 1000)
    small = other(store, max_bytes=room_for(5))
    old = [await put_aged(small, age) for age in (40, 30, 20, 10)]
    seen: list[int] = []

    async def source() -> AsyncIterator[bytes]:
        for _ in range(4):
            seen.append(len(names(store)))
            yield DATA

    kept = await small.put(source(), "image/png")
    assert seen[0] == 9  # four files, their facts, and this one
    assert seen[-1] < 9
    assert {name[:36] for name in names(store)} == {kept.id, old[2].id, old[3].id}


@pytest.mark.gen_test
async def test_what_is_not_ours_is_left_alone(store: MediaFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_folder, "ABANDONED_SECONDS", -1.0)
    store.folder.mkdir()
    for name in ("README", "0" * 32, "x.png", ".hidden", "0" * 32 + ".png.bak"):
        (store.folder / name).write_bytes(DATA)
    before = names(store)
    await other(store, max_bytes=MAX_METADATA_BYTES).sweep()
    assert names(store) == before


# Accounts


async def count_of(store: MediaFolder, kept: list[MediaFile]) -> int:
    """How many of these files are still there."""
    return len(kept) - sum([await is_gone(store, file.id) for file in kept])


@pytest.mark.gen_test
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_account_that_makes_many_files_evicts_its_own_and_nobody_elses(
    store: MediaFolder, streamed: bool
) -> None:
    small = other(store, max_bytes=room_for(10))
    ours = [await small.put(DATA, "image/png", account="ours") for _ in range(3)]
    for file in ours:
        os.utime(store.folder / file.id, (0, 0))  # the oldest of all
    theirs = [await small.put(pieces(DATA) if streamed else DATA, "image/png", account="greedy") for _ in range(30)]
    assert await count_of(store, ours) == 3
    assert 6 <= await count_of(store, theirs) <= 10
    assert not await is_gone(store, theirs[-1].id)


@pytest.mark.gen_test
async def test_a_new_account_takes_its_room_from_the_one_that_holds_most(store: MediaFolder) -> None:
    small = other(store, max_bytes=room_for(12))
    large = [await small.put(DATA, "image/png", account="large") for _ in range(9)]
    middle = [await small.put(DATA, "image/png", account="middle") for _ in range(3)]
    new = [await small.put(DATA, "image/png", account="new") for _ in range(4)]
    assert await count_of(store, middle) == 3
    assert await count_of(store, new) == 4
    assert await count_of(store, large) < 9


@pytest.mark.gen_test
async def test_an_account_whose_files_are_all_in_use_does_not_evict_those_of_others(store: MediaFolder) -> None:
    small = other(store, max_bytes=room_for(4))
    theirs = await small.put(DATA, "image/png", account="small")
    async with AsyncExitStack() as reading:
        for _ in range(3):
            file = await small.put(DATA, "image/png", account="large")
            await reading.enter_async_context(small.open_for_reading(file.id))
        with pytest.raises(MediaFull):
            await small.put(DATA, "image/png", account="large")
    assert not await is_gone(store, theirs.id)


@pytest.mark.gen_test
@pytest.mark.parametrize("streamed", [False, True])
async def test_where_nothing_is_evicted_an_account_leaves_as_much_as_it_holds(
    store: MediaFolder, streamed: bool
) -> None:
    videos = other(store, max_bytes=room_for(12), evicts=False)
    for account, least, most in (("first", 5, 6), ("second", 2, 3), ("third", 1, 2)):
        kept = 0
        with pytest.raises(MediaFull):
            while True:
                await videos.put(pieces(DATA) if streamed else DATA, "video/mp4", account=account)
                kept += 1
        assert least <= kept <= most, account
    assert len([name for name in names(store) if name.endswith(".mp4")]) >= 8
    await videos.sweep()


@pytest.mark.gen_test
async def test_addresses_do_not_show_which_files_belong_to_one_account(store: MediaFolder) -> None:
    kept = [await store.put(DATA, "image/png", account="same") for _ in range(20)]
    for start in range(0, 32, 4):
        assert len({file.id[start : start + 4] for file in kept}) > 10
    assert len({store._ids.read_owner(file.id) for file in kept}) == 1


# Faults


@pytest.mark.gen_test
@pytest.mark.parametrize("chunks", [DATA, pieces(DATA, DATA)], ids=["bytes", "chunks"])
async def test_a_full_disk_is_507_and_leaves_nothing(
    store: MediaFolder, monkeypatch: pytest.MonkeyPatch, chunks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(media_folder, "_create_file", lambda _path, _flags: os.open("/dev/full", os.O_WRONLY))
    with pytest.raises(MediaFull) as caught:
        await store.put(chunks, "image/png")
    assert (caught.value.status, caught.value.code) == (507, "storage_full")
    assert str(store.folder) not in caught.value.message
    assert "No space left" in caplog.text
    monkeypatch.undo()
    assert names(store) == []
    await store.put(DATA, "image/png")


@pytest.mark.gen_test
async def test_a_disk_that_is_full_for_the_facts_leaves_nothing(
    store: MediaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = media_folder._create_file

    def full(path: str | Path, flags: int) -> int:
        return os.open("/dev/full", os.O_WRONLY) if str(path).endswith(".about.part") else create(path, flags)

    monkeypatch.setattr(media_folder, "_create_file", full)
    with pytest.raises(MediaFull):
        await store.put(DATA, "image/png")
    assert names(store) == []


@pytest.mark.gen_test
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EIO])
async def test_a_disk_that_cannot_be_written_is_503(
    store: MediaFolder, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(path: str | Path, _flags: int) -> int:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(media_folder, "_create_file", refuse)
    with pytest.raises(MediaUnavailable) as caught:
        await store.put(DATA, "image/png")
    assert (caught.value.status, caught.value.code) == (503, "storage_unavailable")
    assert str(store.folder) not in caught.value.message


@pytest.mark.gen_test
async def test_a_folder_that_is_none_is_503(store: MediaFolder) -> None:
    store.folder.write_bytes(b"")
    for work in (store.put(DATA, "image/png"), store.sweep(), store.find_file("0" * 32 + ".png")):
        with pytest.raises(MediaUnavailable):
            await work


@pytest.mark.gen_test
@pytest.mark.parametrize("error", [ConnectionResetError("upstream"), GateError("no"), asyncio.CancelledError()])
async def test_a_source_that_fails_is_heard_and_leaves_nothing(store: MediaFolder, error: BaseException) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield DATA
        raise error

    with pytest.raises(type(error)) as caught:
        await store.put(source(), "image/png")
    assert caught.value is error
    assert names(store) == []


@pytest.mark.gen_test
@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"id": 1}', b"\xff"])
async def test_facts_that_are_damaged_make_a_file_gone(store: MediaFolder, damage: bytes) -> None:
    kept = await store.put(DATA, "image/png")
    (store.folder / f"{kept.id}.about").write_bytes(damage)
    assert await is_gone(store, kept.id)


@pytest.mark.gen_test
async def test_a_file_that_is_shorter_than_it_should_be_is_gone(store: MediaFolder) -> None:
    kept = await store.put(DATA, "image/png")
    os.truncate(store.folder / kept.id, 100)
    assert await is_gone(store, kept.id)


# Several processes

CHILD = """
import asyncio, sys, time
from pathlib import Path
from tornado_gate.storage.files import load_media_secret
from tornado_gate.storage.media_folder import MediaFolder

async def work():
    folder, what = Path(sys.argv[1]), sys.argv[2]
    store = MediaFolder(folder / "media", secret=load_media_secret(folder), max_bytes=int(sys.argv[3]))
    async def endless():
        yield b"x" * 300_000
        print("writing", flush=True)
        await asyncio.Event().wait()
    if what == "many":
        for _ in range(40):
            kept = await store.put(bytes(1024), "image/png")
        print("done", flush=True)
    else:
        kept = await store.put(endless() if what == "endless" else b"from a child", "image/png")
    print("address", store.sign(kept.id, time.time() + 60), flush=True)

asyncio.run(work())
"""


def child(tmp_path: Path, what: str, most: int = 10_000_000) -> Child:
    return Child([sys.executable, "-c", CHILD, str(tmp_path), what, str(most)])


@pytest.mark.gen_test
async def test_what_one_process_keeps_another_serves(store: MediaFolder, tmp_path: Path) -> None:
    said = child(tmp_path, "one")
    found = await asyncio.to_thread(said.wait_for_line, r"address /media/(\S+)\?expires=(\d+)&signature=(\w+)")
    assert store.verify_signature(found[1], found[2], found[3])
    assert await content(store, found[1]) == b"from a child"
    said.stop()


@pytest.mark.gen_test
async def test_processes_keep_one_cap_together(store: MediaFolder, tmp_path: Path) -> None:
    most = room_for(10)
    children = [child(tmp_path, "many", most) for _ in range(3)]
    for one in children:
        await asyncio.to_thread(one.wait_for_line, "done")
        one.stop()
    await other(store, max_bytes=most).sweep()
    whole = [name for name in names(store) if name.endswith(".png")]
    assert len(whole) >= 5
    assert len(names(store)) == 2 * len(whole)
    assert sum(path.stat().st_size for path in store.folder.iterdir()) <= most
    for file_id in whole:
        assert await content(store, file_id) == bytes(1024)


@pytest.mark.gen_test
async def test_a_process_that_is_killed_while_it_writes_leaves_no_file(
    store: MediaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = child(tmp_path, "endless")
    await asyncio.to_thread(writer.wait_for_line, "writing")
    (part,) = names(store)
    assert part.endswith(".png.part")
    monkeypatch.setattr(media_folder, "ABANDONED_SECONDS", -1.0)
    await store.sweep()
    assert names(store) == [part]  # its writer lives
    writer.kill()
    file_id = part.removesuffix(".part")
    assert await is_gone(store, file_id)
    await store.sweep()
    assert names(store) == []


@pytest.mark.gen_test
async def test_a_process_that_died_between_file_and_facts_leaves_no_file(
    store: MediaFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await store.put(DATA, "image/png")
    lone = await store.put(DATA, "image/png")
    (store.folder / f"{kept.id}.about").rename(store.folder / f"{kept.id}.about.part")
    (store.folder / lone.id).unlink()
    for one in (kept, lone):
        assert await is_gone(store, one.id)
    await store.sweep()
    assert len(names(store)) == 3  # it may still be at work
    monkeypatch.setattr(media_folder, "ABANDONED_SECONDS", -1.0)
    await store.sweep()
    assert names(store) == []


@pytest.mark.gen_test
async def test_the_facts_beside_a_file_are_plain(store: MediaFolder) -> None:
    kept = await store.put(DATA, "image/png", "猫.png")
    async with aiofiles.open(store.folder / f"{kept.id}.about") as file:
        about = json.loads(await file.read())
    assert about == {
        "id": kept.id, "size": 1024, "media_type": "image/png", "name": "猫.png",
        "created": kept.created, "expires": kept.expires,
    }  # fmt: skip


@pytest.mark.gen_test
async def test_a_link_is_not_followed(store: MediaFolder, tmp_path: Path) -> None:
    kept = await store.put(b"secret", "text/plain")
    path = store.folder / kept.id
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(MediaUnavailable):
        await content(store, kept.id)
