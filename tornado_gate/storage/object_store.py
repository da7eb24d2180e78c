"""The store of files in a bucket, for several nodes: an image made at one node is served at all others.

A new file is written to a folder of the node first (`spool`), so that it is complete and its size is known, and is then
uploaded. `put` returns when the file is in the bucket. If the bucket does not respond, `put` returns after a bounded wait: the
node serves the file from its folder, and `sweep` uploads it when the bucket is back. A file that is in both is the same, because
the content of an id never changes.

An object is `<folder><id>`, with its name, its times and its media type as metadata. Ids contain the account (see `file_ids`), so
a listing yields the bytes of each account. The nodes need one secret for ids and addresses (see `bucket_check.py`).
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from tornado_gate.account_shares import may_hold
from tornado_gate.errors import GateError, NotFound
from tornado_gate.storage.bucket import LIST_PAGE, Bucket, StoredObject
from tornado_gate.storage.bucket_usage import BucketUsage
from tornado_gate.storage.file_ids import FileIds, digest_account
from tornado_gate.storage.files import (
    FILE_ID,
    MediaFile,
    MediaFull,
    MediaStore,
    MediaUnavailable,
    ReadableFile,
    file_not_found_error,
    file_too_large_error,
    format_content_disposition,
    media_full_error,
)
from tornado_gate.storage.media_folder import MediaFolder
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

RETRY_SECONDS = 5.0
"""The interval at which files that are not uploaded yet are tried again."""
YOUNG_SECONDS = 10.0
"""A younger file is left to the process that stores it now."""
UPLOAD_WAIT_SECONDS = 20.0
"""The time for which `put` waits for an upload; a large file continues after it."""
LISTING_WAIT_SECONDS = 20.0
"""The time for which a request waits for a listing of the bucket, or for an eviction."""
UPLOADS_AT_ONCE = 4
LOOKS_AT_ONCE = 32
CLOSE_SECONDS = 5.0
REDIRECT_SECONDS = 3600.0
"""The longest validity of a URL of the bucket."""
LONGEST_DISPOSITION = 1000
"""S3 allows 2 KB of metadata, with the names in base64."""


class ObjectStore(MediaStore):
    """The files below `folder` of a bucket. `spool` is a folder of this node for files that are not uploaded yet.

    `on_pending` is called with the bytes of the spool after each look at it, for a metric.
    """

    sweep_seconds = RETRY_SECONDS

    def __init__(
        self,
        bucket: Bucket,
        spool: MediaFolder,
        *,
        redirects: bool = False,
        on_pending: Callable[[int], None] = lambda _: None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._bucket = bucket
        self._spool = spool
        self._redirects = redirects
        self._on_pending = on_pending
        self._folder = self.address.lstrip("/")
        self._ids = FileIds(self._secret)
        self._usage = BucketUsage(bucket, self._folder, self._ids)
        self._shared: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self._uploads: dict[str, asyncio.Task[bool]] = {}
        self._failed: set[str] = set()
        self._deletions: set[asyncio.Task[None]] = set()

    def configure(self, max_bytes: int, seconds: float) -> None:
        super().configure(max_bytes, seconds)
        self._spool.seconds = seconds

    @property
    def location(self) -> str:
        return f"{self._bucket.address}/{self._folder.rstrip('/')}"

    @property
    def is_away(self) -> bool:
        return self._bucket.is_away

    @property
    def largest_file_bytes(self) -> int:
        return min(super().largest_file_bytes, self._spool.largest_file_bytes)

    async def close(self) -> None:
        """Give running uploads CLOSE_SECONDS. Files that are not uploaded then follow after the next start."""
        running = [*self._uploads.values(), *self._deletions]
        if running:
            await asyncio.wait(running, timeout=CLOSE_SECONDS)
        for task in [*running, *self._shared.values()]:
            task.cancel()
        await self._bucket.close()

    # Writing

    async def make_room(self, size: int, *, account: str) -> None:
        if size > self.largest_file_bytes:
            raise file_too_large_error(self.largest_file_bytes)
        await self._spool.make_room(size, account=account)
        await self._admit(digest_account(account), size, reserves=False)

    async def put(
        self, chunks: AsyncIterator[bytes] | bytes, media_type: str, name: str = "", *, account: str = ""
    ) -> MediaFile:
        kept = await self._spool.put(chunks, media_type, name, account=account)
        owner = digest_account(account)
        try:
            await self._admit(owner, kept.size)
            upload = self._start_upload(kept.id)
            upload.add_done_callback(lambda _: self._usage.release(owner, kept.size))
            await self._wait_for_upload(upload)
        except BaseException:
            self._delete_soon(kept.id)
            raise
        return kept

    async def _admit(self, owner: str, size: int, *, reserves: bool = True) -> None:
        """Check that an owner may store `size` bytes, evict files for them, and reserve them. Raises MediaFull.

        A bucket that does not respond admits: the file stays in the spool, which has a limit.
        """
        if size > self.max_bytes:
            raise media_full_error()
        with suppress(MediaUnavailable):
            await self._await_room(owner, size)
        if reserves:
            self._usage.reserve(owner, size)

    async def _await_room(self, owner: str, size: int) -> None:
        """Return when there is room, or when it takes too long to evict files. Raises MediaFull, MediaUnavailable."""
        if not self._usage.is_listed:
            await self._share("listing", self._refresh_usage)
        for _ in range(2):  # the first may have been for the file of another request
            if self._has_room(owner, size):
                return
            make_room = partial(self._evict, owner, size) if self.evicts else self._refresh_usage
            if not await self._share("room", make_room):
                break
        if not self.evicts and not self._has_room(owner, size):
            log.warning("%s has no room for more files of one account", self.location)
            raise media_full_error()

    async def _share(self, name: str, begin: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Wait for work that all requests share, but not for longer than LISTING_WAIT_SECONDS. Return whether it has ended."""
        work = self._shared.get(name)
        if work is None:
            work = self._shared[name] = asyncio.create_task(begin())
            work.add_done_callback(lambda ended: self._shared.pop(name) and (ended.cancelled() or ended.exception()))
        await asyncio.wait([work], timeout=LISTING_WAIT_SECONDS)
        if not work.done():
            return False
        work.result()
        return True

    async def _evict(self, owner: str, size: int) -> None:
        await self._delete_objects(await self._usage.choose_evicted(self.max_bytes, size, owner))

    def _has_room(self, owner: str, size: int) -> bool:
        usage = self._usage
        if self.evicts:
            return usage.count_all() + size <= self.max_bytes
        return may_hold(size, usage.count_held(owner), usage.count_all(), self.max_bytes)

    # Uploading

    def _start_upload(self, file_id: str) -> asyncio.Task[bool]:
        task = self._uploads[file_id] = asyncio.create_task(self._upload(file_id))
        task.add_done_callback(partial(self._end_upload, file_id))
        return task

    def _end_upload(self, file_id: str, task: asyncio.Task[bool]) -> None:
        del self._uploads[file_id]
        self._failed.discard(file_id)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("the upload of %s%s failed", self._folder, file_id, exc_info=error)
        if error or not task.result():
            self._failed.add(file_id)

    async def _wait_for_upload(self, upload: asyncio.Task[bool]) -> None:
        """Wait for an upload, but not for longer than UPLOAD_WAIT_SECONDS. It is never interrupted: parts would stay behind."""
        await asyncio.wait([upload], timeout=UPLOAD_WAIT_SECONDS)

    async def _upload(self, file_id: str) -> bool:
        """Upload a file of the spool and delete it there. Return False if it must be tried again soon."""
        lock = await asyncio.to_thread(self._spool.lock_for_move, file_id)
        if lock is None:
            return True  # another process uploads it, or it was deleted
        try:
            async with self._slots:
                await self._move(file_id)
        except NotFound:
            return True  # it has expired or was deleted
        except GateError as error:
            log.warning("the file %s%s is not in the bucket yet, will retry: %s", self._folder, file_id, error.message)
            return False
        finally:
            os.close(lock)
        return True

    async def _move(self, file_id: str) -> None:
        path = self._spool.folder / file_id
        async with self._spool.open_for_reading(file_id) as (kept, _):
            await self._bucket.upload(self._folder + file_id, path, kept.size, _encode_attributes(kept))
        self._usage.add(self._ids.read_owner(file_id), kept.size)
        await self._spool.delete(file_id)

    async def sweep(self) -> None:
        """Upload the files that the spool has, and delete expired objects. Nothing is done while the bucket is away."""
        with suppress(MediaFull):
            await self._spool.sweep()
        files = await asyncio.to_thread(self._spool.list_files)
        self._on_pending(sum(file.size for file in files))
        self._failed &= {file.id for file in files}
        youngest = time.time() - YOUNG_SECONDS
        with suppress(MediaUnavailable):
            for file in files:
                if file.id in self._failed or (file.written < youngest and file.id not in self._uploads):
                    await self._upload_again(file.id)
            if self._usage.is_due:
                await self._refresh_usage()
            if self._bucket.is_away:
                await self._bucket.find(self._folder + "probe")  # notices the end of an outage without requests

    async def _upload_again(self, file_id: str) -> None:
        """Upload a file that an earlier attempt, or another process, may have uploaded. Raises MediaUnavailable."""
        stored = await self._bucket.find(self._folder + file_id)
        if stored is not None and stored.size == await self._spool.measure_file(file_id):
            await self._spool.delete(file_id)
        else:
            await asyncio.shield(self._start_upload(file_id))

    async def _refresh_usage(self) -> None:
        now = time.time()
        old = await self._usage.refresh(lambda modified: modified + self.seconds <= now)
        for first in range(0, len(old), LOOKS_AT_ONCE):
            keys = old[first : first + LOOKS_AT_ONCE]
            have_expired = await asyncio.gather(*map(self._has_expired, keys))
            await self._delete_objects(list(compress(keys, have_expired)))

    async def _has_expired(self, key: str) -> bool:
        """Return whether an object has expired. Its lifetime was fixed at its upload, and conf may have changed since."""
        stored = await self._bucket.find(key)
        return stored is not None and _read_number(stored.attributes, "expires") <= time.time()

    async def _delete_objects(self, keys: Sequence[str]) -> None:
        for first in range(0, len(keys), LIST_PAGE):
            await self._bucket.delete(keys[first : first + LIST_PAGE])

    # Reading

    @asynccontextmanager
    async def open_for_reading(self, file_id: str) -> AsyncIterator[tuple[MediaFile, ReadableFile]]:
        async with AsyncExitStack() as closing:
            opened: tuple[MediaFile, ReadableFile]
            try:
                opened = await closing.enter_async_context(self._spool.open_for_reading(file_id))
            except (NotFound, MediaUnavailable):
                kept = await self._find_object(file_id)
                opened = kept, _BucketFile(self._bucket, self._folder + file_id, kept.size)
            yield opened

    async def find_file(self, file_id: str) -> MediaFile:
        try:
            return await self._spool.find_file(file_id)
        except (NotFound, MediaUnavailable):
            return await self._find_object(file_id)

    async def _find_object(self, file_id: str) -> MediaFile:
        if not FILE_ID.fullmatch(file_id):
            raise file_not_found_error()
        stored = await self._bucket.find(self._folder + file_id)
        kept = _decode_attributes(file_id, stored) if stored is not None else None
        if kept is None or kept.expires <= time.time():
            raise file_not_found_error()
        return kept

    async def measure_file(self, file_id: str) -> int | None:
        if (size := await self._spool.measure_file(file_id)) is not None:
            return size
        stored = await self._bucket.find(self._folder + file_id) if FILE_ID.fullmatch(file_id) else None
        return None if stored is None else stored.size

    async def find_redirect(self, file_id: str, method: str, until: float) -> str:
        if not self._redirects:
            return ""
        try:
            await self._spool.find_file(file_id)
        except NotFound:
            kept = await self._find_object(file_id)
        else:
            return ""
        seconds = min(kept.expires, max(until, time.time() + 1)) - time.time()
        return await self._bucket.sign(self._folder + file_id, method, max(1.0, min(seconds, REDIRECT_SECONDS)))

    # Deleting

    async def delete(self, file_id: str) -> None:
        if not FILE_ID.fullmatch(file_id):
            return
        if upload := self._uploads.get(file_id):
            await self._wait_for_upload(upload)
            if not upload.done():
                raise MediaUnavailable("The file is being uploaded to the object store. Try again later.")
        await self._spool.delete(file_id)
        await self._bucket.delete([self._folder + file_id])

    def _delete_soon(self, file_id: str) -> None:
        """Delete a file whose request has failed or was cancelled, when its upload has ended."""
        deletion = asyncio.create_task(self._delete_unused(file_id))
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deletions.discard)

    async def _delete_unused(self, file_id: str) -> None:
        if upload := self._uploads.get(file_id):
            await asyncio.wait([upload])
        try:
            await self.delete(file_id)
        except GateError as error:
            log.warning("the unused file %s stays until it expires: %s", file_id, error.message)


