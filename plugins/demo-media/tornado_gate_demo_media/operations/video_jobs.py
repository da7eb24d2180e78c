"""Video jobs: they continue after the request that started them, each in a folder of its own.

Jobs belong to one event loop. A job that was not polled for `IDLE_SECONDS` ends and its files are removed, completed
or not. When the last job is removed or the loop ends, the worker processes end and the folder is removed too.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from tornado_gate.errors import GateError, PluginError, UpstreamOverloaded
from tornado_gate.types.value import State, field
from tornado_gate_demo_media import scratch
from tornado_gate_demo_media.video_order import VideoOrder
from tornado_gate_demo_media.video_sources import Source, make_video_from
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.workers import WorkerPool

log = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
MAX_JOBS = 64
"""Jobs that are queued or running."""
DEADLINE_SECONDS: Final = 900.0
"""The limit for one video from its start: a minute of 1920x1080 takes less than a tenth of it."""
WORKERS: Final = min(2, os.cpu_count() or 1)


class VideoJob(State, eq=False):
    """One video for each of `orders`, made one after the other. `progress` is 0 to 100 over all of them."""

    orders: tuple[VideoOrder, ...]
    task_id: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    state: Literal["queued", "running", "completed", "failed"] = "queued"
    progress: int = 0
    seconds: float | None = None
    error: str = ""
    code: str = ""
    folder: Path | None = None
    ended: bool = False
    asked_at: float = field(default_factory=time.monotonic)
    making: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        return self.state in ("completed", "failed")

    def mark_polled(self) -> None:
        """Restart the idle timeout of the job."""
        self.asked_at = time.monotonic()

    def get_file(self, number: int) -> Path:
        """The path of video `number`. The job must have a folder."""
        assert self.folder is not None, "the job has not started and has no folder"
        return self.folder / f"{number}.mp4"

    def set_progress(self, number: int, share: float) -> None:
        """Set the progress: `share` (0 to 1) of video `number` is encoded."""
        self.state = "running"
        self.progress = max(self.progress, min(99, int(100 * (number + share) / len(self.orders))))

    def fail(self, error: str, code: str) -> None:
        """Set the state "failed". Callers see `error`, so it must be safe to show."""
        self.state, self.error, self.code = "failed", error, code


class VideoJobs:
    """The jobs of one event loop. Only `close` may be called outside it."""

    def __init__(self) -> None:
        self.scratch = scratch.ScratchFolder()
        self.pool = WorkerPool(size=WORKERS, most_waiting=MAX_JOBS, deadline_seconds=DEADLINE_SECONDS)
        self.keeper: asyncio.Task[None] | None = None
        self._jobs: dict[str, VideoJob] = {}

    def begin(self, job: VideoJob, picture: bytes | None = None, earlier: VideoJob | None = None) -> None:
        """Start a job: with an image file, or with the last frame of an earlier job's first video, if that still exists.

        Raises UpstreamOverloaded when `MAX_JOBS` are queued or running.
        """
        if sum(not other.is_done for other in self._jobs.values()) >= MAX_JOBS:
            message = (
                f"The local provider already has {MAX_JOBS} unfinished videos, which is its limit. Retry after 30 s."
            )
            raise UpstreamOverloaded(message, headers={"Retry-After": "30"})
        self._jobs[job.id] = job
        job.making = asyncio.create_task(self._make(job, picture, earlier))
        if self.keeper is None:
            self.keeper = asyncio.create_task(self._keep())

    def find(self, operation: Mapping[str, Any] | None, task_id: str = "") -> VideoJob | None:
        """The job of an operation; without an operation that of the task. Restarts its idle timeout."""
        if operation is not None:
            name = operation.get("job")
            video_job = self._jobs.get(name) if isinstance(name, str) else None
        else:
            video_job = next((job for job in self._jobs.values() if task_id and job.task_id == task_id), None)
        if video_job is not None:
            video_job.mark_polled()
        return video_job

    async def end(self, job: VideoJob) -> None:
        """Stop the job if it runs, remove its files and drop it."""
        self._jobs.pop(job.id, None)
        job.ended = True
        if job.making is not None:
            job.making.cancel()
            await asyncio.wait([job.making])
        await self._clear(job)

    def close(self) -> None:
        """End the worker processes and remove all files. Blocks briefly; may be called repeatedly and from any thread."""
        self.pool.close()
        self.scratch.close()

    async def _make(self, job: VideoJob, picture: bytes | None, earlier: VideoJob | None) -> None:
        try:
            source = await asyncio.to_thread(self._prepare, job, picture, earlier)
            picture = earlier = None  # do not keep them in memory for minutes
            for number, order in enumerate(job.orders):
                report, path = partial(job.set_progress, number), str(job.get_file(number))
                job.seconds = (await self.pool.run_reporting(report, make_video_from, order, path, source)).seconds
            job.state, job.progress = "completed", 100
        except InvalidArgument as error:
            job.fail(error.message, "invalid_image" if error.param == "image" else "invalid_value")
        except GateError as error:
            log.error("video job %s: %s", job.id, error.detail if isinstance(error, PluginError) else error.message)
            job.fail(error.message, error.code)
        except OSError:
            log.exception("video job %s failed: its folder or files cannot be written", job.id)
            job.fail(
                "The gateway cannot write the file of this video. Check its folder for temporary files (TMPDIR).",
                "storage_unavailable",
            )
        except Exception:
            log.exception("video job %s failed with an unexpected error", job.id)
            job.fail(
                "The video could not be generated because of an unexpected error. See the gateway's log.",
                "generation_failed",
            )
        if job.state == "failed":
            await self._clear(job)

    def _prepare(self, job: VideoJob, picture: bytes | None, earlier: VideoJob | None) -> Source | None:
        """Create the job's folder with the image or video that it starts from. Runs in a thread. Raises OSError."""
        job.folder = folder = self.scratch.make_folder(job.id)
        if job.ended:  # `end` ran in the meantime and saw no folder
            scratch.remove_folder(folder)
            return None
        if picture is not None:
            (folder / "picture").write_bytes(picture)
            return "picture", str(folder / "picture")
        if earlier is not None and earlier.state == "completed":
            with suppress(OSError):  # its files were removed in the meantime
                os.link(earlier.get_file(0), folder / "earlier.mp4")
                return "video", str(folder / "earlier.mp4")
        return None

    async def _clear(self, job: VideoJob) -> None:
        if job.folder is not None:
            await asyncio.to_thread(scratch.remove_folder, job.folder)

    async def _keep(self) -> None:
        """End idle jobs until no job is left."""
        loop = asyncio.get_running_loop()
        try:
            while self._jobs:
                await asyncio.sleep(IDLE_SECONDS / 10)
                for job in list(self._jobs.values()):
                    if time.monotonic() - job.asked_at >= IDLE_SECONDS:
                        await self.end(job)
            _of_loops.pop(loop, None)  # new jobs get a new VideoJobs
            await asyncio.to_thread(self.close)
        finally:
            if _of_loops.get(loop) is self:  # the loop ends: nothing may run in this process afterwards
                _of_loops.pop(loop)
            self.close()


_of_loops: dict[asyncio.AbstractEventLoop, VideoJobs] = {}


def get_loop_jobs() -> VideoJobs:
    """The jobs of the running event loop. Closes those of closed loops in a thread."""
    for loop in list(_of_loops):
        if loop.is_closed() and (jobs := _of_loops.pop(loop, None)) is not None:
            threading.Thread(target=jobs.close, daemon=True).start()
    loop = asyncio.get_running_loop()
    loop_jobs = _of_loops.get(loop)
    if loop_jobs is None:
        loop_jobs = _of_loops[loop] = VideoJobs()
    return loop_jobs


def close_all() -> None:
    """End all jobs of all loops; runs at the end of the process."""
    for jobs in list(_of_loops.values()):
        jobs.close()
    _of_loops.clear()


atexit.register(close_all)
