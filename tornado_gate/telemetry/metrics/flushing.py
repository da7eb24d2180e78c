"""When counts that are kept as plain values are added to their series."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Flusher:
    """Flushes the subjects that keep plain values. `request_flush` is for the event loop, `flush` for any thread.

    `LoopLagMonitor` flushes every quarter of a second while it runs. Without it, values of several processes are flushed at
    each change (`is_immediate`), because the process that renders reads them from files.
    """

    def __init__(self, is_multiprocess: bool) -> None:
        self.lock = threading.Lock()
        self._is_multiprocess = self.is_immediate = is_multiprocess
        self._subjects: list[Callable[[], None]] = []

    def add_subject(self, flush: Callable[[], None]) -> None:
        """Call `flush` at each flush. One thread at a time calls it."""
        self._subjects.append(flush)

    def defer(self, deferred: bool) -> None:
        """With true, `flush` is called periodically; with false, every change is flushed immediately, also pending ones."""
        self.is_immediate = self._is_multiprocess and not deferred
        if not deferred:
            self.flush()

    def request_flush(self) -> None:
        """Flush now unless a flush will come."""
        if self.is_immediate:
            self.flush()

    def flush(self) -> None:
        with self.lock:
            self.flush_locked()

    def flush_locked(self) -> None:
        """As `flush`, for a caller that holds `lock`."""
        for flush in self._subjects:
            flush()
