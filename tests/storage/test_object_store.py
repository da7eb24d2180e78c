"""The store of files in a bucket: outages of the object store, its limits over several nodes, and what is left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import obstore
import pytest

from tests.support.s3 import BUCKET, KEY, REGION, S3, SECRET
from tornado_gate.config.model import BucketConfig, Secret
from tornado_gate.errors import NotFound
from tornado_gate.storage import bucket as buckets
from tornado_gate.storage import bucket_usage, object_store
from tornado_gate.storage.bucket import Bucket, open_client
from tornado_gate.storage.files import MediaFull, MediaUnavailable
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.storage.object_store import ObjectStore

DATA = bytes(range(256)) * 40
LARGE = bytes(20_000_000)
SIGNING = b"s" * 32


@pytest.fixture(scope="module")
def emulator() -> Iterator[S3]:
    started = S3()
    yield started
    started.kill()


@pytest.fixture(autouse=True)
def patient_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the emulator answers late."""
    monkeypatch.setattr(buckets, "METADATA_SECONDS", 30.0)
    monkeypatch.setattr(buckets, "LIST_SECONDS", 30.0)


@pytest.fixture
def s3(emulator: S3) -> S3:
    """The emulator with an empty bucket."""
    for key in emulator.list_keys():
        emulator.client.delete_object(Bucket=BUCKET, Key=key)
    return emulator


@pytest.fixture
def outage(s3: S3) -> Iterator[S3]:
    """The emulator, which a test may kill or stop."""
    yield s3
    s3.kill()
    s3.start()


def make_config(s3: S3, **rest: Any) -> BucketConfig:
    options = {"region": REGION, "access_key_id": KEY, "secret_access_key": SECRET}
    secrets = {name: Secret(value) for name, value in options.items()}
    return BucketConfig(**{"store": f"s3://{BUCKET}/p", "endpoint": s3.url, "options": secrets} | rest)


class Node:
    """The store of a node, with its folder and what it has reported for metrics."""

    def __init__(self, s3: S3, folder: Path, *, spool_bytes: int = 10**9, **settings: Any) -> None:
        self.failures = 0
        self.pending: list[int] = []
        self.spool = MediaFolder(folder, secret=SIGNING, max_bytes=spool_bytes, evicts=False)
        self.bucket = Bucket(make_config(s3), self._count)
        self.store = ObjectStore(
            self.bucket, self.spool, on_pending=self.pending.append, secret=SIGNING, seconds=3600, **settings
        )
        self.store.configure(self.store.max_bytes, self.store.seconds)

    def _count(self) -> None:
        self.failures += 1

    async def read(self, file_id: str) -> bytes:
        async with self.store.open_for_reading(file_id) as (_, file):
            return await file.read()

    def list_names(self) -> list[str]:
        return sorted(path.name for path in self.spool.folder.iterdir())


