"""Runs the long work on large bodies (measuring, parsing, checking) in one thread, so that the event loop stays free.

One thread, because Python runs one at a time anyway, and several would delay the loop several times as long. Bodies of an account
are processed one after the other, so the bodies of other accounts need not wait for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tornado_gate.codec.json_body import load_measured_object
from tornado_gate.codec.json_bounds import measure_json
from tornado_gate.gateway.body_budget import BodyClaim

Result = TypeVar("Result")


class BodyWorker:
    """One for each process; the thread starts with the first large body. Call `close` at the end."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, account: str, function: Callable[..., Result], **arguments: Any) -> Result:
        """The result of `function`, which runs in the thread when the account's earlier work is done. Raises what it raises."""
        turn = self._turns.get(account)
        if turn is None:
            turn = self._turns[account] = asyncio.Lock()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(function, **arguments))

    async def load_object(self, raw: bytes, claim: BodyClaim, max_cost: int) -> dict[str, Any]:
        """The JSON object in `raw`. The memory of the parsed value is reserved in `claim` before it exists.

        Raises RequestError for an invalid body, TooLarge for too many values, Unavailable when there is no memory.
        """
        measure = await self.run(claim.account, measure_json, raw=raw, max_cost=max_cost)
        waiting = claim.grow(measure.parsed_bytes)
        if waiting is not None:
            await waiting
        claim.complete()
        return await self.run(claim.account, load_measured_object, raw=raw, measure=measure)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None
