"""Which configuration a process uses: since when, and why a newer file was rejected.

The reloader writes it. The console and /admin/v1 read it. Each process of a gateway reads the file, and has a separate state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
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
    """The state of one process. `applied_at` is a Unix time in seconds. `rejected` is None while the newest file is used.

    `is_watched`: a reloader reads the file when it changes; `request_reload` lets it look now. `refused_version` is the number of
    a version in the database that is not used. The functions in `on_change` are called when a file is applied or rejected.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.applied_at = clock()
        self.rejected: RejectedConfiguration | None = None
        self.refused_version: int | None = None
        self.on_change: list[Callable[[], None]] = []
        self.is_watched = False
        self.request_reload: Callable[[], None] = lambda: None
        self._changed = asyncio.Event()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a file is applied or rejected, at most `seconds`. Return immediately if nobody reads the file."""
        if self.is_watched:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()

    def _report_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for notify in self.on_change:
            notify()

    def apply(self) -> None:
        """Record that the newest file is used now."""
        self.applied_at = self._clock()
        self.rejected = self.refused_version = None
        self._report_change()

    def reject(self, faults: Sequence[str], version: int | None = None) -> None:
        """Record the faults of a newer file, which replace the faults of an earlier one.

        `version` is its number, if it is a version in the database.
        """
        since = self.rejected.since if self.rejected else self._clock()
        kept = tuple(faults[:MAX_FAULTS])
        if len(faults) > MAX_FAULTS:
            kept += (f"… and {len(faults) - MAX_FAULTS} more. The log of the gateway has all.",)
        self.rejected = RejectedConfiguration(faults=kept, since=since)
        self.refused_version = version
        self._report_change()