async def iterate(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


# Outages


@pytest.mark.qa
@pytest.mark.gen_test
async def test_a_file_stays_on_its_node_until_the_bucket_is_back(
    outage: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "AWAY_SECONDS", 0.0)
    here, there = Node(outage, tmp_path / "a"), Node(outage, tmp_path / "b")
    outage.kill()
    kept = await here.store.put(DATA, "image/png", account="a")
    assert await here.read(kept.id) == DATA
    for fails in (there.store.find_file(kept.id), there.store.delete(kept.id), there.read(kept.id)):
        with pytest.raises(MediaUnavailable):
            await fails
    await here.store.sweep()
    assert here.pending[-1] >= len(DATA)
    assert here.failures
    outage.start()
    await here.store.sweep()
    assert await there.read(kept.id) == DATA
    assert here.list_names() == []
    await here.store.sweep()
    assert here.pending[-1] == 0


@pytest.mark.gen_test
async def test_a_bucket_that_does_not_respond_delays_one_request_only(
    outage: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "METADATA_SECONDS", 0.5)
    node = Node(outage, tmp_path)
    outage.hang()
    try:
        begun = time.monotonic()
        with pytest.raises(MediaUnavailable):
            await node.store.find_file("0" * 32 + ".png")
        results = await asyncio.gather(
            *(node.store.find_file("0" * 32 + ".png") for _ in range(1000)), return_exceptions=True
        )
        assert time.monotonic() - begun < 20
        assert {type(result) for result in results} == {MediaUnavailable}
        assert node.failures == 1
    finally:
        outage.go_on()


@pytest.mark.gen_test
async def test_after_an_outage_one_request_tries_the_bucket(
    outage: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(buckets, "AWAY_SECONDS", 0.0)
    bucket = Node(outage, tmp_path).bucket
    outage.kill()
    for _ in range(3):
        with pytest.raises(MediaUnavailable):
            await bucket.find("a")
    assert caplog.text.count("cannot be used") == 1
    outage.start()
    tries = await asyncio.gather(*(bucket.find("a") for _ in range(10)), return_exceptions=True)
    assert [type(result) for result in tries] == [type(None), *[MediaUnavailable] * 9]
    assert await bucket.find("a") is None


@pytest.mark.gen_test
async def test_a_bucket_that_stops_in_the_middle_of_a_file_ends_its_reading(
    outage: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await Node(outage, tmp_path / "a").store.put(iterate(LARGE), "video/mp4")
    monkeypatch.setattr(buckets, "CONTENT_SECONDS", 0.5)
    node = Node(outage, tmp_path / "b")
    async with node.store.open_for_reading(kept.id) as (_, file), aclosing(file.read_range(0, len(LARGE))) as chunks:
        size = len(await anext(chunks))
        outage.hang()
        try:
            with pytest.raises(MediaUnavailable):
                async for chunk in chunks:
                    size += len(chunk)
        finally:
            outage.go_on()
    assert 0 < size < len(LARGE)


@pytest.mark.gen_test
async def test_files_of_an_outage_have_a_limit_on_the_disk(outage: S3, tmp_path: Path) -> None:
    node = Node(outage, tmp_path, spool_bytes=5 * len(DATA))
    outage.kill()
    with pytest.raises(MediaFull):
        for _ in range(10):
            await node.store.put(DATA, "image/png", account="a")
    await node.store.put(DATA, "image/png", account="b")
    await node.store.close()


@pytest.mark.gen_test
async def test_the_files_of_a_folder_move_to_the_bucket(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "YOUNG_SECONDS", 0.0)
    folder = MediaFolder(tmp_path / "a", secret=SIGNING)
    kept = [await folder.put(DATA, "image/png", account="a") for _ in range(3)]
    here, there = Node(s3, tmp_path / "a"), Node(s3, tmp_path / "b")
    assert await here.store.find_file(kept[0].id) == kept[0]
    await here.store.sweep()
    assert [await there.store.find_file(file.id) for file in kept] == kept
    assert here.list_names() == []


@pytest.mark.gen_test
async def test_a_file_that_another_process_has_uploaded_is_not_uploaded_again(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "YOUNG_SECONDS", 0.0)
    folder = MediaFolder(tmp_path / "a", secret=SIGNING)
    kept = await folder.put(DATA, "image/png", account="a")
    node = Node(s3, tmp_path / "a")
    s3.client.put_object(Bucket=BUCKET, Key=f"p/media/{kept.id}", Body=bytes(len(DATA)))
    await node.store.sweep()
    assert node.list_names() == []
    assert s3.client.get_object(Bucket=BUCKET, Key=f"p/media/{kept.id}")["Body"].read() == bytes(len(DATA))


# What is left behind


@pytest.mark.gen_test
async def test_a_source_that_fails_leaves_nothing_in_the_bucket(s3: S3, tmp_path: Path) -> None:
    node = Node(s3, tmp_path)

    async def fail() -> AsyncIterator[bytes]:
        yield LARGE
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError):
        await node.store.put(fail(), "video/mp4")
    assert (s3.list_keys(), s3.count_open_uploads(), node.list_names()) == ([], 0, [])


@pytest.mark.gen_test
async def test_a_request_that_is_cancelled_leaves_nothing(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, begun, upload = Node(s3, tmp_path), asyncio.Event(), Bucket.upload

    async def note_upload(*arguments: Any) -> None:
        begun.set()
        await upload(*arguments)

    monkeypatch.setattr(Bucket, "upload", note_upload)
    putting = asyncio.ensure_future(node.store.put(iterate(LARGE), "video/mp4"))
    await begun.wait()
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    await node.store.close()
    assert (s3.list_keys(), s3.count_open_uploads(), node.list_names()) == ([], 0, [])


@pytest.mark.gen_test
async def test_an_upload_that_takes_long_does_not_hold_its_request(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, go_on, upload = Node(s3, tmp_path), asyncio.Event(), Bucket.upload

    async def wait_before_upload(*arguments: Any) -> None:
        await go_on.wait()
        await upload(*arguments)

    monkeypatch.setattr(Bucket, "upload", wait_before_upload)
    monkeypatch.setattr(object_store, "UPLOAD_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(object_store, "YOUNG_SECONDS", 0.0)
    kept = await node.store.put(DATA, "video/mp4")
    other = Node(s3, tmp_path)  # another process of this node
    for process in (node, other):
        await process.store.sweep()  # leaves the file to its upload
        assert await process.read(kept.id) == DATA
    with pytest.raises(MediaUnavailable):
        await node.store.delete(kept.id)
    assert s3.list_keys() == []
    go_on.set()
    await node.store.close()
    assert s3.list_keys() == [f"p/media/{kept.id}"]


@pytest.mark.gen_test
async def test_an_object_that_the_gateway_has_not_uploaded_is_no_file(s3: S3, tmp_path: Path) -> None:
    file_id = "0" * 32 + ".png"
    s3.client.put_object(Bucket=BUCKET, Key=f"p/media/{file_id}", Body=b"x")
    with pytest.raises(NotFound):
        await Node(s3, tmp_path).store.find_file(file_id)


@pytest.mark.gen_test
async def test_an_object_that_disappears_while_it_is_read_is_not_found(s3: S3, tmp_path: Path) -> None:
    node = Node(s3, tmp_path)
    kept = await node.store.put(DATA, "image/png")
    async with node.store.open_for_reading(kept.id) as (_, file):
        s3.client.delete_object(Bucket=BUCKET, Key=f"p/media/{kept.id}")
        with pytest.raises(NotFound):
            await file.read()


# Limits


@pytest.mark.gen_test
async def test_nodes_share_one_limit(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_usage, "LISTED_SECONDS", 0.0)
    limits: dict[str, Any] = {"max_bytes": 8 * len(DATA), "evicts": False}
    here, there = Node(s3, tmp_path / "a", **limits), Node(s3, tmp_path / "b", **limits)
    first = [await here.store.put(DATA, "image/png", account="a") for _ in range(4)]
    with pytest.raises(MediaFull):
        await there.store.put(DATA, "image/png", account="a")
    await there.store.put(DATA, "image/png", account="b")
    for file in first[:2]:
        await here.store.delete(file.id)
    await there.store.put(DATA, "image/png", account="a")  # lists the bucket before it refuses
    await there.store.close()


@pytest.mark.gen_test
async def test_a_node_counts_its_own_uploads_at_once(s3: S3, tmp_path: Path) -> None:
    node = Node(s3, tmp_path, max_bytes=8 * len(DATA), evicts=False)
    results = await asyncio.gather(
        *(node.store.put(DATA, "image/png", account="a") for _ in range(10)), return_exceptions=True
    )
    assert [type(result) for result in results].count(MediaFull) == 6
    await node.store.close()
    assert len(s3.list_keys()) == 4


@pytest.mark.gen_test
async def test_a_full_bucket_is_not_listed_for_each_file(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[str] = []
    list_pages = Bucket.list_pages

    def note_listing(bucket: Bucket, folder: str) -> Any:
        listings.append(folder)
        return list_pages(bucket, folder)

    monkeypatch.setattr(Bucket, "list_pages", note_listing)
    monkeypatch.setattr(bucket_usage, "EVICTED_PART", 0.5)
    node = Node(s3, tmp_path, max_bytes=10 * len(DATA))
    for _ in range(21):
        await node.store.put(DATA, "image/png", account="a")
    assert len(listings) <= 5
    assert 5 <= len(s3.list_keys()) <= 10


# Other stores


@pytest.mark.qa
def test_a_folder_does_not_import_the_library() -> None:
    code = (
        "import sys; from tornado_gate.server.process import process;"
        "from tornado_gate.storage.media_stores import open_media_stores;"
        "config = process.load_config(None, process.Overrides()); open_media_stores(config, b's' * 32);"
        "sys.exit(any('obstore' in name or 'bucket' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gen_test
async def test_objects_are_deleted_beside_missing_ones(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, objects = Bucket(make_config(s3)), {"a", "c"}

    async def delete(_client: Any, keys: list[str]) -> None:
        """As Google and Azure do: each object is one request, and a missing object is an error."""
        for key in keys:
            if key not in objects:
                raise FileNotFoundError(key)
            objects.remove(key)

    monkeypatch.setattr(obstore, "delete_async", delete)
    await bucket.delete(["a", "b", "c"])
    await bucket.delete(["b"])
    assert not objects


def test_google_and_azure_are_opened_by_the_same_library(s3: S3) -> None:
    google = open_client(make_config(s3, store="gs://files/p", options={"skip_signature": Secret("true")}))
    azure = {"account_name": Secret("account"), "account_key": Secret("a2V5")}
    opened = open_client(make_config(s3, store="az://files/p", options=azure))
    assert (type(google).__name__, google.prefix) == ("GCSStore", "p")
    assert (type(opened).__name__, opened.prefix) == ("AzureStore", "p")
