"""The life of one task, from the state in its record to its end. The process that holds the lease of the task runs it.

The record has the progress of the task (`step`), and is durable before each call of the upstream that must not be made twice:

    new       the upstream has not been called
    starting  the upstream may have been called; after a crash the run queries whether the upstream has the task, or
              calls it again if its provider allows this
    running   its operation is known, and is polled at the provider's pace, independent of the callers' polls
    fetching  the upstream has finished; its videos are downloaded one by one
    telling   completed or failed; its webhook has not been sent yet
    done      all work is finished
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from tornado_gate.config.model import VideosConfig
from tornado_gate.errors import (
    GateError,
    InternalError,
    UnsupportedOperation,
    UpstreamConnectTimeout,
    UpstreamKeyRefused,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamUnreachable,
)
from tornado_gate.storage.files import FileTooLarge, MediaFile, MediaFull, MediaStore, MediaUnavailable
from tornado_gate.tasks.record import CANCELLED, TaskRecord, advance, decode_request
from tornado_gate.tasks.store import Lease, Slot, TaskStore
from tornado_gate.tasks.translation import TranslatedRequest
from tornado_gate.tasks.video_check import VideoCheck, get_announced_length
from tornado_gate.types import VideoFile, VideoOperation, VideoRequest
from tornado_gate.types.value import Value, replace

log = logging.getLogger(__name__)

T = TypeVar("T")

ENDED_STATUSES = ("completed", "failed")
NOT_BEGUN = (UpstreamConnectTimeout, UpstreamOverloaded, UpstreamRateLimited, UpstreamUnreachable)
ABOUT_KEY = (UpstreamKeyRefused, UpstreamRateLimited)
LOST_TASK_CODE = "upstream_lost_task"
CANCEL_CHECK_SECONDS = 1.0
"""The interval at which a run checks whether the task was cancelled."""
MAX_FAILURES = 60
"""The number of consecutive failed polls after which the task fails; with the pauses between them this is about half an hour."""
MAX_UNKNOWN = 20
"""The maximum number of consecutive polls with a status that the provider cannot interpret."""
MAX_LOST = 3
"""The number of polls with the status "lost" after which the task fails."""
MAX_PAUSE = 30.0
MAX_DOWNLOADS = 8
"""Attempts to download a finished video."""
UNCERTAIN_START_MESSAGE = (
    "The gateway stopped while it started this task, and the upstream cannot report whether it has it. "
    "Send the request again."
)
DOWNLOAD_FAILED = "The finished video could not be downloaded:"
TOO_LARGE_CODES = frozenset({"upstream_answer_too_large", "upstream_compression_too_high", "upstream_file_too_large"})
"""Codes of downloads that are not tried again: the next download would be as large."""


class Provider(Protocol):
    """The interface to the provider of a task; `provider_client.ProviderClient` implements it."""

    async def begin(
        self, record: TaskRecord, request: VideoRequest, translated: TranslatedRequest | None
    ) -> VideoOperation: ...
    async def poll(self, record: TaskRecord) -> VideoOperation: ...
    async def cancel(self, record: TaskRecord) -> None: ...
    def download(self, record: TaskRecord, index: int) -> Any:
        """Return an async context manager with an UpstreamResponse whose chunks are the file."""

    def may_repeat(self, record: TaskRecord) -> bool:
        """Return whether the upstream's work may be started twice, as at an upstream inside this process."""

    def find_other_key(self, record: TaskRecord) -> str:
        """Return the fingerprint of another key of the task's provider that is not suspended, or ""."""


class Sender(Protocol):
    """The interface for sending the webhooks of tasks; `webhook_sender.WebhookSender` implements it."""

    async def send(self, record: TaskRecord) -> float | None:
        """Make one attempt. Return the seconds until the next one; None when it was delivered, or no attempt is left."""


class RunContext(Value, frozen=True):
    """The parts that every run needs.

    `withdraw` is called with the id of the task before each change, `publish` with the record when the change is durable: readers
    in between read the store, where other processes see the change as soon as it is written. `note_end` is called once with each
    task that has ended, for metrics. `record_usage` is called before the end is durable, so again if the process dies in between.
    `cancel_when_started` takes over a task that was cancelled while the upstream call that starts it was running, with that call:
    the upstream's work is cancelled when the call returns.
    """

    store: TaskStore
    files: MediaStore
    provider: Provider
    sender: Sender
    rules: VideosConfig
    withdraw: Callable[[str], None]
    publish: Callable[[TaskRecord], None]
    note_end: Callable[[TaskRecord], None]
    record_usage: Callable[[TaskRecord], None]
    cancel_when_started: Callable[[TaskRecord, asyncio.Future[VideoOperation]], None]


