"""Runs the long work on large bodies (measuring, parsing, checking, translating) in a thread, so that the event loop stays free.

There is one thread, because Python runs one at a time, and several threads would delay the loop more. The bodies of an account
are processed one after the other, so a body of another account waits for at most one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tornado_gate.admission.body_budget import BodyClaim
from tornado_gate.codec.json_body import load_measured_object
from tornado_gate.codec.json_bounds import measure_json
from tornado_gate.errors import Unavailable

Result = TypeVar("Result")

WORK_SECONDS = 60.0
"""Limit for one piece of work, with the time in the queue. Work takes less than a second, unless a plugin's hook hangs."""


class _WorkThread:
    """A daemon thread, so that a hook that hangs does not keep the process from ending."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=self._work, name="bodies", daemon=True).start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        future: Future[Result] = Future()
        self._queue.put((future, function))
        return future

    def stop(self) -> None:
        """End the thread when its work is done."""
        self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            future, function = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            del item, future, function  # they hold a body


class BodyWorker:
    """The worker of a process. Its thread starts with the first large body. Call `close` at the end."""

    def __init__(self) -> None:
        self._thread: _WorkThread | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, account: str, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of `function`, which runs in the thread after the account's earlier work.

        Raises the function's errors, and Unavailable after WORK_SECONDS: then a new thread does the following work.
        """
        async with self._find_turn(account):
            thread = self._thread = self._thread or _WorkThread()
            try:
                async with asyncio.timeout(WORK_SECONDS):
                    return await asyncio.wrap_future(thread.submit(partial(function, *arguments)))
            except TimeoutError:
                raise self._abandon(thread) from None

    def _find_turn(self, account: str) -> asyncio.Lock:
        turn = self._turns.get(account)
        if turn is None:
            turn = self._turns[account] = asyncio.Lock()
        return turn

    def _abandon(self, thread: _WorkThread) -> Unavailable:
        """Let a new thread do the following work. Return the error for a request whose work was not done in time."""
        if self._thread is thread:
            self.close()
        message = "The gateway could not process the large body of this request in time. Retry after 10 s."
        return Unavailable(message, code="overloaded", headers={"Retry-After": "10"})

    async def load_object(self, raw: bytes, claim: BodyClaim, max_cost: int) -> dict[str, Any]:
        """Return the JSON object in `raw`. The memory of the parsed value is reserved in `claim` before the value exists.

        Raises RequestError for an invalid body, TooLarge for too many values, Unavailable without memory.
        """
        measure = await self.run(claim.account, measure_json, raw, max_cost)
        waiting = claim.grow(measure.parsed_bytes)
        if waiting is not None:
            await waiting
        claim.complete()
        return await self.run(claim.account, load_measured_object, raw, measure)

    def close(self) -> None:
        """Let the thread end when its work is done."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
