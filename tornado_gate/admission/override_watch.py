"""Applies the temporary limits of administrators: reads them after a change, and ends them in time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from tornado_gate.accounts.limit_overrides import read_overrides
from tornado_gate.admission.overrides import Overrides
from tornado_gate.database.engine import Database, DatabaseError

log = logging.getLogger(__name__)

LONGEST_TIMER: Final = 86400.0


class OverrideWatch:
    """Calls `apply` with the active overrides. Call `start` inside the event loop, and `close` before it ends."""

    def __init__(self, database: Database, apply: Callable[[Overrides], None]) -> None:
        self._database = database
        self._apply = apply
        self._reading: asyncio.Task[None] | None = None
        self._reads = self._adopted = 0
        self._end: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Read the overrides."""
        self._loop = asyncio.get_running_loop()
        await self._read()

    def close(self) -> None:
        """Stop reading."""
        self._loop = None
        if self._reading is not None:
            self._reading.cancel()
        if self._end is not None:
            self._end.cancel()

    def read_again(self) -> None:
        """Read the overrides again, because keys have changed, and overrides may have changed too."""
        if self._loop is not None:
            self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        self._reads += 1
        number = self._reads
        try:
            overrides = await self._database.run(read_overrides, self._database)
        except DatabaseError as error:
            log.warning("temporary limits cannot be read; the known ones stay active: %s", error)
            return
        if number > self._adopted:  # otherwise a read that began later has ended first
            self._adopted = number
            self._adopt(Overrides(overrides, time.time()))

    def _adopt(self, overrides: Overrides) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        self._apply(overrides)
        if overrides.next_end is not None:
            seconds = min(max(0.0, overrides.next_end - time.time()) + 0.01, LONGEST_TIMER)
            self._end = asyncio.get_running_loop().call_later(seconds, partial(self._renew, overrides))

    def _renew(self, overrides: Overrides) -> None:
        self._end = None
        self._adopt(overrides.renew(time.time()))
