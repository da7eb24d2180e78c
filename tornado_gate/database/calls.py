"""Calls of the database from the event loop, for state that all nodes share, and their errors.

A store has its own connections and threads, so that a long report does not delay it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from tornado_gate.database.engine import CONNECTIONS, Database, DatabaseError
from tornado_gate.database.opening import migrate
from tornado_gate.storage.files import MediaUnavailable

log = logging.getLogger(__name__)

CALL_SECONDS = 4.0
"""The time for one call. A caller then gets an error, although the call may still end in its thread.

It is shorter than a lease: if the database does not respond for as long as that, every process notices the outage.
"""
RETRY_SECONDS = 1.0

Given = ParamSpec("Given")
Result = TypeVar("Result")
Work = Callable[Concatenate[Connection, Given], Result]


class DatabaseCalls:
    """The calls of one store in one process. Every method raises MediaUnavailable while the database is away.

    `subject` is a plural for the log, such as "video tasks". `make_error` returns the error for callers. `steady_since` is the
    monotonic time since which all calls were successful, None before the first one.
    """

    def __init__(self, database: Database, subject: str, make_error: Callable[[], MediaUnavailable]) -> None:
        self._database = database
        self._subject = subject
        self._make_error = make_error
        self._connections = asyncio.Semaphore(CONNECTIONS)
        self._unfinished: set[asyncio.Future[Any]] = set()
        self._clock: tuple[float, float] | None = None  # the time of the database, the monotonic time of this process
        self.steady_since: float | None = None

    async def open(self) -> None:
        """Bring the tables up to date. The message of the error names the cause."""
        try:
            await self._database.run(migrate, self._database)
        except DatabaseError as error:
            raise MediaUnavailable(str(error)) from error

    async def close(self) -> None:
        """Wait for the changes that have begun, and close the connections."""
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=CALL_SECONDS)
        self._database.close()

    def note_clock(self, database_time: float) -> None:
        """Set the clock of the database, which has just been read."""
        self._clock = (database_time, time.monotonic())

    def get_time(self) -> float:
        """Return the time by the clock of the database; by the own clock before it was read."""
        if self._clock is None:
            return time.time()
        return self._clock[0] + time.monotonic() - self._clock[1]

    async def read(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work`, which gets a connection and reads."""
        async with self._limit_time():
            return await self._run(self._database.read, work, *given, **named)

    async def write(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work` in a transaction. If it has begun, it is finished even when its caller is cancelled."""
        async with self._limit_time():
            return await self._run(self._database.write, work, *given, **named)

    async def write_slowly(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work` as `write` does, without a time limit. For work that no request waits for."""
        return await self._run(self._database.write, work, *given, **named)

    async def discard(self, work: Work[Given, None], *given: Given.args, **named: Given.kwargs) -> None:
        """Run `work` as `write` does, but ignore an outage: the sweep deletes what is left."""
        with suppress(MediaUnavailable):
            await self.write(work, *given, **named)

    async def persist(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work` as `write` does, but wait as long as the database is away.

        It has no time limit: a change that is late must not end after a newer one.
        """
        while True:
            try:
                return await self.write_slowly(work, *given, **named)
            except MediaUnavailable:
                await asyncio.sleep(RETRY_SECONDS)

    @asynccontextmanager
    async def _limit_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except TimeoutError as error:
            self._note_outage("no response")
            raise self._make_error() from error

    async def _run(
        self,
        begin: Callable[[], AbstractContextManager[Connection]],
        work: Work[Given, Result],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Result:
        def run_in_transaction() -> Result:
            with begin() as connection:
                return work(connection, *given, **named)

        await self._connections.acquire()
        call = asyncio.ensure_future(self._database.run(run_in_transaction))
        self._unfinished.add(call)
        call.add_done_callback(self._note_finished)
        try:
            result = await asyncio.shield(call)
        except DatabaseError as error:
            self._note_outage(str(error))
            raise self._make_error() from error
        if self.steady_since is None:
            self.steady_since = time.monotonic()
            log.info("%s are stored in the database", self._subject)
        return result

    def _note_finished(self, call: asyncio.Future[Any]) -> None:
        self._unfinished.discard(call)
        self._connections.release()
        if not call.cancelled():
            call.exception()  # the caller may be gone when the error arises

    def _note_outage(self, cause: str) -> None:
        if self.steady_since is not None:
            log.error("%s cannot be stored, will retry: %s", self._subject, cause)
        self.steady_since = None