class _BucketFile(NamedTuple):
    """An object of `size` bytes. Each range that is read is one request."""

    bucket: Bucket
    key: str
    size: int

    async def read(self) -> bytes:
        try:
            return b"".join([chunk async for chunk in self.read_range(0, self.size)])
        except EOFError:
            raise MediaUnavailable("The gateway's object store sent an incomplete file. Try again.") from None

    async def read_range(self, first: int, end: int) -> AsyncGenerator[bytes]:
        chunks = self.bucket.read(self.key, first, end)
        try:
            async for chunk in chunks:
                yield chunk
        except FileNotFoundError:
            raise file_not_found_error() from None
        finally:
            await chunks.aclose()


def _encode_attributes(kept: MediaFile) -> dict[str, str]:
    """Return the attributes of an object: its headers at a redirect, and its metadata. Azure allows only letters in names."""
    disposition = format_content_disposition(kept)
    if len(disposition) > LONGEST_DISPOSITION:
        disposition = format_content_disposition(replace(kept, name=""))
    return {
        "Content-Type": kept.media_type,
        "Content-Disposition": disposition,
        "name": base64.urlsafe_b64encode(kept.name.encode("utf-8", "replace")).decode(),
        "created": repr(kept.created),
        "expires": repr(kept.expires),
    }


def _decode_attributes(file_id: str, stored: StoredObject) -> MediaFile | None:
    """Return a file from an object; None for an object that the gateway has not uploaded."""
    try:
        name = base64.urlsafe_b64decode(stored.attributes.get("name", "")).decode()
    except ValueError:
        return None
    return MediaFile(
        id=file_id,
        size=stored.size,
        media_type=stored.attributes.get("Content-Type", "application/octet-stream"),
        name=name,
        created=_read_number(stored.attributes, "created"),
        expires=_read_number(stored.attributes, "expires"),
    )


def _read_number(attributes: Mapping[str, str], name: str) -> float:
    try:
        return float(attributes.get(name, ""))
    except ValueError:
        return 0.0
