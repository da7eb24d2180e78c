"""Measure the delay of the event loop, and count its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tornado_gate.telemetry.metrics import Metrics


class LoopLagMonitor:
    """A monitor of the event loop. It schedules a callback every `interval_seconds` and measures its delay.

    It reports the largest delay of each `period_seconds` and the number of tasks to `metrics`, and flushes `metrics` at
    every callback and at the end. It calls `on_delay` with every delay. Call `start` inside the loop; both calls may be
    repeated.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        interval_seconds: float = 0.25,
        period_seconds: float = 5.0,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._metrics = metrics
        self.on_delay: Callable[[float], None] = lambda _seconds: None
        self._interval = interval_seconds
        self._period = period_seconds
        self._loop: Any = loop
        self._handle: asyncio.TimerHandle | None = None
        self._due = self._period_ends = self._largest = 0.0

    def start(self) -> None:
        if self._handle is None:
            self._loop = self._loop or asyncio.get_running_loop()
            self._period_ends = self._loop.time() + self._period
            self._metrics.defer(True)
            self._schedule_tick()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
            self._metrics.defer(False)

    def _schedule_tick(self) -> None:
        self._due = self._loop.time() + self._interval
        self._handle = self._loop.call_later(self._interval, self._measure_delay)

    def _measure_delay(self) -> None:
        now = self._loop.time()
        delay = now - self._due
        self._largest = max(self._largest, delay)
        self.on_delay(delay)
        if now >= self._period_ends:
            self._metrics.process.observe_loop(self._largest, len(asyncio.all_tasks(self._loop)))
            self._largest = 0.0
            self._period_ends = now + self._period
        self._schedule_tick()
        self._metrics.flush()
