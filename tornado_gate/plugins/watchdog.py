"""A watchdog that interrupts plugin code that blocks the event loop.

A hook that never returns would stop every request of the process. Each heartbeat of the loop sets a timer of the kernel again.
When it runs out, a signal runs `_interrupt` in the main thread. It raises `EventLoopBlocked` if plugin code is running there. The
timer is not a thread, because a thread could not run while a search by the module `re` keeps Python's lock. Such a search checks
for signals itself. A hook that returns in time has no overhead. Code that blocks inside another C extension without checking
signals cannot be interrupted; it is logged when it returns.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

log = logging.getLogger(__name__)

BEAT_SECONDS = 0.25
REPEAT_SECONDS = 1.0
"""The interval at which a loop that stays blocked is interrupted."""
LOGGING_SECONDS = 1.0
"""The additional time for code that is writing a log: an exception there could leave the lock of all logs closed."""
_LOOK_SECONDS = 0.005


class EventLoopBlocked(BaseException):
    """An exception raised inside plugin code that ran for too long.

    A BaseException, so that plugins do not catch it by accident.
    """

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin '{plugin}' blocked the event loop")
        self.plugin = plugin


class Watchdog:
    """The watchdog of a process. `owner(frame)` returns the plugin whose code runs in a frame, or ""."""

    def __init__(self, owner: Callable[[FrameType], str], limit_seconds: float) -> None:
        self.limit_seconds = limit_seconds
        self._owner = owner
        self._beat_at: float | None = None
        self._guarded = ""
        self._is_watching = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Start watching; with `loop`, start its heartbeat too. Do nothing outside of the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._is_watching:
            signal.signal(signal.SIGALRM, self._interrupt)
            self._is_watching = True
        if loop is not None:
            self._beat(loop)

    def stop(self) -> None:
        self._beat_at = None
        if self._timer is not None:
            self._timer.cancel()
        if self._is_watching:
            self._is_watching = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    @contextmanager
    def guard(self, plugin: str, limit_seconds: float) -> Iterator[None]:
        """Watch code that runs outside of the loop, such as an import. Timeouts are attributed to `plugin`."""
        if threading.current_thread() is not threading.main_thread() or not self._is_watching:
            yield
            return
        kept, self.limit_seconds = self.limit_seconds, limit_seconds
        self._guarded = plugin
        self._note_beat()
        try:
            yield
        finally:
            self._guarded = ""
            self.limit_seconds = kept
            if self._timer is None:
                self._beat_at = None
                signal.setitimer(signal.ITIMER_REAL, 0)
            else:
                self._note_beat()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._note_beat()
        self._timer = loop.call_later(BEAT_SECONDS, self._beat, loop)

    def _note_beat(self) -> None:
        self._beat_at = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self.limit_seconds + BEAT_SECONDS, REPEAT_SECONDS)

    def _is_late(self, more_seconds: float = 0.0) -> bool:
        beat_at = self._beat_at
        return beat_at is not None and time.monotonic() - beat_at > self.limit_seconds + more_seconds

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if not self._is_late():
            return
        plugin = self._guarded
        running = frame
        while running is not None and not plugin:
            plugin = self._owner(running)
            running = running.f_back
        if plugin:
            if runs_in(frame, {"logging"}) and not self._is_late(LOGGING_SECONDS):
                signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, REPEAT_SECONDS)
                return
            if not self._guarded:
                self._beat_at = time.monotonic()
            raise EventLoopBlocked(plugin)
        log.warning("the event loop is blocked: %s", "".join(traceback.format_stack(frame, limit=5)))


def runs_in(frame: FrameType | None, packages: Container[str], root: CodeType | None = None) -> bool:
    """Return whether a frame, or a frame that has called it, belongs to one of the packages.

    With `root`, only frames that `root` has called count.
    """
    while frame is not None and frame.f_code is not root:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            return True
        frame = frame.f_back
    return False
