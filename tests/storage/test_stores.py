"""The contract of every store of files: the folder, and a bucket of an emulated S3."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.support.s3 import BUCKET, KEY, REGION, S3, SECRET
from tornado_gate.config.model import BucketConfig, Secret
from tornado_gate.errors import NotFound
from tornado_gate.storage.bucket import Bucket
from tornado_gate.storage.files import FileTooLarge, MediaFull, MediaStore
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.storage.object_store import ObjectStore

DATA = random.Random(1).randbytes(1024)
LARGE = random.Random(2).randbytes(20_000_000)
SIGNING = b"s" * 32

Open = Callable[..., MediaStore]
"""Opens the same files again, as another process or node does; with other settings if they are given."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    emulator = S3()
    yield emulator
    emulator.kill()


@pytest.fixture(params=["folder", "bucket"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "folder":
        return lambda **settings: MediaFolder(tmp_path / "media", secret=SIGNING, **settings)
    s3: S3 = request.getfixturevalue("s3")
    nodes = iter(range(100))
    return lambda **settings: open_bucket(s3, tmp_path, f"node-{next(nodes)}", **settings)


def open_bucket(s3: S3, folder: Path, node: str, **settings: Any) -> ObjectStore:
    """The store of one node, which has a folder of its own. A folder of a test is a prefix of the bucket."""
    options = {"region": REGION, "access_key_id": KEY, "secret_access_key": SECRET}
    prefix = str(folder).replace("/", "-").strip("-")
    bucket = Bucket(
        BucketConfig(
            store=f"s3://{BUCKET}/{prefix}",
            endpoint=s3.url,
            options={name: Secret(value) for name, value in options.items()},
        )
    )
    spool = MediaFolder(folder / node, secret=SIGNING, evicts=False, seconds=settings.get("seconds", 3600))
    return ObjectStore(bucket, spool, secret=SIGNING, **settings)


async def iterate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def read(store: MediaStore, file_id: str) -> bytes:
    async with store.open_for_reading(file_id) as (_, file):
        return await file.read()


async def read_range(store: MediaStore, file_id: str, first: int, end: int) -> bytes:
    async with store.open_for_reading(file_id) as (_, file), aclosing(file.read_range(first, end)) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def is_gone(store: MediaStore, file_id: str) -> bool:
    try:
        await store.find_file(file_id)
    except NotFound:
        return True
    return False


@pytest.mark.gen_test
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_stored_file_is_found_everywhere(open_store: Open, streamed: bool) -> None:
    here, there = open_store(), open_store()
    kept = await here.put(
        iterate(DATA[:100], DATA[100:]) if streamed else DATA, "image/png", "Katze ñ.png", account="a"
    )
    assert (kept.size, kept.media_type, kept.name) == (1024, "image/png", "Katze ñ.png")
    for store in (here, there):
        assert await store.find_file(kept.id) == kept
        assert await read(store, kept.id) == DATA
        assert await store.measure_file(kept.id) == 1024


@pytest.mark.gen_test
async def test_a_large_file_is_read_in_ranges(open_store: Open) -> None:
    kept = await open_store().put(iterate(LARGE[:7_000_000], LARGE[7_000_000:]), "video/mp4")
    there = open_store()
    assert await read(there, kept.id) == LARGE
    for first, end in ((0, 1), (0, len(LARGE)), (9_000_000, 9_000_010), (19_999_999, 20_000_000), (5, 5)):
        assert await read_range(there, kept.id, first, end) == LARGE[first:end]


@pytest.mark.gen_test
async def test_an_empty_file_is_a_file(open_store: Open) -> None:
    kept = await open_store().put(b"", "text/plain")
    assert (kept.size, await read(open_store(), kept.id)) == (0, b"")


@pytest.mark.gen_test
async def test_an_address_that_one_store_has_signed_is_valid_at_another(open_store: Open) -> None:
    here, there = open_store(), open_store()
    kept = await here.put(DATA, "image/png")
    until = str(int(kept.expires))
    signature = here.sign(kept.id, kept.expires).partition("signature=")[2]
    assert there.verify_signature(kept.id, until, signature)
    assert not there.verify_signature(kept.id, until + "0", signature)


@pytest.mark.gen_test
async def test_a_missing_file_is_not_found_whatever_its_id(open_store: Open) -> None:
    store = open_store()
    for file_id in ("0" * 32 + ".png", "../signing-secret", "", "a/b", "0" * 32, "0" * 32 + ".png/"):
        assert await is_gone(store, file_id), file_id
        await store.delete(file_id)
        assert await store.measure_file("0" * 32 + ".png") is None


@pytest.mark.gen_test
async def test_a_deleted_file_is_gone_everywhere(open_store: Open) -> None:
    here, there = open_store(), open_store()
    kept = await here.put(DATA, "image/png")
    await there.delete(kept.id)
    assert await is_gone(here, kept.id)
    await there.delete(kept.id)


@pytest.mark.gen_test
async def test_an_expired_file_is_gone_and_then_deleted(open_store: Open) -> None:
    store = open_store(seconds=-1)
    kept = await store.put(DATA, "image/png")
    assert await is_gone(store, kept.id)
    await store.sweep()
    assert await open_store().measure_file(kept.id) is None


@pytest.mark.gen_test
async def test_a_file_keeps_the_lifetime_it_was_stored_with(open_store: Open) -> None:
    kept = await open_store(seconds=1000).put(DATA, "image/png")
    shorter = open_store(seconds=-1)
    await shorter.sweep()
    assert await shorter.find_file(kept.id) == kept


@pytest.mark.gen_test
async def test_a_source_that_fails_leaves_nothing(open_store: Open) -> None:
    store, fault = open_store(), ValueError("cut")

    async def fail() -> AsyncIterator[bytes]:
        yield LARGE
        raise fault

    with pytest.raises(ValueError, match="cut"):
        await store.put(fail(), "video/mp4", account="a")
    await store.make_room(store.largest_file_bytes, account="a")


@pytest.mark.gen_test
async def test_the_largest_account_makes_room(open_store: Open) -> None:
    data = DATA * 20  # metadata also takes room in a folder
    store = open_store(max_bytes=int(6.5 * len(data)))
    small = await store.put(data, "image/png", account="small")
    large = [await store.put(data, "image/png", account="large") for _ in range(3)]
    new = [await store.put(data, "image/png", account=f"new-{number}") for number in range(3)]
    assert not any([await is_gone(store, kept.id) for kept in (small, *new)])
    assert any([await is_gone(store, kept.id) for kept in large])


@pytest.mark.gen_test
async def test_a_store_that_keeps_its_files_refuses_new_ones_by_account(open_store: Open) -> None:
    store = open_store(max_bytes=8 * 1500, evicts=False)
    kept = [await store.put(DATA, "image/png", account="a") for _ in range(3)]
    with pytest.raises(MediaFull):
        for _ in range(10):
            kept.append(await store.put(DATA, "image/png", account="a"))
    with pytest.raises(MediaFull):
        await store.make_room(2000, account="a")
    await store.put(DATA, "image/png", account="b")
    assert not any([await is_gone(store, file.id) for file in kept])
    await store.close()


@pytest.mark.gen_test
async def test_a_file_above_the_bound_is_refused_at_once(open_store: Open) -> None:
    store = open_store(max_bytes=10_000)
    other = await store.put(DATA, "image/png", account="a")
    with pytest.raises(FileTooLarge):
        await store.make_room(10_000, account="b")
    with pytest.raises(MediaFull):
        await store.put(iterate(LARGE), "video/mp4", account="b")
    assert not await is_gone(store, other.id)
    await store.close()
