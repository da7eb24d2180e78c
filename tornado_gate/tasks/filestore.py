"""The store of tasks in a folder, shared by the processes of one machine.

::

    records/<2 hex>/<id>.json                            the record; it is the task: what has none is not there
    active/<created_ns>.<provider>.<account>.<id>        has not ended; the lock on it is the lease
    images/<id>                                          the image of a task that has not ended
    accounts/<sha256>.log                                the account's tasks in their order; see fileindex
    keys/<2 hex>/<sha256>                                the task that an idempotency key has made
    due/<YYYYMMDDHH>/<expires_us>.<id>                   has ended, and is forgotten then
    cancels/<id>                                         shall not run
    slots/<provider>/<n>                                 the lock on it is a place among the running
    locks/, tmp/, damaged/                               held for moments; half written; records that nobody can read

Everything is arranged around one rename, that of the record into its place. A process that dies in `create` leaves:

=====================  ==========================================================================================
killed after           what there is
=====================  ==========================================================================================
the image              an image without a marker: swept
the marker, locked     a marker without a record: it gives no lease, and is swept
the account's line     a line without a record: it counts for nothing
the key                a key without a record: as if it had never been used
the record             the task, in every list, under its key; its lock went with the process, so anybody runs it
=====================  ==========================================================================================

`delete` goes the other way: the key, the image and the wish to cancel first, then the record, then the marker and the date.
`ended` notes the date, then saves the record, then removes the marker: a date whose record has not ended is dropped when it
comes, and a marker whose record has ended gives a lease under which `ended` is called again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from tornado_gate.errors import InvalidField, NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.filedisk import Disk, Held
from tornado_gate.tasks.fileimage import KeptImage
from tornado_gate.tasks.fileindex import ID, AccountIndex, record_path
from tornado_gate.tasks.filerecords import Records, lock_path
from tornado_gate.tasks.filesweep import Sweep, due_path, marker_name, markers
from tornado_gate.tasks.record import TaskRecord, as_bytes
from tornado_gate.tasks.store import ActiveTask, ActiveTasks, Lease, Names, Page, digest_of, key_conflict, no_such_task
from tornado_gate.types import Upload
from tornado_gate.types.value import replace

FOLDERS = ("records", "active", "images", "accounts", "keys", "due", "cancels", "slots", "locks", "tmp", "damaged")

T = TypeVar("T")


class FileTaskStore:
    """A `TaskStore` in `folder`, which is made where it is missing. All files are for their owner only."""

    def __init__(self, folder: Path) -> None:
        self.disk = Disk(folder)
        self._index = AccountIndex(self.disk)
        self._records = Records(self.disk)
        self._markers: dict[str, str] = {}  # task id to the name of its marker, as of the last look
        self._last_ns = 0
        self._bereft: set[str] = set()  # accounts that lost tasks since the last sweep

    async def open(self) -> None:
        await self._work(self.disk.make, *FOLDERS)

    async def close(self) -> None:
        self._markers = {}

    def digest(self, text: str) -> str:
        return digest_of(text)

    async def _work(self, function: Callable[..., T], *arguments: Any, undo: Callable[[T], None] | None = None) -> T:
        """What a function gives that waits for the disk, in a thread. It is finished even when its caller has left; then
        `undo` gets what it gave, which would be lost otherwise."""

        def explained() -> T:
            with self.disk.explained():
                return function(*arguments)

        future = asyncio.get_running_loop().run_in_executor(None, explained)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(
                    lambda done: None if done.cancelled() or done.exception() else undo(done.result())
                )
            raise

    # Making

    async def create(
        self, record: TaskRecord, image: AsyncIterator[bytes] | None, idempotency_key: str = ""
    ) -> TaskRecord:
        if not ID.fullmatch(record.id):
            raise ValueError(f"{record.id!r} is no id of a task")
        key = _key_digest(record.account, idempotency_key) if idempotency_key else ""
        record = replace(self._later(record), key=key)
        if key and (earlier := await self._work(self._earlier, record)) is not None:
            return earlier
        part = None
        if image is not None:
            part, size = await self._take(image)
            about = record.image or {"media_type": "application/octet-stream", "filename": ""}
            record = replace(record, image={**about, "size": size})
        return await self._work(self._create, record, part)

    def _later(self, record: TaskRecord) -> TaskRecord:
        """The record, a little later when its clock has not gone on since the last one. A clock set back is believed."""
        nanoseconds = record.created_ns
        if self._last_ns - 10_000_000 < nanoseconds <= self._last_ns:
            nanoseconds = self._last_ns + 1000
            record = replace(record, created_at=nanoseconds / 1e9)
        self._last_ns = nanoseconds
        return record

    async def _take(self, image: AsyncIterator[bytes]) -> tuple[Held, int]:
        """The image in a file that has no name of a task yet, and its size."""
        part = await self._work(self.disk.part, undo=Held.discard)
        size = 0
        try:
            async for chunk in image:
                size += len(chunk)
                await self._work(part.write, chunk)
        except BaseException:
            await self._work(part.discard)
            raise
        return part, size

    def _create(self, record: TaskRecord, image: Held | None) -> TaskRecord:
        try:
            if not record.key:
                return self._make(record, image)
            with self.disk.locked(lock_path(self.disk, "key", record.key)):
                return self._earlier(record) or self._make(record, image)
        finally:
            if image is not None:
                image.discard()

    def _earlier(self, record: TaskRecord) -> TaskRecord | None:
        """The task that the account made under this key before. Raises Conflict when its digest is another."""
        try:
            earlier = self._records.read(self._id_under(record.key))
        except NotFound:
            return None
        if (earlier.account, earlier.key) != (record.account, record.key):
            return None
        if earlier.digest != record.digest:
            raise key_conflict()
        return earlier

    def _id_under(self, key: str) -> str:
        with suppress(FileNotFoundError):
            return self.disk.read(self._key_path(key)).decode("ascii", "replace")
        return ""

    def _make(self, record: TaskRecord, image: Held | None) -> TaskRecord:
        """In the order of the table above. What fails leaves nothing that anybody would see."""
        disk, data = self.disk, as_bytes(record)
        made: list[Path] = []
        marker = disk.part()
        try:
            if image is not None:
                made.append(self._image_path(record.id))
                image.sync()
                disk.place(image, made[-1])
                disk.sync(made[-1].parent)
            made.append(self._marker_path(record))
            disk.place(marker, made[-1])
            disk.sync(made[-1].parent)
            self._index.append(record.account, record.created_ns, record.id)
            if record.key:
                made.append(self._key_path(record.key))
                disk.write(made[-1], record.id.encode())
            made.append(record_path(disk, record.id))
            disk.write(made[-1], data)
        except BaseException:
            for path in reversed(made):
                with suppress(OSError):
                    os.unlink(path)
            raise
        finally:
            marker.discard()
        return record

    # Reading

    async def earlier(self, record: TaskRecord, idempotency_key: str) -> TaskRecord | None:
        keyed = replace(record, key=_key_digest(record.account, idempotency_key))
        return await self._work(self._earlier, keyed)

    async def get(self, task_id: str) -> TaskRecord:
        return await self._work(self._records.read, task_id)

    async def image(self, task_id: str) -> Upload | None:
        return await self._work(self._find_image, task_id)

    def _find_image(self, task_id: str) -> Upload | None:
        record = self._records.read(task_id)
        if record.image is None or record.ended:
            return None
        path = self._image_path(task_id)
        status = os.lstat(path)
        if status.st_size != record.image.get("size"):
            raise OSError(f"{path} has {status.st_size} bytes, and had {record.image.get('size')}")
        media_type, filename = str(record.image.get("media_type", "")), str(record.image.get("filename", ""))
        return KeptImage(self.disk, path, media_type, filename, status.st_size)

    # Changing

    async def save(self, record: TaskRecord, lease: Lease) -> None:
        _check(record, lease)
        await self._work(self._records.replace, record)

    async def ended(self, record: TaskRecord, lease: Lease) -> None:
        _check(record, lease)
        if not record.ended:
            raise ValueError(f"{record.id} is at the step {record.step}: it has not ended")
        await self._work(self._end, record)

    def _end(self, record: TaskRecord) -> None:
        if record.expires_at is not None:
            self.disk.touch(due_path(self.disk, record.expires_at, record.id))
        self._records.replace(record)
        for path in (self._marker_path(record), self._image_path(record.id), self._cancel_path(record.id)):
            self.disk.remove(path)

    async def delete(self, task_id: str) -> None:
        if not await self._work(self._delete, task_id):
            raise no_such_task()

    def _delete(self, task_id: str) -> bool:
        record = self._records.read(task_id)
        was_there = self._remove(record)
        self.disk.sync(record_path(self.disk, task_id).parent)
        if record.expires_at is not None:
            self.disk.remove(due_path(self.disk, record.expires_at, task_id))
        return was_there

    def _remove(self, record: TaskRecord) -> bool:
        """Forget a task, but for the date on which it would be. Whether it was there."""
        if record.key:
            with self.disk.locked(lock_path(self.disk, "key", record.key)):
                if self._id_under(record.key) == record.id:  # another task may have it since
                    self.disk.remove(self._key_path(record.key))
        self.disk.remove(self._image_path(record.id))
        self.disk.remove(self._cancel_path(record.id))
        was_there = self._records.remove(record.id)
        self.disk.remove(self._marker_path(record))
        self._bereft.add(record.account)
        return was_there

    async def request_cancel(self, task_id: str) -> None:
        await self._work(self._request_cancel, task_id)

    def _request_cancel(self, task_id: str) -> None:
        if self._records.read(task_id).ended:
            return
        path = self._cancel_path(task_id)
        self.disk.touch(path)
        try:
            ended = self._records.read(task_id).ended
        except NotFound:
            ended = True
        if ended:
            self.disk.remove(path)

    async def cancel_requested(self, task_id: str) -> bool:
        return bool(ID.fullmatch(task_id)) and await self._work(os.path.lexists, self._cancel_path(task_id))

    # The right to work

    async def lease(self, task_id: str) -> Lease | None:
        return await self._work(self._lease, task_id, undo=_release)

    def _lease(self, task_id: str) -> Held | None:
        held = None
        try:
            name = self._markers.get(task_id) or marker_name(_active(self._records.read(task_id)))
            held = self.disk.try_lock(self.disk.root / "active" / name, task_id=task_id)
            if held is not None:
                self._records.read(task_id)
        except NotFound:  # its maker died before it was a task, or its eraser before it was none
            if held is not None:
                held.discard()
            return None
        except MediaUnavailable:
            _release(held)
            return None
        except BaseException:
            _release(held)
            raise
        return held

    async def slot(self, provider: str, limit: int) -> Held | None:
        if len(provider) != 8 or not provider.isalnum():
            raise ValueError(f"{provider!r} is no digest of a provider")
        return await self._work(self._slot, provider, limit, undo=_release)

    def _slot(self, provider: str, limit: int) -> Held | None:
        folder = self.disk.root / "slots" / provider
        taken = (self.disk.try_lock(folder / str(number), make=True) for number in range(limit))
        return next((held for held in taken if held is not None), None)

    # Many tasks

    async def active(self) -> ActiveTasks:
        return await self._work(self._look)

    def _look(self) -> ActiveTasks:
        found = sorted(markers(self.disk))
        self._markers = {task.id: marker_name(task) for task in found}
        return found

    async def count_active(self, account: str) -> int:
        mine = digest_of(account)
        return await self._work(lambda: sum(task.account == mine for task in markers(self.disk)))

    async def sweep(self, now: float) -> Names:
        """Batch by batch, so that other work of the disk comes in between."""
        sweep = Sweep(self.disk, read=self._records.read, remove=self._remove)
        gone: Names = []
        for batch in await self._work(sweep.due, now):
            gone += await self._work(sweep.expire, batch, now)
        await self._work(sweep.leftovers)
        key_lock = lock_path(self.disk, "key", sweep.key_shard)
        await self._work(sweep.keys, key_lock, self._id_under)
        while self._bereft:
            await self._work(self._index.compact, self._bereft.pop(), lambda: {task.id for task in markers(self.disk)})
        return gone

    async def list(self, account: str, after: str, limit: int, order: Literal["asc", "desc"]) -> Page:
        return await self._work(self._page, account, after, limit, order == "desc")

    def _page(self, account: str, after: str, limit: int, newest_first: bool) -> Page:
        if after and not ID.fullmatch(after):
            raise _no_such_place()
        found: list[TaskRecord] = []
        try:
            for record in self._readable(self._index.ids(account, after, newest_first=newest_first)):
                if record.account == account:
                    found.append(record)
                if len(found) > limit:
                    break
        except LookupError:
            raise _no_such_place() from None
        return Page(tuple(found[:limit]), len(found) > limit)

    def _readable(self, ids: Iterable[str]) -> Iterable[TaskRecord]:
        for task_id in ids:
            with suppress(NotFound, MediaUnavailable):
                yield self._records.read(task_id)

    # Places

    def _marker_path(self, record: TaskRecord) -> Path:
        return self.disk.root / "active" / marker_name(_active(record))

    def _image_path(self, task_id: str) -> Path:
        return self.disk.root / "images" / task_id

    def _cancel_path(self, task_id: str) -> Path:
        return self.disk.root / "cancels" / task_id

    def _key_path(self, key: str) -> Path:
        return self.disk.root / "keys" / key[:2] / key


def _active(record: TaskRecord) -> ActiveTask:
    return ActiveTask(record.created_ns, digest_of(record.provider), digest_of(record.account), record.id)


def _key_digest(account: str, key: str) -> str:
    text = f"{len(account)}\n{account}{key}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check(record: TaskRecord, lease: Lease) -> None:
    if not lease.held or lease.task_id != record.id:
        raise ValueError(f"{record.id} cannot be saved without its lease")


def _release(held: Held | None) -> None:
    if held is not None:
        held.release()


def _no_such_place() -> InvalidField:
    return InvalidField("after", "'after' must be the id of one of your tasks.")
