"""Calls of the database for short-lived state: `state: {store: database}`. An outage delays few requests, and none for long.

The first request that meets an outage waits at most `CALL_SECONDS`. Until the database responds again, one request in each
`PAUSE_SECONDS` tries it, and all others fail immediately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.engine import Connection

from tornado_gate.database.calls import DatabaseCalls
from tornado_gate.database.engine import Database
from tornado_gate.storage.files import MediaUnavailable

PAUSE_SECONDS = 2.0

Given = ParamSpec("Given")
Result = TypeVar("Result")
Work = Callable[Concatenate[Connection, Given], Result]


class StateCalls:
    """The calls of one process. The methods raise MediaUnavailable while the database is away.

    `database` has its tables. It belongs to this object, which closes it. `count_failure` is called for each request that failed.
    """

    def __init__(self, database: Database, count_failure: Callable[[], None]) -> None:
        self._calls = DatabaseCalls(database, "conversations and client secrets", _away_error)
        self._count_failure = count_failure
        self._retry_at = 0.0

    async def close(self) -> None:
        """Wait for the changes that have begun, and close the connections. The next call opens them again."""
        await self._calls.close()

    async def read(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work`, which gets a connection and reads."""
        with self._watch():
            return await self._calls.read(work, *given, **named)

    async def write(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work` in a transaction. If it has begun, it is finished even when its caller is cancelled."""
        with self._watch():
            return await self._calls.write(work, *given, **named)

    async def write_slowly(self, work: Work[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `work` as `write` does, for work that no request waits for: its failure begins no pause."""
        return await self._calls.write_slowly(work, *given, **named)

    @contextmanager
    def _watch(self) -> Iterator[None]:
        """Raise the error during a pause, and begin a pause after a failure."""
        if self._retry_at:
            now = time.monotonic()
            if now < self._retry_at:
                self._count_failure()
                raise _away_error()
            self._retry_at = now + PAUSE_SECONDS  # this request tries the database, others do not wait for it
        try:
            yield
        except MediaUnavailable:
            self._count_failure()
            self._retry_at = time.monotonic() + PAUSE_SECONDS
            raise
        self._retry_at = 0.0


def _away_error() -> MediaUnavailable:
    message = "The gateway's store of conversations and client secrets cannot be used now. Try again later."
    return MediaUnavailable(message, headers={"Retry-After": "5"})
