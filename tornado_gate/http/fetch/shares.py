"""The division of a limited resource between accounts: slots for fetches, memory for fetched files. Uses no HTTP."""

from __future__ import annotations

import asyncio
from collections import deque

from tornado_gate.account_shares import FixedShares
from tornado_gate.errors import Unavailable

Waiting = tuple[int, asyncio.Future[None]]
"""A size, and the future that is done when it is reserved."""


class SharedResource(FixedShares):
    """A resource with at most `total` reserved units at a time, and at most a quarter of them for one account.

    Each process has one. A reservation that cannot be granted waits in the queue of its account; the queues alternate.
    """

    __slots__ = ("_queues",)

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._queues: dict[str, deque[Waiting]] = {}

    async def reserve(self, account: str, size: int, seconds: float, busy: str) -> None:
        """Reserve `size` units, waiting until they are free. Raises Unavailable with the message `busy` after `seconds`."""
        if account not in self._queues and self.try_hold(account, size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(account, deque()).append((size, turn))
        try:
            self._grant_waiting()
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # reserved and cancelled at the same time
                self.release(account, size)
            else:
                turn.cancel()
                self._grant_waiting()  # others may have waited behind it
            if isinstance(error, TimeoutError):
                raise Unavailable(busy, code="overloaded", headers={"Retry-After": "10"}) from None
            raise

    def release(self, account: str, size: int) -> None:
        """Release `size` reserved units and let waiting reservations proceed."""
        super().release(account, size)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Grant the reservations that fit.

        Accounts alternate; smaller sizes do not overtake the first one that needs all units.
        """
        served = True
        while served:
            served = False
            for account in list(self._queues):
                size = self._find_first_size(account)
                if size is None or not self.fits_share(account, size):
                    continue
                if not self.fits_total(size):
                    return
                self._grant_first(account)
                served = True

    def _find_first_size(self, account: str) -> int | None:
        """Return the size that waits longest; None for a queue without any, which is removed."""
        queue = self._queues[account]
        while queue and queue[0][1].cancelled():
            queue.popleft()
        if not queue:
            del self._queues[account]
            return None
        return queue[0][0]

    def _grant_first(self, account: str) -> None:
        queue = self._queues.pop(account)
        size, turn = queue.popleft()
        if queue:
            self._queues[account] = queue  # at the end: the other accounts are next
        self.hold(account, size)
        turn.set_result(None)
