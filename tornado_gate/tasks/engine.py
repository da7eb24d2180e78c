"""The engine runs the video tasks of a store. Each process has one; any of them continues the tasks of a killed process.

The engine looks for tasks that no process runs, and runs as many of each provider as conf allows over all processes. The accounts
alternate, and each account's tasks run in the order of their creation. The engine contains no HTTP, no wire format and no vendor;
`run.py` is the life of one task.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from tornado_gate.config.model import VideosConfig
from tornado_gate.errors import GateError, NotFound
from tornado_gate.storage.files import MediaStore
from tornado_gate.tasks.queues import TaskQueues
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.run import ENDED_STATUSES, MAX_PAUSE, Provider, RunContext, Sender, TaskRun
from tornado_gate.tasks.store import ActiveTask, Lease, LeaseLost, Slot, TaskStore
from tornado_gate.tasks.translation import TranslatedRequest
from tornado_gate.types import VideoOperation
from tornado_gate.types.value import replace

log = logging.getLogger(__name__)

SCAN_SECONDS = 1.0
"""The interval at which a process looks for tasks that no process runs, and readers for changes that another process has made."""
SWEEP_SECONDS = 600.0
CANCEL_SECONDS = 10.0
"""The time for which a caller who deletes a task waits for the process that runs it."""


class NullSlot:
    """The slot of a task that is only cancelled and needs no real slot at its provider."""

    async def release(self) -> None:
        return None


class TaskEngine:
    """An engine for the tasks of a store. Call `start` inside the loop, and `close` before it ends.

    Another process continues the running tasks. `rules` may be replaced at any time. `on_usage` is called with a task that ends,
    before this is stored: for the usage ledger. `on_settle` is called with each task whose end is stored. `on_end` is called with
    each task that has ended, `on_look` after each look for tasks, when `queues` holds all that have not ended: both are for
    metrics.
    """

    def __init__(
        self, store: TaskStore, files: MediaStore, provider: Provider, rules: VideosConfig, sender: Sender
    ) -> None:
        self.store = store
        self.files = files
        self.rules = rules
        self.on_end: Callable[[TaskRecord], None] = lambda _: None
        self.on_usage: Callable[[TaskRecord], None] = lambda _: None
        self.on_settle: Callable[[TaskRecord], None] = lambda _: None
        self.on_look: Callable[[], None] = lambda: None
        self.queues = TaskQueues()
        self.running: dict[str, asyncio.Task[None]] = {}
        self.late_cancellations: set[asyncio.Task[None]] = set()
        self.provider = provider
        self._sender = sender
        self._latest: dict[str, TaskRecord] = {}
        self._changed: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()  # kept while a reader waits
        self._translated: dict[str, TranslatedRequest] = {}
        self._watch: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()

    async def start(self) -> None:
        """Continue unfinished tasks. A store that cannot be used yet is tried again; until then requests get its error."""
        try:
            await self.store.open()
        except GateError as error:
            log.error("video tasks cannot be stored: %s", error.message)
        self._watch = asyncio.create_task(self._watch_store())

    def _note_end(self, record: TaskRecord) -> None:
        self.on_settle(record)
        self.on_end(record)

    async def close(self) -> None:
        """Stop running tasks and release their leases."""
        tasks = [*self.running.values(), *self.late_cancellations, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.store.close()

    def wake(self) -> None:
        """Look for tasks now."""
        self._look_now.set()

    def submit(self, task_id: str, translated: TranslatedRequest | None) -> None:
        """Look for tasks now, because this one was created. `translated` is used if the task starts here in that look."""
        if translated is not None:
            self._translated[task_id] = translated
        self.wake()

    # Reading

    async def get(self, task_id: str) -> TaskRecord:
        """Return the current task; from memory if this process runs it. Raises NotFound."""
        return self._latest.get(task_id) or await self.store.get(task_id)

    def find_position(self, record: TaskRecord) -> int | None:
        """Return the position of a queued task in its provider's queue, from 1; None when it does not wait."""
        if record.status != "queued" or record.step != "new":
            return None
        provider, account = self.store.digest(record.provider), self.store.digest(record.account)
        task = ActiveTask(record.created_ns, provider, account, record.id)
        return self.queues.find_position(task, self.rules.concurrency)

    async def wait_for_change(self, record: TaskRecord, seconds: float) -> TaskRecord:
        """Return the record when its status or progress has changed, or after `seconds`."""
        ends = time.monotonic() + seconds
        while True:
            event = self._changed.get(record.id) or asyncio.Event()
            self._changed[record.id] = event
            now = await self.get(record.id)
            seconds_left = ends - time.monotonic()
            if (now.status, now.progress) != (record.status, record.progress) or seconds_left <= 0:
                return now
            with suppress(TimeoutError):
                async with asyncio.timeout(min(seconds_left, SCAN_SECONDS)):
                    await event.wait()

    # Ending

    async def cancel(self, record: TaskRecord) -> None:
        """Cancel a task in any process. Return when it has ended, or after CANCEL_SECONDS."""
        await self.store.request_cancel(record.id)
        if record.id not in self.running and (lease := await self.store.acquire_lease(record.id)) is not None:
            self._start(record.id, lease, NullSlot())  # no process runs it: it ends without a slot
        ends = time.monotonic() + CANCEL_SECONDS
        while not record.has_ended and (seconds_left := ends - time.monotonic()) > 0:
            record = await self.wait_for_change(record, min(seconds_left, SCAN_SECONDS))

    async def delete(self, task_id: str) -> None:
        """Delete a task. Raises NotFound."""
        await self.store.delete(task_id)
        self._latest.pop(task_id, None)
        self.queues = self.queues.without(task_id)

    def _cancel_when_started(self, record: TaskRecord, start: asyncio.Future[VideoOperation]) -> None:
        """Cancel the upstream's work when `start` returns. The task was cancelled during this call."""
        cancellation = asyncio.create_task(self._cancel_late(record, start))
        self.late_cancellations.add(cancellation)
        cancellation.add_done_callback(self.late_cancellations.discard)

    async def _cancel_late(self, record: TaskRecord, start: asyncio.Future[VideoOperation]) -> None:
        try:
            operation = (await start).operation
            if operation is not None:
                await self.provider.cancel(replace(record, operation=operation))
        except GateError as error:
            log.info("could not cancel the upstream's work for task %s: %s", record.id, error.message)

    # Running

    async def _watch_store(self) -> None:
        swept, trouble = time.monotonic(), ""
        while True:
            self._look_now.clear()  # reset before the look: the next look finds a task that is created during this one
            try:
                await self._start_waiting()
                trouble = ""
                if time.monotonic() - swept > SWEEP_SECONDS:
                    swept = time.monotonic()
                    for task_id in await self.store.sweep(self.store.get_time()):
                        log.info("task %s has expired", task_id)
            except GateError as error:
                if error.message != trouble:  # reported once, because an outage may take hours
                    log.warning("video tasks cannot be started now, will retry: %s", error.message)
                trouble = error.message
            except Exception:
                log.exception("looking for tasks failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(SCAN_SECONDS):
                    await self._look_now.wait()

    async def _start_waiting(self) -> None:
        """Start as many tasks that no process runs as there are slots."""
        translated, self._translated = self._translated, {}  # a translation that is not used now is not kept in memory
        self.queues = TaskQueues(await self.store.list_active())
        self.on_look()
        for provider, waiting in self.queues.group_waiting(self.running).items():
            while (turn := await self.store.acquire_turn(provider, self.rules.concurrency, waiting)) is not None:
                self._start(turn.task.id, turn.lease, turn.slot, translated.get(turn.task.id))

    def _start(self, task_id: str, lease: Lease, slot: Slot, translated: TranslatedRequest | None = None) -> None:
        self.running[task_id] = asyncio.create_task(self._run(task_id, lease, slot, translated))

    async def _run(self, task_id: str, lease: Lease, slot: Slot, translated: TranslatedRequest | None) -> None:
        try:
            record = await self.store.get(task_id)
            context = RunContext(
                store=self.store, files=self.files, provider=self.provider, sender=self._sender, rules=self.rules,
                withdraw=self._withdraw, publish=self._publish, note_end=self._note_end,
                record_usage=self.on_usage, cancel_when_started=self._cancel_when_started,
            )  # fmt: skip
            await TaskRun(record, lease, context, slot=slot, translated=translated).run()
        except NotFound:
            log.info("task %s was deleted", task_id)
        except LeaseLost:
            log.warning("task %s stops here: its lease has ended, another process may run it", task_id)
        except GateError as error:
            log.warning("task %s cannot run now, will retry: %s", task_id, error.message)
            await asyncio.sleep(self.rules.poll_seconds)  # for example a full disk: do not try again immediately
        except Exception:
            log.exception("task %s failed to run", task_id)
            await asyncio.sleep(MAX_PAUSE)
        finally:
            await lease.release()
            await slot.release()
            self.running.pop(task_id, None)
            self._latest.pop(task_id, None)
            self.wake()

    def _withdraw(self, task_id: str) -> None:
        """Read the task from the store until its change is published: a caller may have seen the change in another process."""
        self._latest.pop(task_id, None)

    def _publish(self, record: TaskRecord) -> None:
        """Deliver the changed record to the waiting readers."""
        if record.status in ENDED_STATUSES:  # from now on readers read the store, where the task may be deleted
            self._latest.pop(record.id, None)
        else:
            self._latest[record.id] = record
        event = self._changed.pop(record.id, None)
        if event is not None:
            event.set()
