"""The requests that are being answered, and the snapshots that they use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from tornado_gate.errors import GateError
from tornado_gate.pipeline.snapshot import Snapshot


class Interruptible(Protocol):
    """A request that is being answered."""

    def interrupt(self, error: GateError) -> None:
        """End the request: its caller gets `error`, in the stream if one has begun."""


class OpenRequests:
    """The open requests of the process. `count` is the number of requests that draining waits for.

    `running` contains the requests that can be ended when they take too long. When a retired snapshot is no longer in use,
    `on_unused` is called with the retired snapshots that are still in use.
    """

    def __init__(self, on_unused: Callable[[Iterable[Snapshot]], None]) -> None:
        self.count = 0
        self.running: set[Interruptible] = set()
        self._on_unused = on_unused
        self._idle: asyncio.Event | None = None  # set while `wait_until_idle` runs
        self._users: dict[int, int] = {}
        self._retired: dict[int, Snapshot] = {}

    def begin(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """Count a request that starts. Until `end`, its snapshot's pools stay open and draining waits for it."""
        try:
            self._users[snapshot.number] += 1
        except KeyError:
            self._users[snapshot.number] = 1
        if waited_for:
            self.count += 1

    def end(self, snapshot: Snapshot, *, waited_for: bool = True) -> None:
        """Count a request that has ended. Its snapshot may be unused now."""
        number = snapshot.number
        if waited_for:
            self.count -= 1
            if self._idle is not None and not self.count:
                self._idle.set()
        self._users[number] -= 1
        if self._retired and not self._users[number]:
            del self._users[number]
            self._forget_unused()

    async def wait_until_idle(self) -> None:
        """Wait until no request is being answered."""
        while self.count:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    def hold(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """Return a context manager that calls `begin` and `end` around a request."""
        return _Hold(self, snapshot, waited_for=True)

    def hold_in_background(self, snapshot: Snapshot) -> AbstractContextManager[None]:
        """Return a context manager like `hold`. Draining does not wait for the work, because another process continues it."""
        return _Hold(self, snapshot, waited_for=False)

    def retire(self, snapshot: Snapshot) -> None:
        """Note that a snapshot is no longer the current one."""
        self._retired[snapshot.number] = snapshot
        self._forget_unused()

    def _forget_unused(self) -> None:
        self._retired = {number: old for number, old in self._retired.items() if self._users.get(number)}
        self._on_unused(self._retired.values())


class _Hold:
    __slots__ = ("_requests", "_snapshot", "_waited_for")

    def __init__(self, requests: OpenRequests, snapshot: Snapshot, *, waited_for: bool) -> None:
        self._requests = requests
        self._snapshot = snapshot
        self._waited_for = waited_for

    def __enter__(self) -> None:
        self._requests.begin(self._snapshot, waited_for=self._waited_for)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._requests.end(self._snapshot, waited_for=self._waited_for)
