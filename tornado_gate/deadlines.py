"""Time limits around whatever a plugin or an upstream does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from tornado_gate.errors import UpstreamTimeout
from tornado_gate.stream import close
from tornado_gate.types import Timeouts

T = TypeVar("T")


class Deadlines:
    """The time one attempt has; counts from when it is made. All in seconds."""

    def __init__(self, timeouts: Timeouts, provider: str, *, streaming: bool) -> None:
        self._timeouts = timeouts
        self._provider = provider
        now = time.monotonic()
        self._ends = now + timeouts.total
        # Nothing comes of a whole answer before all of it is made, so its first event may take as long as the whole.
        self._waiting: asyncio.Timeout | None = None
        self._first = now + min(timeouts.first_event, timeouts.total) if streaming else self._ends

    async def first(self, awaitable: Awaitable[T]) -> T:
        """What must be there by the first event. Raises UpstreamTimeout."""
        try:
            async with asyncio.timeout(max(0.0, self._first - time.monotonic())):
                return await awaitable
        except TimeoutError as error:
            raise UpstreamTimeout(f"The provider '{self._provider}' did not begin to answer in time.") from error

    async def alive(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`chunks`; each one is a sign of life, also when no event comes of it, as with the pings of an upstream that thinks."""
        try:
            async for chunk in chunks:
                if self._waiting is not None and self._waiting.when() is not None:
                    now = time.monotonic()
                    left = min(self._timeouts.gap, self._ends - now)
                    self._waiting.reschedule(asyncio.get_running_loop().time() + left)
                yield chunk
        finally:
            await close(chunks)

    async def between(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """`items`, each within the gap after the one before and all within the total. Raises UpstreamTimeout."""
        first = True
        try:
            while True:
                left = self._ends - time.monotonic()
                limit = left if first else min(left, self._timeouts.gap)
                first = False
                try:
                    async with asyncio.timeout(max(0.0, limit)) as self._waiting:
                        item = await anext(items)
                except StopAsyncIteration:
                    return
                yield item
        except TimeoutError as error:
            raise UpstreamTimeout(
                f"The provider '{self._provider}' fell silent in the middle of its answer."
            ) from error
        finally:
            await close(items)
