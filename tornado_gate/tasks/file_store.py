"""The task store in a folder, which the processes of one machine share.

::

    records/<2 hex>/<id>.json                            the record; a task exists if it has one
    active/<created_ns>.<provider>.<account>.<id>        has not ended; the lock on it is the lease
    images/<id>                                          the image of a task that has not ended
    accounts/<sha256>.log                                the account's tasks in their order; see file_index
    keys/<2 hex>/<sha256>                                the task that was created with an idempotency key
    due/<YYYYMMDDHH>/<expires_us>.<id>                   has ended, and is deleted then
    cancels/<id>                                         its cancellation was requested
    slots/<provider>/<n>                                 the lock on it is the slot of a running task
    slots/<provider>/turns                               the accounts whose tasks were started, last one last
    locks/, tmp/, damaged/                               short locks; unfinished files; damaged records

A task is created by one rename, which puts its record in place. A process that dies in `create` leaves:

=====================  ==========================================================================================
killed after           what is left
=====================  ==========================================================================================
the image              an image without a marker: swept
the marker, locked     a marker without a record: it gives no lease, and is swept
the account's line     a line without a record: it is ignored
the key                a key without a record: it can be used again
the record             the task; its lock ended with the process, so any process runs it
=====================  ==========================================================================================

`delete` uses the reverse order: the key, the image and the requested cancellation first, then the record, then the marker and the
date. `finish` writes the date, then the record, then removes the marker: a date whose record has not ended is dropped when it
is due, and a marker whose record has ended gives a lease under which `finish` is called again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.file_disk import Disk, Held
from tornado_gate.tasks.file_image import StoredImage
from tornado_gate.tasks.file_index import AccountIndex, record_path
from tornado_gate.tasks.file_leases import Leases
from tornado_gate.tasks.file_records import Records, lock_path
from tornado_gate.tasks.file_sweep import Sweep, due_path, find_marker_name, list_markers
from tornado_gate.tasks.record import ID, TaskRecord, UniqueTimes, encode_record
from tornado_gate.tasks.store import (
    MAX_SEARCHED,
    ActiveTasks,
    Lease,
    TaskIds,
    TaskPage,
    TaskSearch,
    Turn,
    WaitingTasks,
    compute_digest,
    compute_key_digest,
    key_conflict_error,
    require_lease,
    task_not_found_error,
    too_many_tasks_error,
    unknown_after_error,
)
from tornado_gate.types import Upload
from tornado_gate.types.value import replace

FOLDERS = ("records", "active", "images", "accounts", "keys", "due", "cancels", "slots", "locks", "tmp", "damaged")

T = TypeVar("T")


class FileTaskStore:
    """A `TaskStore` in `folder`, which is created if needed. All files are readable by their owner only."""

    is_shared = False

    def __init__(self, folder: Path) -> None:
        self.disk = Disk(folder)
        self._index = AccountIndex(self.disk)
        self._records = Records(self.disk)
        self._leases = Leases(self.disk, self._records)
        self._times = UniqueTimes()
        self._accounts_to_compact: set[str] = set()  # accounts whose tasks were deleted since the last sweep
        self._unfinished: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        await self._run_blocking(self.disk.make, *FOLDERS)

    async def close(self) -> None:
        if self._unfinished:
            await asyncio.wait(self._unfinished)
        self._leases.note_active(())

    def get_time(self) -> float:
        return time.time()

    def digest(self, text: str) -> str:
        return compute_digest(text)

    async def _run_blocking(
        self, function: Callable[..., T], *arguments: Any, undo: Callable[[T], None] | None = None
    ) -> T:
        """Return the result of a function that blocks on the disk, run in a thread.

        It is finished even when its caller is cancelled; then `undo` is called with the result, which would be lost.
        """

        def run_with_mapped_errors() -> T:
            with self.disk.map_errors():
                return function(*arguments)

        future = asyncio.get_running_loop().run_in_executor(None, run_with_mapped_errors)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(
                    lambda done: None if done.cancelled() or done.exception() else undo(done.result())
                )
            raise

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a change, which is finished even when its caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._note_finished)
        return await asyncio.shield(task)

    def _note_finished(self, task: asyncio.Task[Any]) -> None:
        self._unfinished.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone when the error arises

    # Making

    async def create(
        self,
        record: TaskRecord,
        image: AsyncIterator[bytes] | None,
        idempotency_key: str = "",
        *,
        limit: int | None = None,
    ) -> TaskRecord:
        if not ID.fullmatch(record.id):
            raise ValueError(f"{record.id!r} is not the id of a task")
        key = compute_key_digest(record.account, idempotency_key) if idempotency_key else ""
        record = replace(self._times.make_unique(record), key=key)
        if key and (earlier := await self._run_blocking(self._find_earlier, record)) is not None:
            return earlier
        part = None
        if image is not None:
            part, size = await self._take_image(image)
            about = record.image or {"media_type": "application/octet-stream", "filename": ""}
            record = replace(record, image={**about, "size": size})
        return await self._finish(self._create(record, part, limit))

    async def _take_image(self, image: AsyncIterator[bytes]) -> tuple[Held, int]:
        """Return the image in a part, and its size."""
        part = await self._run_blocking(self.disk.part, undo=Held.discard)
        return part, await self._fill(part, image)

    async def _fill(self, part: Held, chunks: AsyncIterator[bytes]) -> int:
        """Write chunks to a part, which is discarded when that fails. Return the number of bytes."""
        size = 0
        try:
            with self.disk.map_errors():
                writer = part.open_writer()
            try:
                async for chunk in chunks:
                    size += len(chunk)
                    with self.disk.map_errors():
                        await writer.write(chunk)
            finally:
                with self.disk.map_errors():
                    await writer.close()
        except BaseException:
            await self._run_blocking(part.discard)
            raise
        return size

    async def _write_record(self, record: TaskRecord) -> Held:
        """Return the encoded record in a part, which is not durable yet."""
        data, part = await self._run_blocking(self._encode, record, undo=lambda made: made[1].discard())
        await self._fill(part, _yield_once(data))
        return part

    def _encode(self, record: TaskRecord) -> tuple[bytes, Held]:
        return encode_record(record), self.disk.part()

    async def _create(self, record: TaskRecord, image: Held | None, limit: int | None) -> TaskRecord:
        try:
            part = await self._write_record(record)
        except BaseException:
            await self._run_blocking(_discard, image)
            raise
        return await self._run_blocking(self._create_locked, record, image, part, limit)

    def _create_locked(self, record: TaskRecord, image: Held | None, part: Held, limit: int | None) -> TaskRecord:
        try:
            if not record.key:
                return self._make_task(record, image, part, limit)
            with self.disk.hold_lock(lock_path(self.disk, "key", record.key)):
                return self._find_earlier(record) or self._make_task(record, image, part, limit)
        finally:
            _discard(image, part)

    def _find_earlier(self, record: TaskRecord) -> TaskRecord | None:
        """Return the task that the account has created with this key. Raises TaskConflict when its digest differs."""
        try:
            earlier = self._records.read_blocking(self._read_key(record.key))
        except NotFound:
            return None
        if (earlier.account, earlier.key) != (record.account, record.key):
            return None
        if earlier.digest != record.digest:
            raise key_conflict_error()
        return earlier

    def _read_key(self, key: str) -> str:
        with suppress(FileNotFoundError):
            return self.disk.read_blocking(self._key_path(key)).decode("ascii", "replace")
        return ""

    def _make_task(self, record: TaskRecord, image: Held | None, part: Held, limit: int | None) -> TaskRecord:
        """Create the task in the order of the table above. A failure leaves nothing visible."""
        disk = self.disk
        made: list[Path] = []
        marker = disk.part()
        try:
            if image is not None:
                made.append(self._image_path(record.id))
                image.sync()
                disk.place(image, made[-1])
                disk.sync(made[-1].parent)
            made.append(self._marker_path(record))
            self._place_marker(record, marker, limit)
            disk.sync(made[-1].parent)
            self._index.append(record.account, record.created_ns, record.id)
            if record.key:
                made.append(self._key_path(record.key))
                disk.write_blocking(made[-1], record.id.encode())
            made.append(record_path(disk, record.id))
            part.sync()
            disk.place(part, made[-1])
            disk.sync(made[-1].parent)
        except BaseException:
            for path in reversed(made):
                with suppress(OSError):
                    os.unlink(path)
            raise
        finally:
            marker.discard()
        return record

    def _place_marker(self, record: TaskRecord, marker: Held, limit: int | None) -> None:
        """Count the task as active, unless its account has `limit` active ones: the marker counts the task."""
        with self.disk.hold_lock(lock_path(self.disk, "account", compute_key_digest(record.account, ""))):
            if limit is not None and self._count_active(record.account) >= limit:
                raise too_many_tasks_error(limit)
            self.disk.place(marker, self._marker_path(record))

    # Reading

    async def find_earlier(self, record: TaskRecord, idempotency_key: str) -> TaskRecord | None:
        keyed = replace(record, key=compute_key_digest(record.account, idempotency_key))
        return await self._run_blocking(self._find_earlier, keyed)

    async def get(self, task_id: str) -> TaskRecord:
        with self.disk.map_errors():
            return await self._records.read(task_id)

    async def find_image(self, task_id: str) -> Upload | None:
        record = await self.get(task_id)
        if record.image is None or record.has_ended:
            return None
        return await self._run_blocking(self._find_image_blocking, task_id, record.image)

    def _find_image_blocking(self, task_id: str, about: Mapping[str, Any]) -> Upload:
        path = self._image_path(task_id)
        status = os.lstat(path)
        if status.st_size != about.get("size"):
            raise OSError(f"{path} has {status.st_size} bytes, and had {about.get('size')}")
        media_type, filename = str(about.get("media_type", "")), str(about.get("filename", ""))
        return StoredImage(self.disk, path, media_type, filename, status.st_size)

    # Changes

    async def save(self, record: TaskRecord, lease: Lease) -> None:
        require_lease(record, lease)
        await self._finish(self._replace(record, self._records.replace))

    async def finish(self, record: TaskRecord, lease: Lease) -> None:
        require_lease(record, lease)
        if not record.has_ended:
            raise ValueError(f"{record.id} is at the step {record.step}: it has not ended")
        await self._finish(self._replace(record, self._finish_blocking))

    async def _replace(self, record: TaskRecord, replace_blocking: Callable[[TaskRecord, Held], None]) -> None:
        part = await self._write_record(record)
        await self._run_blocking(_call_and_discard, replace_blocking, record, part)

    def _finish_blocking(self, record: TaskRecord, part: Held) -> None:
        if record.expires_at is not None:
            self.disk.touch(due_path(self.disk, record.expires_at, record.id))
        self._records.replace(record, part)
        for path in (self._marker_path(record), self._image_path(record.id), self._cancel_path(record.id)):
            self.disk.remove(path)

    async def delete(self, task_id: str) -> None:
        if not await self._run_blocking(self._delete, task_id):
            raise task_not_found_error()

    def _delete(self, task_id: str) -> bool:
        record = self._records.read_blocking(task_id)
        was_there = self._remove(record)
        self.disk.sync(record_path(self.disk, task_id).parent)
        if record.expires_at is not None:
            self.disk.remove(due_path(self.disk, record.expires_at, task_id))
        return was_there

    def _remove(self, record: TaskRecord) -> bool:
        """Delete a task except for its date. Return whether it existed."""
        if record.key:
            with self.disk.hold_lock(lock_path(self.disk, "key", record.key)):
                if self._read_key(record.key) == record.id:  # another task may have the key by now
                    self.disk.remove(self._key_path(record.key))
        self.disk.remove(self._image_path(record.id))
        self.disk.remove(self._cancel_path(record.id))
        was_there = self._records.remove(record.id)
        self.disk.remove(self._marker_path(record))
        self._accounts_to_compact.add(record.account)
        return was_there

    async def request_cancel(self, task_id: str) -> None:
        await self._run_blocking(self._request_cancel, task_id)

    def _request_cancel(self, task_id: str) -> None:
        if self._records.read_blocking(task_id).has_ended:
            return
        path = self._cancel_path(task_id)
        self.disk.touch(path)
        try:
            ended = self._records.read_blocking(task_id).has_ended
        except NotFound:
            ended = True
        if ended:
            self.disk.remove(path)

    async def is_cancel_requested(self, task_id: str) -> bool:
        return bool(ID.fullmatch(task_id)) and await self._run_blocking(os.path.lexists, self._cancel_path(task_id))

    # The right to work

    async def acquire_lease(self, task_id: str) -> Lease | None:
        return await self._run_blocking(self._leases.acquire_lease, task_id, undo=_release)

    async def check_lease(self, lease: Lease) -> None:
        """Return always: the lock that is the lease ends with this process only."""

    async def acquire_slot(self, provider: str, limit: int) -> Held | None:
        return await self._run_blocking(self._leases.acquire_slot, provider, limit, undo=_release)

    async def acquire_turn(self, provider: str, limit: int, waiting: WaitingTasks) -> Turn | None:
        return await self._run_blocking(self._leases.acquire_turn, provider, limit, waiting, undo=_release_turn)

    # Many tasks

    async def list_active(self) -> ActiveTasks:
        return await self._run_blocking(self._list_active)

    def _list_active(self) -> ActiveTasks:
        tasks = sorted(list_markers(self.disk))
        self._leases.note_active(tasks)
        return tasks

    async def count_active(self, account: str) -> int:
        return await self._run_blocking(self._count_active, account)

    def _count_active(self, account: str) -> int:
        mine = compute_digest(account)
        return sum(task.account == mine for task in list_markers(self.disk))

    async def sweep(self, now: float) -> TaskIds:
        """Sweep batch by batch, so that other work on the disk can run in between."""
        sweep = Sweep(self.disk, read=self._records.read_blocking, remove=self._remove)
        gone: TaskIds = []
        for batch in await self._run_blocking(sweep.find_due, now):
            gone += await self._run_blocking(sweep.expire, batch, now)
        await self._run_blocking(sweep.delete_leftovers)
        key_lock = lock_path(self.disk, "key", sweep.key_shard)
        await self._run_blocking(sweep.delete_keys, key_lock, self._read_key)
        while self._accounts_to_compact:
            await self._run_blocking(self._index.compact, self._accounts_to_compact.pop(), self._list_active_ids)
        return gone

    def _list_active_ids(self) -> set[str]:
        return {task.id for task in list_markers(self.disk)}

    async def list(self, account: str, after: str, limit: int, order: Literal["asc", "desc"]) -> TaskPage:
        return await self._run_blocking(self._read_page, account, after, limit, order == "desc")

    def _read_page(self, account: str, after: str, limit: int, newest_first: bool) -> TaskPage:
        if after and not ID.fullmatch(after):
            raise unknown_after_error()
        records: list[TaskRecord] = []
        try:
            for record in self._read_existing(self._index.ids(account, after, newest_first=newest_first)):
                if record.account == account:
                    records.append(record)
                if len(records) > limit:
                    break
        except LookupError:
            raise unknown_after_error() from None
        return TaskPage(tuple(records[:limit]), len(records) > limit)

    async def list_all(self, after: str, limit: int, accepts: Callable[[TaskRecord], bool]) -> TaskSearch:
        return await self._run_blocking(self._search, after, limit, accepts)

    def _search(self, after: str, limit: int, accepts: Callable[[TaskRecord], bool]) -> TaskSearch:
        ids = self._index.list_newest()
        if after:
            if after not in ids:
                raise unknown_after_error()
            ids = ids[ids.index(after) + 1 :]
        matches: list[TaskRecord] = []
        last = ""
        for record in self._read_existing(ids[:MAX_SEARCHED]):
            if accepts(record):
                if len(matches) == limit:
                    return TaskSearch(tuple(matches), last)
                matches.append(record)
            last = record.id
        return TaskSearch(tuple(matches), ids[MAX_SEARCHED - 1] if len(ids) > MAX_SEARCHED else "")

    def scan(self) -> AsyncIterator[TaskRecord]:
        return self._records.scan()

    def _read_existing(self, ids: Iterable[str]) -> Iterable[TaskRecord]:
        for task_id in ids:
            with suppress(NotFound, MediaUnavailable):
                yield self._records.read_blocking(task_id)

    # Paths

    def _marker_path(self, record: TaskRecord) -> Path:
        return self.disk.root / "active" / find_marker_name(record)

    def _image_path(self, task_id: str) -> Path:
        return self.disk.root / "images" / task_id

    def _cancel_path(self, task_id: str) -> Path:
        return self.disk.root / "cancels" / task_id

    def _key_path(self, key: str) -> Path:
        return self.disk.root / "keys" / key[:2] / key


async def _yield_once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _call_and_discard(function: Callable[[TaskRecord, Held], None], record: TaskRecord, part: Held) -> None:
    try:
        function(record, part)
    finally:
        part.discard()


def _discard(*parts: Held | None) -> None:
    for part in parts:
        if part is not None:
            part.discard()


def _release(held: Held | None) -> None:
    if held is not None:
        held.unlock()


def _release_turn(turn: Turn | None) -> None:
    if turn is not None:
        for held in (turn.lease, turn.slot):
            assert isinstance(held, Held)
            held.unlock()
