"""The leases and slots of this process, in a `DatabaseTaskStore`: taken, renewed together, and released.

A lease ends LEASE_SECONDS after its last renewal on the clock of the database. The process counts the same time from before it
sent the renewal, on its own monotonic clock: as long as this has not passed, no other process can have the lease.

A process takes over leases only after it has used the database for LEASE_SECONDS without an error. So after an outage, all
processes first have the time to renew their leases.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tornado_gate.database.calls import CALL_SECONDS, DatabaseCalls
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks import database_leases as rows
from tornado_gate.tasks.database_leases import Claim, Renewal, SlotRow
from tornado_gate.tasks.store import LeaseLost, Turn, WaitingTasks

log = logging.getLogger(__name__)

LEASE_SECONDS = 6.0
"""The time after which the leases of a process that has died are free. Together with the looks for tasks it is below 10 s."""
RENEWAL_SECONDS = 1.0
"""The interval of renewals. With each of them a process also reads the requested cancellations."""

T = TypeVar("T")


class DatabaseLease:
    """The lease of one task. `is_lost`: another process has taken it."""

    def __init__(self, holder: Holder, task_id: str, fence: int) -> None:
        self.task_id = task_id
        self.fence = fence
        self.is_held = True
        self.is_lost = False
        self.is_cancel_requested = False
        self.change: asyncio.Future[None] | None = None  # the last change, which `release` waits for
        self.taken_at = time.monotonic()
        self._holder = holder

    async def release(self) -> None:
        if self.is_held:
            self.is_held = False
            await self._holder.release_lease(self)


class DatabaseSlot:
    """A slot of a provider."""

    def __init__(self, holder: Holder, row: SlotRow) -> None:
        self.row = row
        self._holder = holder
        self._is_held = True

    async def release(self) -> None:
        if self._is_held:
            self._is_held = False
            await self._holder.release_slot(self)


class Holder:
    """This process. It renews its leases from the first one until `close`."""

    def __init__(self, calls: DatabaseCalls) -> None:
        self._calls = calls
        self._id = secrets.token_hex(16)
        self._leases: dict[str, DatabaseLease] = {}
        self._slots: set[SlotRow] = set()
        self._strays: dict[Any, float] = {}  # rows that this process does not know, and when it has seen each first
        self._valid_until = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._releasing: set[asyncio.Future[Any]] = set()

    @property
    def id(self) -> str:
        return self._id

    def find_lease(self, task_id: str) -> DatabaseLease | None:
        """Return the lease of a task that this process has, or has lost and not released yet."""
        return self._leases.get(task_id)

    async def close(self) -> None:
        """Release all leases and slots."""
        if self._renewing is None:
            return
        self._renewing.cancel()
        await asyncio.gather(self._renewing, *self._releasing, return_exceptions=True)
        self._renewing, self._valid_until = None, 0.0
        self._leases.clear()
        self._slots.clear()
        with suppress(MediaUnavailable):  # then they end with their time
            await self._calls.write(rows.end_holder, self._id)

    # Renewing

    async def check_lease(self, lease: DatabaseLease) -> None:
        """Return if no other process can have the lease now; wait while the database is away. Raises LeaseLost."""
        if time.monotonic() >= self._valid_until:
            self._note_renewal(time.monotonic(), await self._calls.persist(rows.renew, self._id, LEASE_SECONDS))
        if lease.is_lost:
            raise LeaseLost(f"{lease.task_id} was taken by another process")

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            try:
                with suppress(MediaUnavailable):  # which is logged
                    await self._renew()
            except Exception:
                log.exception("the leases of video tasks could not be renewed, will retry")

    async def _renew(self) -> None:
        began = time.monotonic()
        self._note_renewal(began, await self._calls.write(rows.renew, self._id, LEASE_SECONDS))

    def _note_renewal(self, began: float, renewal: Renewal) -> None:
        self._valid_until = max(self._valid_until, began + LEASE_SECONDS)
        self._calls.note_clock(renewal.clock)
        for lease in self._leases.values():
            fence, is_cancel_requested = renewal.leases.get(lease.task_id, (0, False))
            if fence == lease.fence:
                lease.is_cancel_requested |= is_cancel_requested
            elif lease.taken_at < began and not lease.is_lost:
                lease.is_lost = True
        self._release_strays(renewal)

    def _release_strays(self, renewal: Renewal) -> None:
        """Release rows of this process that it does not know for half of a lease: a call has failed after its change."""
        tasks = {(task_id, fence) for task_id, (fence, _) in renewal.leases.items()}
        known_tasks = {(lease.task_id, lease.fence) for lease in self._leases.values()}
        strays: set[Any] = (tasks - known_tasks) | (renewal.slots - self._slots)
        now = time.monotonic()
        self._strays = {stray: self._strays.get(stray, now) for stray in strays}
        for stray, seen_at in self._strays.items():
            if now - seen_at < LEASE_SECONDS / 2:
                continue
            if isinstance(stray, SlotRow):
                self._release_later(self._calls.write(rows.release_slot, self._id, stray))
            else:
                self._release_later(self._calls.write(rows.release_lease, self._id, *stray))

    # Taking

    async def acquire_lease(self, task_id: str) -> DatabaseLease | None:
        async def take() -> DatabaseLease | None:
            fence = await self._calls.write(rows.claim_lease, self._claim(), task_id)
            return None if fence is None else self._add_lease(task_id, fence)

        return await self._acquire(take())

    async def acquire_slot(self, provider: str, limit: int) -> DatabaseSlot | None:
        async def take() -> DatabaseSlot | None:
            row = await self._calls.write(rows.claim_slot, self._claim(), provider, limit)
            return None if row is None else self._add_slot(row)

        return await self._acquire(take())

    async def acquire_turn(self, provider: str, limit: int, waiting: WaitingTasks) -> Turn | None:
        async def take() -> Turn | None:
            row = await self._calls.write(rows.claim_turn, self._claim(), provider, limit, waiting)
            if row is None:
                return None
            return Turn(row.task, self._add_lease(row.task.id, row.fence), self._add_slot(row.slot))

        return await self._acquire(take())

    async def _acquire(self, taking: Coroutine[Any, Any, T]) -> T:
        """Return the result of `taking`. If the caller is cancelled, its result is released."""
        try:
            await self._ensure_renewal()
        except BaseException:
            taking.close()
            raise
        task = asyncio.create_task(taking)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._release_later(_release_result(task))
            raise

    async def _ensure_renewal(self) -> None:
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew_regularly())
        if time.monotonic() > self._valid_until - LEASE_SECONDS / 2:
            await self._renew()

    def _claim(self) -> Claim:
        since = self._calls.steady_since
        return Claim(self._id, since is not None and time.monotonic() - since >= LEASE_SECONDS)

    def _add_lease(self, task_id: str, fence: int) -> DatabaseLease:
        lease = self._leases[task_id] = DatabaseLease(self, task_id, fence)
        return lease

    def _add_slot(self, row: SlotRow) -> DatabaseSlot:
        self._slots.add(row)
        return DatabaseSlot(self, row)

    # Releasing

    async def release_lease(self, lease: DatabaseLease) -> None:
        if lease.change is not None and not lease.change.done():  # its caller was cancelled
            await asyncio.wait([lease.change], timeout=CALL_SECONDS)
            lease.change.cancel()
        if self._leases.get(lease.task_id) is lease:
            del self._leases[lease.task_id]
        with suppress(MediaUnavailable):  # then a renewal finds the stray
            await self._calls.write(rows.release_lease, self._id, lease.task_id, lease.fence)

    async def release_slot(self, slot: DatabaseSlot) -> None:
        self._slots.discard(slot.row)
        with suppress(MediaUnavailable):
            await self._calls.write(rows.release_slot, self._id, slot.row)

    def _release_later(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(_ignore_outage(work))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)


async def _ignore_outage(work: Coroutine[Any, Any, Any]) -> None:
    with suppress(MediaUnavailable):
        await work


async def _release_result(task: asyncio.Task[Any]) -> None:
    result = await task
    for held in (result.lease, result.slot) if isinstance(result, Turn) else (result,):
        if held is not None:
            await held.release()
