"""The task store in a PostgreSQL database, which all nodes share: `tasks: {store: database}`.

A task is one row, with the same encoded record as in a file. A lease is a time on the clock of the database, with a fence: each
process that takes the lease increases this number, and a change with an older number is not accepted. So a process that was
suspended or could not reach the database cannot overwrite the work of the process that has taken over.

While the database is away, running tasks continue, and their changes wait until it is back. Everything else is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Literal

from tornado_gate.database.clock import read_clock
from tornado_gate.database.engine import Database
from tornado_gate.tasks import database_rows as rows
from tornado_gate.tasks.database_calls import DatabaseCalls
from tornado_gate.tasks.database_holder import DatabaseLease, DatabaseSlot, Holder
from tornado_gate.tasks.database_image import DatabaseImage, store_image
from tornado_gate.tasks.record import ID, TaskRecord, UniqueTimes
from tornado_gate.tasks.store import (
    ActiveTasks,
    Lease,
    LeaseLost,
    TaskIds,
    TaskPage,
    TaskSearch,
    Turn,
    WaitingTasks,
    compute_digest,
    compute_key_digest,
    require_lease,
    task_not_found_error,
    too_many_tasks_error,
)
from tornado_gate.types import Upload
from tornado_gate.types.value import replace


class DatabaseTaskStore:
    """A `TaskStore` in `database`, which the store closes. All processes of all nodes have the same tasks."""

    is_shared = True

    def __init__(self, database: Database) -> None:
        self._calls = DatabaseCalls(database)
        self._holder = Holder(self._calls)
        self._times = UniqueTimes()

    async def open(self) -> None:
        await self._calls.open()
        self._calls.note_clock(await self._calls.read(read_clock))

    async def close(self) -> None:
        await self._holder.close()
        await self._calls.close()

    def get_time(self) -> float:
        return self._calls.get_time()

    def digest(self, text: str) -> str:
        return compute_digest(text)

    # One task

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
        if image is None:
            return await self._calls.write(rows.create_task, record, limit)
        if (earlier := await self._calls.read(rows.find_earlier, record)) is not None:
            return earlier
        if limit is not None and await self.count_active(record.account) >= limit:
            raise too_many_tasks_error(limit)
        return await self._create_with_image(record, image, limit)

    async def _create_with_image(
        self, record: TaskRecord, image: AsyncIterator[bytes], limit: int | None
    ) -> TaskRecord:
        """Store the image, then its task. The sweep deletes the image if this process ends in between."""
        try:
            size = await store_image(self._calls, record.id, image)
            record = replace(record, image={**(record.image or {}), "size": size})
            stored = await self._calls.write(rows.create_task, record, limit)
        except BaseException:
            await self._calls.discard(rows.delete_image_without_task, record.id)
            raise
        if stored.id != record.id:
            await self._calls.discard(rows.delete_image_without_task, record.id)
        return stored

    async def find_earlier(self, record: TaskRecord, idempotency_key: str) -> TaskRecord | None:
        keyed = replace(record, key=compute_key_digest(record.account, idempotency_key))
        return await self._calls.read(rows.find_earlier, keyed)

    async def get(self, task_id: str) -> TaskRecord:
        return await self._calls.read(rows.get_record, _check_id(task_id))

    async def find_image(self, task_id: str) -> Upload | None:
        is_running = self._holder.find_lease(task_id) is not None  # then its run waits while the database is away
        record = await (self._calls.persist(rows.get_record, task_id) if is_running else self.get(task_id))
        if record.image is None or record.has_ended:
            return None
        about = record.image
        return DatabaseImage(
            self._calls, task_id, str(about.get("media_type", "")), str(about.get("filename", "")), about.get("size", 0)
        )

    async def save(self, record: TaskRecord, lease: Lease) -> None:
        require_lease(record, lease)
        await self._replace(record, lease)

    async def finish(self, record: TaskRecord, lease: Lease) -> None:
        require_lease(record, lease)
        if not record.has_ended:
            raise ValueError(f"{record.id} is at the step {record.step}: it has not ended")
        await self._replace(record, lease)

    async def _replace(self, record: TaskRecord, lease: Lease) -> None:
        assert isinstance(lease, DatabaseLease)
        change = self._calls.persist(rows.replace_record, record, self._holder.id, lease.fence)
        lease.change = asyncio.ensure_future(change)
        await asyncio.shield(lease.change)

    async def delete(self, task_id: str) -> None:
        await self._calls.write(rows.delete_task, _check_id(task_id))

    async def request_cancel(self, task_id: str) -> None:
        await self._calls.write(rows.request_cancel, _check_id(task_id))
        if (lease := self._holder.find_lease(task_id)) is not None:
            lease.is_cancel_requested = True

    async def is_cancel_requested(self, task_id: str) -> bool:
        """Return the answer for a task of this process as of its last renewal, so that it works without the database."""
        lease = self._holder.find_lease(task_id)
        if lease is None:
            return bool(ID.fullmatch(task_id)) and await self._calls.read(rows.is_cancel_requested, task_id)
        if lease.is_lost:
            raise LeaseLost(f"{task_id} was taken by another process")
        return lease.is_cancel_requested

    # The right to work

    async def acquire_lease(self, task_id: str) -> DatabaseLease | None:
        return await self._holder.acquire_lease(task_id) if ID.fullmatch(task_id) else None

    async def check_lease(self, lease: Lease) -> None:
        assert isinstance(lease, DatabaseLease)
        await self._holder.check_lease(lease)

    async def acquire_slot(self, provider: str, limit: int) -> DatabaseSlot | None:
        return await self._holder.acquire_slot(provider, limit)

    async def acquire_turn(self, provider: str, limit: int, waiting: WaitingTasks) -> Turn | None:
        return await self._holder.acquire_turn(provider, limit, waiting)

    # Many tasks

    async def list_active(self) -> ActiveTasks:
        tasks, clock = await self._calls.read(rows.list_active)
        self._calls.note_clock(clock)
        return tasks

    async def count_active(self, account: str) -> int:
        return await self._calls.read(rows.count_active, account)

    async def list(self, account: str, after: str, limit: int, order: Literal["asc", "desc"]) -> TaskPage:
        return await self._calls.read(rows.read_page, account, after, limit, order == "desc")

    async def list_all(self, after: str, limit: int, accepts: Callable[[TaskRecord], bool]) -> TaskSearch:
        return await self._calls.read(rows.search, after, limit, accepts)

    async def scan(self) -> AsyncIterator[TaskRecord]:
        last = None
        while True:
            records, last = await self._calls.read(rows.read_batch, last)
            if last is None:
                return
            for record in records:
                yield record

    async def sweep(self, now: float) -> TaskIds:
        gone: TaskIds = []
        while batch := await self._calls.write(rows.delete_expired, now):
            gone += batch
        await self._calls.write(rows.delete_leftovers)
        return gone


def _check_id(task_id: str) -> str:
    """Return the id. Raises NotFound if no task can have it; it may contain characters that the database refuses."""
    if not ID.fullmatch(task_id):
        raise task_not_found_error()
    return task_id
