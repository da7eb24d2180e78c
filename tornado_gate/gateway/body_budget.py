"""The memory limit for the bodies of all requests together; excess bodies wait (back-pressure).

A JSON body is parsed as a whole, so it is in memory as a whole: fifty bodies of 20 MB take a gigabyte. A large body reserves its
length before its first byte is read and releases it when its request ends. Files in forms do not count: they are on the disk.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tornado_gate.errors import Unavailable

SMALL_BYTES = 1024 * 1024
"""Bodies up to this length are not counted."""
WAIT_SECONDS = 60.0


class BodyBudget:
    """At most `total` bytes are reserved at a time; bodies that wait are served in order of arrival. One for each process."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def reserve(self, size: int) -> None:
        """Reserve `size` bytes, waiting until they are free. One body alone may exceed `total`.

        Raises Unavailable after WAIT_SECONDS.
        """
        if not self._waiting and self._fits(size):
            self.held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # reserved and cancelled at the same time
                self.release(size)
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
            if isinstance(error, TimeoutError):
                busy = "The memory limit for large request bodies (limits.bodies_bytes) is reached. Retry after 10 s."
                raise Unavailable(busy, code="overloaded", headers={"Retry-After": "10"}) from None
            raise

    def release(self, size: int) -> None:
        """Release `size` reserved bytes and let waiting bodies proceed."""
        self.held -= size
        while self._waiting and (self._waiting[0][1].cancelled() or self._fits(self._waiting[0][0])):
            waiting_size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.held += waiting_size
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self.total
