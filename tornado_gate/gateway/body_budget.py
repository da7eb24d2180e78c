"""How much memory the bodies of all requests may take together. Who comes when it is full waits, and its sender with it.

A body that must be parsed whole is in memory whole; fifty of 20 MB would be a gigabyte. So a large one reserves its length
before the first byte is read, and gives it back when its request has ended. Files of forms do not count: they are on the disk.
"""

from __future__ import annotations

import asyncio
from collections import deque

from tornado_gate.errors import Unavailable

SMALL_BYTES = 1024 * 1024
"""Bodies up to this are not counted."""
WAIT_SECONDS = 60.0


class BodyBudget:
    """Bytes that may be held at a time, first come, first served. One for each process."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def reserve(self, size: int) -> None:
        """Reserve `size` bytes; one body is let in however large it is. Raises Unavailable after WAIT_SECONDS."""
        if not self._waiting and self._fits(size):
            self.held += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # let in, and gone in the same moment
                self.release(size)
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
            if isinstance(error, TimeoutError):
                busy = "The gateway is busy with other large bodies; try again in a while."
                raise Unavailable(busy, code="overloaded", headers={"Retry-After": "10"}) from None
            raise

    def release(self, size: int) -> None:
        """Give back what was taken."""
        self.held -= size
        while self._waiting and (self._waiting[0][1].cancelled() or self._fits(self._waiting[0][0])):
            waiting_size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.held += waiting_size
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self.total
