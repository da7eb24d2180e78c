"""Which configuration a process uses: since when, and why a newer file was rejected.

The reloader writes it. The console and /admin/v1 read it. Each process of a gateway reads the file, and has a separate state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from tornado_gate.types.value import Value

MAX_FAULTS: Final = 50
"""The number of faults that are kept; the log has all."""


class RejectedConfiguration(Value, frozen=True, kw_only=True):
    """A newer file that is not used. `faults` are lines of `tornado-gate check`, without secrets.

    `since` is the Unix time in seconds at which the first file since the last applied one was rejected.
    """

    faults: tuple[str, ...]
    since: float


class ConfigurationState:
    """The state of one process. `applied_at` is a Unix time in seconds. `rejected` is None while the newest file is used."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.applied_at = clock()
        self.rejected: RejectedConfiguration | None = None
        self.reloader: Callable[[], None] | None = None
        """Starts a reload; None in a process without a reloader."""
        self._watchers: list[asyncio.Future[None]] = []

    @property
    def can_reload(self) -> bool:
        return self.reloader is not None

    def request_reload(self) -> None:
        """Reload soon, without waiting for the next look at the file."""
        if self.reloader is not None:
            self.reloader()

    def watch(self) -> asyncio.Future[None]:
        """Return a future that is done when the next file is applied or rejected. Call it inside the event loop."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append(future)
        return future

    def _notify(self) -> None:
        watchers, self._watchers = self._watchers, []
        for future in watchers:
            if not future.done():
                future.set_result(None)

    def apply(self) -> None:
        """Record that the newest file is used now."""
        self.applied_at = self._clock()
        self.rejected = None
        self._notify()

    def reject(self, faults: Sequence[str]) -> None:
        """Record the faults of a newer file, which replace the faults of an earlier one."""
        since = self.rejected.since if self.rejected else self._clock()
        kept = tuple(faults[:MAX_FAULTS])
        if len(faults) > MAX_FAULTS:
            kept += (f"… and {len(faults) - MAX_FAULTS} more. The log of the gateway has all.",)
        self.rejected = RejectedConfiguration(faults=kept, since=since)
        self._notify()