class TaskRun:
    """One run of a task. `slot` is released when the upstream is not needed any more.

    `translated` is the translation made when the task was created. It is used for the first call only.
    """

    def __init__(
        self,
        record: TaskRecord,
        lease: Lease,
        context: RunContext,
        *,
        slot: Slot,
        translated: TranslatedRequest | None = None,
    ) -> None:
        self.record = record
        self._lease = lease
        self._context = context
        self._store = context.store
        self._provider = context.provider
        self._rules = context.rules
        self._slot: Slot | None = slot
        self._translated = translated
        self._unknown = self._on_lost = 0
        self._began = time.monotonic() - record.spent
        self._start_error: GateError | None = None
        self._needed_room = 0  # bytes, of a video for which the storage had no room

    async def run(self) -> None:
        """Execute step after step to the end. Raises GateError when the store cannot be written: then the task stays as it is.

        Returns earlier if the upstream must be called again after the slot was released: the engine starts the task again.
        """
        while self.record.step != "done":
            if self.record.status in ENDED_STATUSES:
                await self._send_webhook()
            elif await self._store.is_cancel_requested(self.record.id):
                await self._cancel()
            elif self._measure_spent() > self._rules.task_seconds:
                await self._fail("task_timeout", self._explain_timeout())
            elif self.record.step == "new" and self._slot is None:
                return
            else:
                await self._take_step()
        await self._store.finish(self.record, self._lease)

    async def _release_slot(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            await slot.release()

    async def _take_step(self) -> None:
        match self.record.step:
            case "new":
                await self._save(step="starting")
                await self._begin()
            case "starting":
                await self._resume_start()
            case "running":
                await self._poll()
            case _:
                await self._download()

    def _measure_spent(self) -> float:
        """Return the seconds for which this task has been run, independent of changes of the system clock."""
        return time.monotonic() - self._began

    async def _save(self, *, again: bool = False, **changes: Any) -> None:
        changed = advance(self.record, again=again, **changes)
        if not again and _strip_volatile(changed) == _strip_volatile(self.record):
            self.record = changed  # the change need not outlive this process
            return
        self.record = replace(changed, updated_at=self._store.get_time(), spent=round(self._measure_spent(), 3))
        self._context.withdraw(self.record.id)
        if self.record.step == "done":
            await self._store.finish(self.record, self._lease)
        else:
            await self._store.save(self.record, self._lease)
        self._context.publish(self.record)

    # Starting

    async def _begin(self) -> None:
        """Call the upstream, unless the task is cancelled first."""
        image = await self._store.find_image(self.record.id) if self.record.image is not None else None
        request = decode_request(self.record, image)
        translated, self._translated = self._translated, None
        await self._store.check_lease(self._lease)
        start = asyncio.ensure_future(self._provider.begin(self.record, request, translated))
        try:
            while not (await asyncio.wait([start], timeout=CANCEL_CHECK_SECONDS))[0]:
                if await self._store.is_cancel_requested(self.record.id):
                    self._context.cancel_when_started(self.record, start)
                    return
        except BaseException:
            start.cancel()
            raise
        try:
            operation = start.result()
        except GateError as error:
            await self._handle_start_error(error)
            return
        if operation.operation is None and operation.status != "failed":
            raise InternalError
        await self._apply(operation)

    async def _handle_start_error(self, error: GateError) -> None:
        """Call again only if the upstream surely has not started.

        Otherwise query it: the video might be made, and paid, twice.
        """
        surely_not = isinstance(error, NOT_BEGUN)
        if not error.retryable or self.record.failures >= MAX_FAILURES:
            await self._fail(error.code, error.message)
        elif isinstance(error, ABOUT_KEY) and (key := self._provider.find_other_key(self.record)):
            await self._save(step="new", again=True, failures=self.record.failures + 1, provider_key=key)
        elif surely_not or self._provider.may_repeat(self.record):
            await self._save(step="new", again=True, failures=self.record.failures + 1)
            await self._pause(compute_backoff(self.record.failures))
        else:
            self._start_error = error

    async def _resume_start(self) -> None:
        """Query whether the upstream has the task: it was called, but its response is unknown."""
        try:
            operation = await self._provider.poll(self.record)
        except UnsupportedOperation:
            operation = VideoOperation(status="unknown")
        except GateError as error:
            await self._handle_poll_error(error)
            return
        may_repeat = operation.status == "unknown" and self._provider.may_repeat(self.record)
        if operation.status == "lost" or may_repeat:
            await self._begin()
        elif operation.status == "unknown" and self._start_error is not None:
            await self._fail(self._start_error.code, self._start_error.message)
        elif operation.status == "unknown":
            await self._fail("start_uncertain", UNCERTAIN_START_MESSAGE)
        else:
            await self._apply(operation)

    # Polling

    async def _poll(self) -> None:
        await self._pause(self.record.next_poll_at - self._store.get_time())
        if await self._store.is_cancel_requested(self.record.id):
            return
        try:
            operation = await self._provider.poll(self.record)
        except GateError as error:
            await self._handle_poll_error(error)
            return
        await self._apply(operation)

    async def _handle_poll_error(self, error: GateError) -> None:
        failures = self.record.failures + 1
        if isinstance(error, UpstreamRefused) or failures > MAX_FAILURES:
            await self._fail(error.code, error.message)
            return
        await self._save(failures=failures, next_poll_at=self._store.get_time() + compute_backoff(failures))
        if self.record.step == "starting":
            await self._pause(compute_backoff(failures))

    async def _apply(self, operation: VideoOperation) -> None:
        """Apply the state of the upstream's work."""
        operation_id = self.record.operation if operation.operation is None else operation.operation
        pause = operation.poll_after or self._rules.poll_seconds
        common: dict[str, Any] = {
            "operation": operation_id,
            "failures": 0,
            "next_poll_at": self._store.get_time() + pause,
        }
        match operation.status:
            case "completed":
                await self._apply_completed(operation, common)
            case "failed":
                await self._save(operation=operation_id)
                message = operation.error or "The upstream could not make this video."
                await self._fail(operation.code or "generation_failed", message)
            case "lost":
                await self._handle_lost()
            case "unknown":
                self._unknown += 1
                if self._unknown > MAX_UNKNOWN:
                    await self._fail("upstream_unknown_status", "The upstream repeatedly returned an unknown status.")
                else:
                    await self._save(**common, step="running")
            case status:
                self._unknown = self._on_lost = 0
                started = self.record.started_at or self._store.get_time()
                new_status = "pending" if status == "running" else self.record.status
                progress = _limit_progress(operation)
                await self._save(**common, step="running", status=new_status, progress=progress, started_at=started)

    async def _apply_completed(self, operation: VideoOperation, common: dict[str, Any]) -> None:
        if operation.videos < 1:
            await self._fail("upstream_no_video", "The upstream completed the task without a video.")
            return
        await self._save(
            **common, step="fetching", status="pending", progress=_limit_progress(operation),
            videos=operation.videos, duration=operation.duration,
        )  # fmt: skip

    async def _handle_lost(self) -> None:
        self._on_lost += 1
        if self._provider.may_repeat(self.record):
            await self._save(step="new", again=True, operation=None)
        elif self._on_lost >= MAX_LOST:
            await self._fail(LOST_TASK_CODE, "The upstream no longer has this task. Send the request again.")
        else:
            await self._save(next_poll_at=self._store.get_time() + self._rules.poll_seconds)

    # Downloading

    async def _download(self) -> None:
        """Download the next finished video. It is in the record before the next download begins."""
        try:
            stored = await self._run_unless_cancelled(self._store_video(len(self.record.files)))
        except FileTooLarge as error:
            await self._fail("download_failed", f"{DOWNLOAD_FAILED} {error.message} Its conf key is videos.max_bytes.")
            return
        except (MediaFull, MediaUnavailable) as error:
            log.warning("the video of task %s cannot be stored now, will retry: %s", self.record.id, error.message)
            await self._release_slot()  # the upstream has finished: tasks of accounts with free slots need not wait
            await self._pause(MAX_PAUSE)
            return
        except GateError as error:
            await self._handle_download_error(error)
            return
        if stored is None:
            return
        self._needed_room = 0
        file = VideoFile(id=stored.id, media_type="video/mp4", size=stored.size, duration=self.record.duration)
        files = (*self.record.files, file)
        if len(files) < self.record.videos:
            await self._save(files=files, failures=0)
        else:
            await self._finish(files=files, status="completed", progress=100)

    async def _store_video(self, index: int) -> MediaFile:
        """Download video number `index` to the storage.

        After a MediaFull the upstream is called again when there is room for the announced length. Without one, twice the
        received length must be free, so that an endless video is not downloaded repeatedly.
        """
        files, account = self._context.files, self.record.account
        if self._needed_room:
            await files.make_room(self._needed_room, account=account)
        async with self._provider.download(self.record, index) as incoming:
            announced = get_announced_length(incoming)
            if announced:
                self._needed_room = announced
                await files.make_room(announced, account=account)
            video = VideoCheck(incoming)
            try:
                return await files.put(video.read_chunks(), "video/mp4", f"{self.record.id}.mp4", account=account)
            except FileTooLarge:
                raise
            except MediaFull:
                self._needed_room = announced or min(2 * video.size, files.largest_file_bytes)
                raise

    async def _run_unless_cancelled(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`. If the task is cancelled first, end `work` and return None."""
        running = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([running], timeout=CANCEL_CHECK_SECONDS))[0]:
                if await self._store.is_cancel_requested(self.record.id):
                    return None
            return running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _handle_download_error(self, error: GateError) -> None:
        failures = self.record.failures + 1
        if error.code == LOST_TASK_CODE and self._provider.may_repeat(self.record):
            await self._save(step="new", again=True, operation=None)  # downloaded videos stay
        elif failures >= MAX_DOWNLOADS or isinstance(error, UpstreamRefused) or error.code in TOO_LARGE_CODES:
            await self._fail("download_failed", f"{DOWNLOAD_FAILED} {error.message}")
        else:
            await self._save(failures=failures)
            await self._pause(compute_backoff(failures))

    # Ending

    def _explain_timeout(self) -> str:
        limit = f"within {self._rules.task_seconds:g} s, the limit videos.task_seconds of the configuration."
        if self._needed_room:
            return (
                f"The finished video could not be stored {limit} The gateway's storage for videos had no room for it."
            )
        return f"The video was not ready {limit}"

    async def _fail(self, code: str, message: str) -> None:
        log.info("task %s failed: %s", self.record.id, code)
        await self._finish(status="failed", error_code=code, error_message=message)

    async def _finish(self, **changes: Any) -> None:
        now = self._store.get_time()
        step = "done" if self.record.webhook is None else "telling"
        changes |= {"step": step, "completed_at": now, "expires_at": now + self._rules.keep_seconds}
        await self._store.check_lease(self._lease)
        # before the end is durable: a row that is written twice counts once
        self._context.record_usage(advance(self.record, **changes))
        await self._save(**changes)
        self._context.note_end(self.record)

    async def _cancel(self) -> None:
        if self.record.operation is not None:
            with suppress(GateError):
                await self._provider.cancel(self.record)
        await self._fail(CANCELLED, "The task was cancelled.")
        await self._release_slot()

    async def _send_webhook(self) -> None:
        """Make the next attempt to send the webhook. The slot is free for other tasks during it."""
        await self._release_slot()
        webhook = dict(self.record.webhook or {})
        await self._pause(webhook.get("next_at", 0.0) - self._store.get_time())
        pause = await self._context.sender.send(self.record)
        if pause is None:
            await self._save(step="done")
        else:
            webhook |= {"attempts": webhook.get("attempts", 0) + 1, "next_at": self._store.get_time() + pause}
            await self._save(webhook=webhook)

    async def _pause(self, seconds: float) -> None:
        """Sleep for at most MAX_PAUSE, but end soon after the task was cancelled."""
        ends = time.monotonic() + min(max(0.0, seconds), MAX_PAUSE)  # independent of changes of the system clock
        while (seconds_left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(seconds_left, CANCEL_CHECK_SECONDS))
            if self.record.status not in ENDED_STATUSES and await self._store.is_cancel_requested(self.record.id):
                return


def _strip_volatile(record: TaskRecord) -> TaskRecord:
    """Return the record without the fields that change with every poll and need not outlive the process."""
    return replace(record, next_poll_at=0.0, spent=0.0, updated_at=0.0)


def _limit_progress(operation: VideoOperation) -> int:
    """Return the progress within 0 to 99: 100 is for tasks whose videos are here."""
    return min(99, max(0, operation.progress or 0))


def compute_backoff(failures: int) -> float:
    """Return the seconds before the next attempt: 1, 2, 4, … up to MAX_PAUSE, and up to a quarter more at random."""
    return min(MAX_PAUSE, 2.0 ** min(failures - 1, 10)) * (1 + secrets.randbelow(250) / 1000)
