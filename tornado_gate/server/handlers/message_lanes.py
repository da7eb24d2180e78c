"""The order of the requests of one WebSocket connection.

Requests of a lane run one after the other, several lanes at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

log = logging.getLogger(__name__)

MAX_PARALLEL = 16
"""The maximum number of running requests of one connection, the same as at the vendor whose format has lanes."""
MAX_WAITING = 32
"""The number of waiting requests of one connection above which no further message is read until one has begun."""

Job = Callable[[], Coroutine[Any, Any, None]]


class Lanes:
    """A runner of jobs in lanes. `on_idle` is called when the last job has ended."""

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self._on_idle = on_idle
        self._waiting: dict[str, deque[Job]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._count = 0
        self._room: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._waiting

    def add(self, lane: str, job: Job) -> Awaitable[object] | None:
        """Run a job after the earlier jobs of its lane. Return an awaitable if the next message must wait, else None."""
        self._waiting.setdefault(lane, deque()).append(job)
        self._count += 1
        self._start_jobs()
        if self._count <= MAX_WAITING:
            return None
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        return self._room

    def cancel(self) -> None:
        """End all running jobs, and drop the waiting ones."""
        self._waiting.clear()
        for task in list(self._running.values()):
            task.cancel()
        self._count = 0
        self._make_room()

    def _start_jobs(self) -> None:
        for lane in [name for name in self._waiting if name not in self._running]:
            if len(self._running) >= MAX_PARALLEL:
                return
            jobs = self._waiting.pop(lane)
            job = jobs.popleft()
            if jobs:
                self._waiting[lane] = jobs  # at the end, so that lanes alternate
            self._count -= 1
            task = asyncio.get_running_loop().create_task(job())
            self._running[lane] = task
            task.add_done_callback(partial(self._on_done, lane))
        if self._count <= MAX_WAITING:
            self._make_room()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _on_done(self, lane: str, task: asyncio.Task[None]) -> None:
        del self._running[lane]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request of a WebSocket connection failed", exc_info=error)
        self._start_jobs()
        if self.is_idle:
            self._on_idle()
