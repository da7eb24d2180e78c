"""One task, from where its record stands to its end. Whoever holds the lease of the task runs it.

The record says how far the task is (`step`), and is durable before the upstream is asked for anything that could be done twice:

    new       the upstream has not been asked
    starting  it may have been asked; after a crash it is asked whether it knows the task, or, where its provider says that
              this harms nobody, asked again
    running   its operation is known, and is polled at the provider's pace, whoever polls us
    fetching  it is done there; its videos are brought home one by one
    telling   completed or failed; its webhook is still to be told
    done      nothing is left to do
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Protocol

from tornado_gate.codec.media_types import sniff
from tornado_gate.config.model import Videos
from tornado_gate.errors import (
    GateError,
    InternalError,
    UnsupportedOperation,
    UpstreamConnectTimeout,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRefused,
    UpstreamUnreachable,
)
from tornado_gate.storage.files import MediaFull, MediaStore, MediaUnavailable
from tornado_gate.tasks.record import TaskRecord, advanced
from tornado_gate.tasks.store import Lease, TaskStore
from tornado_gate.types import UpstreamResponse, VideoFile, VideoOperation, VideoRequest
from tornado_gate.types.value import Value, replace

log = logging.getLogger(__name__)

ENDED = ("completed", "failed")
NOT_BEGUN = (UpstreamConnectTimeout, UpstreamOverloaded, UpstreamRateLimited, UpstreamUnreachable)
LOST = "upstream_lost_task"
LOOK_SECONDS = 1.0
"""How often a run looks whether it shall stop."""
MOST_FAILURES = 60
"""Polls that may fail in a row before a task is given up; with the pauses between them this is about half an hour."""
MOST_UNKNOWN = 20
MOST_LOST = 3
"""How often an upstream may say that it does not know a task before it is believed."""
LONGEST_PAUSE = 30.0
MOST_DOWNLOADS = 8
"""Tries to bring a finished video home."""
UNCERTAIN = (
    "The gateway stopped while it began this task, and the upstream cannot say whether it has it. Send it again."
)
VIDEOS = frozenset({"video/mp4", "video/webm", "video/quicktime", "video/x-matroska"})
BEGINNING_BYTES = 64
"""What shows whether a file is a video; none is smaller."""


class Asker(Protocol):
    """The way to the providers."""

    async def begin(self, record: TaskRecord, request: VideoRequest) -> VideoOperation: ...
    async def poll(self, record: TaskRecord) -> VideoOperation: ...
    async def cancel(self, record: TaskRecord) -> None: ...
    def download(self, record: TaskRecord, index: int) -> Any:
        """An async context manager that gives an UpstreamResponse whose chunks are the file."""

    def may_repeat(self, record: TaskRecord) -> bool:
        """Whether beginning twice harms nobody, as at an upstream that is inside this process."""


class Webhook(Protocol):
    """Who wants to hear of a task's end."""

    async def tell(self, record: TaskRecord) -> float | None:
        """Try once. Seconds until it should be tried again; None when that is over, one way or the other."""


class Means(Value, frozen=True):
    """What every run needs. `noted` is called once with each task that has ended, for metrics; `orphaned` with one that was
    cancelled while its upstream was asked to begin, and with that question: its work is to be cancelled when it answers."""

    store: TaskStore
    files: MediaStore
    asker: Asker
    hook: Webhook
    rules: Videos
    noted: Callable[[TaskRecord], None] = lambda _: None
    orphaned: Callable[[TaskRecord, asyncio.Future[VideoOperation]], None] = lambda _, beginning: None


