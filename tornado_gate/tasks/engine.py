"""What moves video tasks on. One for each process; any that shares the store goes on where another was killed.

Looks for tasks that nobody runs, in the order they came, and runs as many of each provider as conf allows over all processes.
Nothing here knows HTTP, a wire format or a vendor; `Asker` is the way to providers, and `run.py` the life of one task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from tornado_gate.config.model import Videos
from tornado_gate.errors import GateError, NotFound
from tornado_gate.storage.files import MediaStore
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.run import ENDED, LONGEST_PAUSE, Asker, Means, Run, Webhook
from tornado_gate.tasks.store import ActiveTask, Lease, Slot, TaskStore
from tornado_gate.types import VideoOperation
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often a process looks for tasks that nobody runs, and readers for changes that another process has made."""
SWEEP_SECONDS = 600.0
CANCEL_SECONDS = 10.0
"""How long a caller who deletes a task waits for whoever runs it."""


class NoSlot:
    """The place of a task that is only to be ended."""

    def release(self) -> None:
        return None


class TaskEngine:
    """Runs the tasks of a store. `start` inside the loop, `close` before it ends: what runs goes on in another process."""

    def __init__(self, store: TaskStore, files: MediaStore, asker: Asker, rules: Videos, hook: Webhook) -> None:
        self.hook = hook
        self.store = store
        self.files = files
        self.asker = asker
        self.rules = rules
        self.on_end: Callable[[TaskRecord], None] = lambda _: None
        self.on_look: Callable[[], None] = lambda: None
        self.active: list[ActiveTask] = []
        self.running: dict[str, asyncio.Task[None]] = {}
        self._latest: dict[str, TaskRecord] = {}
        self.farewells: set[asyncio.Task[None]] = set()
        self._changed: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # as long as somebody waits
        self._watch: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()

    async def start(self) -> None:
        """Go on with what was left. A store that cannot be used now is tried again; requests say so meanwhile."""
        try:
            await self.store.open()
        except GateError as error:
            log.error("video tasks cannot be kept for now: %s", error.message)
        self._watch = asyncio.create_task(self._watching())

    async def close(self) -> None:
        """Stop running tasks; their leases go with it."""
        tasks = [*self.running.values(), *self.farewells, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.store.close()

    def look(self) -> None:
        """There may be something to run."""
        self._look_now.set()

    # Reading

    def position(self, record: TaskRecord) -> int | None:
        """Where a queued task stands in its provider's line, from 1; None when it is not waiting."""
        if record.status != "queued" or record.step != "new":
            return None
        mine = self.store.digest(record.provider)
        before = [task for task in self.active if task.provider == mine and task.created < record.created_ns]
        return max(1, len(before) - self.rules.concurrency + 1)

    async def changed(self, record: TaskRecord, seconds: float) -> TaskRecord:
        """The record when it is no longer what it was, or after `seconds`."""
        ends = time.monotonic() + seconds
        while True:
            event = self._changed.get(record.id) or asyncio.Event()
            self._changed[record.id] = event
            now = await self.get(record.id)
            left = ends - time.monotonic()
            if (now.status, now.progress) != (record.status, record.progress) or left <= 0:
                return now
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, LOOK_SECONDS)):
                    await event.wait()

    async def get(self, task_id: str) -> TaskRecord:
        """A task as it is: from memory where this process runs it, however many ask. Raises NotFound."""
        return self._latest.get(task_id) or await self.store.get(task_id)

    async def cancel(self, record: TaskRecord) -> None:
        """Have a task stopped, in whatever process it runs; returns when it has ended, or after a while."""
        await self.store.request_cancel(record.id)
        if record.id not in self.running and (lease := await self.store.lease(record.id)) is not None:
            self._start(record.id, lease, NoSlot())  # nobody runs it: it ends without ever having its turn
        ends = time.monotonic() + CANCEL_SECONDS
        while not record.ended and (left := ends - time.monotonic()) > 0:
            record = await self.changed(record, min(left, LOOK_SECONDS))

    async def delete(self, task_id: str) -> None:
        """Forget a task. Raises NotFound."""
        await self.store.delete(task_id)
        self._latest.pop(task_id, None)
        self.active = [task for task in self.active if task.id != task_id]

    def _orphaned(self, record: TaskRecord, beginning: asyncio.Future[VideoOperation]) -> None:
        """A task was cancelled while its upstream was asked to begin: cancel there what comes of it."""
        farewell = asyncio.create_task(self._farewell(record, beginning))
        self.farewells.add(farewell)
        farewell.add_done_callback(self.farewells.discard)

    async def _farewell(self, record: TaskRecord, beginning: asyncio.Future[VideoOperation]) -> None:
        try:
            operation = (await beginning).operation
            if operation is not None:
                await self.asker.cancel(replace(record, operation=operation))
        except GateError as error:
            log.info("the upstream's work for the cancelled task %s: %s", record.id, error.message)

    def _tell(self, record: TaskRecord) -> None:
        if record.status in ENDED:  # from now on the store has it, unless it is deleted
            self._latest.pop(record.id, None)
        else:
            self._latest[record.id] = record
        event = self._changed.pop(record.id, None)
        if event is not None:
            event.set()

    # Looking for work

    async def _watching(self) -> None:
        swept = time.monotonic()
        while True:
            try:
                await self._look()
                if time.monotonic() - swept > SWEEP_SECONDS:
                    swept = time.monotonic()
                    for task_id in await self.store.sweep(time.time()):
                        log.info("task %s has expired", task_id)
            except GateError as error:
                log.warning("tasks wait: %s", error.message)
            except Exception:
                log.exception("looking for tasks failed")
            self._look_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look_now.wait()

    async def _look(self) -> None:
        self.active = await self.store.active()
        self.on_look()
        full: set[str] = set()
        for task in self.active:
            if task.id in self.running or task.provider in full:
                continue
            slot = await self.store.slot(task.provider, self.rules.concurrency)
            if slot is None:
                full.add(task.provider)
                continue
            lease = await self.store.lease(task.id)
            if lease is None:
                slot.release()
                continue
            self._start(task.id, lease, slot)

    def _start(self, task_id: str, lease: Lease, slot: Slot) -> None:
        self.running[task_id] = asyncio.create_task(self._run(task_id, lease, slot))

    async def _run(self, task_id: str, lease: Lease, slot: Slot) -> None:
        try:
            record = await self.store.get(task_id)
            means = Means(self.store, self.files, self.asker, self.hook, self.rules, self.on_end, self._orphaned)
            await Run(record, lease, means, tell=self._tell, free=slot.release).go()
        except NotFound:
            log.info("task %s was deleted", task_id)
        except GateError as error:
            log.warning("task %s waits: %s", task_id, error.message)
            await asyncio.sleep(self.rules.poll_seconds)  # as when the disk is full: not at once again
        except Exception:
            log.exception("task %s failed to run", task_id)
            await asyncio.sleep(LONGEST_PAUSE)
        finally:
            lease.release()
            slot.release()
            self.running.pop(task_id, None)
            self._latest.pop(task_id, None)
            self.look()
