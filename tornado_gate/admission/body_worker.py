"""Runs the long work on large bodies (measuring, parsing, checking, translating) in a thread, so that the event loop stays free.

A body whose work is short is measured and parsed in the event loop: a visit of the thread costs more than parsing 100 KB.

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
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from tornado_gate.admission.body_budget import BodyClaim
from tornado_gate.codec.json_body import (
    count_brackets,
    is_surely_below,
    load_and_measure_object,
    load_measured_object,
)
from tornado_gate.codec.json_bounds import JsonMeasure, measure_json, measure_sparse_json
from tornado_gate.errors import Unavailable
from tornado_gate.types.value import Value

Result = TypeVar("Result")

WORK_SECONDS = 60.0
"""Limit for one piece of work, with the time in the queue. Work takes less than a second, unless a plugin's hook hangs."""

LOOP_BYTES: Final = 1024 * 1024
"""The longest body that is parsed in the event loop, if it consists of long strings: about 1 ms."""
DENSE_BYTES: Final = 512 * 1024
"""The longest body with many values that is parsed before it is measured, because its value is measured faster than its text."""
LOOP_BRACKETS: Final = 4096
"""Such a body with more brackets is parsed in the thread."""
LOOP_COST: Final = 50_000
"""Hooks get a body with more values in the thread. 2,000 messages cost 44,000."""


class LargeBody(Value, frozen=True):
    """A large body and its parsed object. `is_quick`: its work is so short that it need not be done in the thread."""

    raw: bytes
    json: dict[str, Any]
    is_quick: bool


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

    async def load_object(self, pieces: list[bytes], claim: BodyClaim, max_cost: int) -> LargeBody:
        """The JSON object in the text that `pieces` are together. They are removed from the list.

        The memory of the parsed value is reserved in `claim` before it exists; of a body up to DENSE_BYTES as soon as it exists,
        and it is parsed again if the memory is not free. Raises RequestError for an invalid body, TooLarge for too many values,
        Unavailable when there is no memory.
        """
        size = sum(map(len, pieces))
        if size > LOOP_BYTES:
            return await self._load_measured(claim, *await self.run(claim.account, _join_and_measure, pieces, max_cost))
        raw = _join(pieces)
        sparse = measure_sparse_json(raw, max_cost)
        if sparse is not None and sparse.cost <= LOOP_COST:
            await _reserve(claim, sparse)
            return LargeBody(raw, load_measured_object(raw, sparse), True)
        brackets = count_brackets(raw) if size <= DENSE_BYTES else 0
        if size > DENSE_BYTES or not is_surely_below(raw, brackets, max_cost):
            return await self._load_measured(claim, raw, await self.run(claim.account, measure_json, raw, max_cost))
        if brackets <= LOOP_BRACKETS:
            value, measure = load_and_measure_object(raw, max_cost)
        else:
            value, measure = await self.run(claim.account, load_and_measure_object, raw, max_cost)
        is_quick = brackets <= LOOP_BRACKETS and measure.cost <= LOOP_COST
        waiting = claim.grow(measure.parsed_bytes)
        if waiting is None:
            claim.complete()
            return LargeBody(raw, value, is_quick)
        del value  # others wait with their texts only
        await waiting
        claim.complete()
        return LargeBody(raw, await self.run(claim.account, load_measured_object, raw, measure), is_quick)

    async def _load_measured(self, claim: BodyClaim, raw: bytes, measure: JsonMeasure) -> LargeBody:
        await _reserve(claim, measure)
        return LargeBody(raw, await self.run(claim.account, load_measured_object, raw, measure), False)

    def close(self) -> None:
        """Let the thread end when its work is done."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None


async def _reserve(claim: BodyClaim, measure: JsonMeasure) -> None:
    """Reserve the memory of a parsed value, before it exists."""
    waiting = claim.grow(measure.parsed_bytes)
    if waiting is not None:
        await waiting
    claim.complete()


def _join_and_measure(pieces: list[bytes], max_cost: int) -> tuple[bytes, JsonMeasure]:
    raw = _join(pieces)
    return raw, measure_json(raw, max_cost)


def _join(pieces: list[bytes]) -> bytes:
    raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    pieces.clear()  # otherwise the caller's list would hold the body a second time
    return raw