class Run:
    """One task, from where it stands to its end."""

    def __init__(
        self,
        record: TaskRecord,
        lease: Lease,
        means: Means,
        *,
        tell: Callable[[TaskRecord], None],
        free: Callable[[], None],
    ) -> None:
        """`tell` is called with the record after each change that is durable, `free` when the upstream is needed no more."""
        self.record = record
        self.lease = lease
        self.store = means.store
        self.files = means.files
        self.asker = means.asker
        self.rules = means.rules
        self.hook = means.hook
        self.noted = means.noted
        self.orphaned = means.orphaned
        self.tell = tell
        self.free = free
        self.unknown = self.lost = 0
        self.began = time.monotonic() - record.spent
        self.uncertain: GateError | None = None

    async def go(self) -> None:
        """Step by step. Raises GateError when the store cannot be written: then the task stays as it is."""
        while self.record.step != "done":
            if self.record.status in ENDED:
                await self._telling()
            elif await self.store.cancel_requested(self.record.id):
                await self._cancelled()
            elif self._spent() > self.rules.task_seconds:
                await self._fail("task_timeout", "The video was not ready in the time that a task may take.")
            else:
                await getattr(self, f"_{self.record.step}")()
        await self.store.ended(self.record, self.lease)

    def _spent(self) -> float:
        """Seconds that this task has been run, whatever the clock on the wall does meanwhile."""
        return time.monotonic() - self.began

    async def _save(self, *, again: bool = False, **changes: Any) -> None:
        changed = advanced(self.record, again=again, **changes)
        if not again and _told(changed) == _told(self.record):
            self.record = changed  # nothing that must outlive this process
            return
        self.record = replace(changed, updated_at=time.time(), spent=round(self._spent(), 3))
        if self.record.step == "done":
            await self.store.ended(self.record, self.lease)
        else:
            await self.store.save(self.record, self.lease)
        self.tell(self.record)

    # Steps

    async def _new(self) -> None:
        await self._save(step="starting")
        await self._begin()

    async def _starting(self) -> None:
        """It was begun, but nobody heard the answer: has the upstream got it?"""
        try:
            operation = await self.asker.poll(self.record)
        except UnsupportedOperation:
            operation = VideoOperation(status="unknown")
        except GateError as error:
            await self._failed_to_ask(error)
            return
        if operation.status == "lost" or (operation.status == "unknown" and self.asker.may_repeat(self.record)):
            await self._begin()
        elif operation.status == "unknown":
            why = self.uncertain
            await self._fail("start_uncertain" if why is None else why.code, UNCERTAIN if why is None else why.message)
        else:
            await self._take(operation)

    async def _begin(self) -> None:
        image = await self.store.image(self.record.id)
        beginning = asyncio.ensure_future(self.asker.begin(self.record, self.record.video_request(image)))
        try:
            while not (await asyncio.wait([beginning], timeout=LOOK_SECONDS))[0]:
                if await self.store.cancel_requested(self.record.id):
                    self.orphaned(self.record, beginning)
                    return
        except BaseException:
            beginning.cancel()
            raise
        try:
            operation = beginning.result()
        except GateError as error:
            await self._not_begun(error)
            return
        if operation.operation is None and operation.status != "failed":
            raise InternalError
        await self._take(operation)

    async def _not_begun(self, error: GateError) -> None:
        """Begun again only when the upstream surely has nothing; else it is asked, or it might be made, and paid, twice."""
        surely_not = isinstance(error, NOT_BEGUN)
        if not error.retryable or self.record.failures >= MOST_FAILURES:
            await self._fail(error.code, error.message)
        elif surely_not or self.asker.may_repeat(self.record):
            await self._save(step="new", again=True, failures=self.record.failures + 1)
            await self._pause(_backoff(self.record.failures))
        else:
            self.uncertain = error

    async def _running(self) -> None:
        await self._pause(self.record.next_poll_at - time.time())
        if await self.store.cancel_requested(self.record.id):
            return
        try:
            operation = await self.asker.poll(self.record)
        except GateError as error:
            await self._failed_to_ask(error)
            return
        await self._take(operation)

    async def _failed_to_ask(self, error: GateError) -> None:
        failures = self.record.failures + 1
        if isinstance(error, UpstreamRefused) or failures > MOST_FAILURES:
            await self._fail(error.code, error.message)
            return
        await self._save(failures=failures, next_poll_at=time.time() + _backoff(failures))
        if self.record.step == "starting":
            await self._pause(_backoff(failures))

    async def _take(self, operation: VideoOperation) -> None:
        """What the upstream says of its work."""
        known = self.record.operation if operation.operation is None else operation.operation
        pause = operation.poll_after or self.rules.poll_seconds
        progress = min(99, max(0, operation.progress or 0))
        common: dict[str, Any] = {"operation": known, "failures": 0, "next_poll_at": time.time() + pause}
        match operation.status:
            case "completed" if operation.videos < 1:
                await self._fail("upstream_no_video", "The upstream completed the task without a video.")
            case "completed":
                await self._save(
                    **common, step="fetching", status="pending", progress=progress,
                    videos=operation.videos, duration=operation.duration,
                )  # fmt: skip
            case "failed":
                message = operation.error or "The upstream could not make this video."
                await self._save(operation=known)
                await self._fail(operation.code or "generation_failed", message)
            case "lost":
                await self._lost()
            case "unknown":
                self.unknown += 1
                if self.unknown > MOST_UNKNOWN:
                    await self._fail("upstream_unknown_status", "The upstream answers with a status that is not known.")
                else:
                    await self._save(**common, step="running")
            case status:
                self.unknown = self.lost = 0
                started = self.record.started_at or time.time()
                new_status = "pending" if status == "running" else self.record.status
                await self._save(**common, step="running", status=new_status, progress=progress, started_at=started)

    async def _lost(self) -> None:
        self.lost += 1
        if self.asker.may_repeat(self.record):
            await self._save(step="new", again=True, operation=None)
        elif self.lost >= MOST_LOST:
            await self._fail(LOST, "The upstream no longer knows this task.")
        else:
            await self._save(next_poll_at=time.time() + self.rules.poll_seconds)

    async def _fetching(self) -> None:
        """Bring the videos home, one after another; each is in the record before the next is asked for."""
        index = len(self.record.files)
        try:
            async with self.asker.download(self.record, index) as incoming:
                kept = await self.files.put(_video(incoming), "video/mp4", f"{self.record.id}.mp4")
        except (MediaFull, MediaUnavailable) as error:
            log.warning("the video of task %s waits: %s", self.record.id, error.message)
            await self._pause(LONGEST_PAUSE)
            return
        except GateError as error:
            failures = self.record.failures + 1
            if error.code == LOST and self.asker.may_repeat(self.record):
                await self._save(step="new", again=True, operation=None)  # what is here stays
                return
            if failures >= MOST_DOWNLOADS or isinstance(error, UpstreamRefused):
                await self._fail("download_failed", f"The finished video could not be fetched: {error.message}")
            else:
                await self._save(failures=failures)
                await self._pause(_backoff(failures))
            return
        file = VideoFile(id=kept.id, media_type="video/mp4", size=kept.size, duration=self.record.duration)
        files = (*self.record.files, file)
        if len(files) < self.record.videos:
            await self._save(files=files, failures=0)
        else:
            await self._end(files=files, status="completed", progress=100)

    async def _fail(self, code: str, message: str) -> None:
        log.info("task %s failed: %s", self.record.id, code)
        await self._end(status="failed", error_code=code, error_message=message)

    async def _end(self, **changes: Any) -> None:
        now = time.time()
        step = "done" if self.record.webhook is None else "telling"
        await self._save(**changes, step=step, completed_at=now, expires_at=now + self.rules.keep_seconds)
        self.noted(self.record)

    async def _telling(self) -> None:
        """Tell the webhook, until it has heard or the tries are used up. The upstream's place is free meanwhile."""
        self.free()
        webhook = dict(self.record.webhook or {})
        await self._pause(webhook.get("next_at", 0.0) - time.time())
        pause = await self.hook.tell(self.record)
        if pause is None:
            await self._save(step="done")
        else:
            webhook |= {"attempts": webhook.get("attempts", 0) + 1, "next_at": time.time() + pause}
            await self._save(webhook=webhook)

    async def _cancelled(self) -> None:
        if self.record.operation is not None:
            with suppress(GateError):
                await self.asker.cancel(self.record)
        await self._fail("cancelled", "The task was cancelled.")
        self.free()

    async def _pause(self, seconds: float) -> None:
        """Wait, in pieces, so that a cancellation is soon seen."""
        ends = time.monotonic() + min(max(0.0, seconds), LONGEST_PAUSE)  # however the clock was set meanwhile
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            if self.record.status not in ENDED and await self.store.cancel_requested(self.record.id):
                return


def _told(record: TaskRecord) -> TaskRecord:
    """A record without what changes at every look at the upstream, and need not outlive the process that looks."""
    return replace(record, next_poll_at=0.0, spent=0.0, updated_at=0.0)


def _backoff(failures: int) -> float:
    """Seconds before the next try: 1, 2, 4, … and up to a quarter more by chance."""
    return min(LONGEST_PAUSE, 2.0 ** min(failures - 1, 10)) * (1 + secrets.randbelow(250) / 1000)


async def _video(incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    """The chunks of a video. Raises UpstreamError for what is none by its first bytes, whatever it is declared as."""
    beginning = b""
    async for chunk in incoming.chunks:
        if len(beginning) >= BEGINNING_BYTES:
            yield chunk
            continue
        beginning += chunk
        if len(beginning) >= BEGINNING_BYTES:
            if sniff(beginning) not in VIDEOS:
                raise UpstreamError("The upstream sent no video.", code="upstream_no_video")
            yield beginning
    if len(beginning) < BEGINNING_BYTES:
        raise UpstreamError("The upstream sent an empty file for the video.", code="upstream_no_video")
