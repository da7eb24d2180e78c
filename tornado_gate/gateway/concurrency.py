"""The open requests of keys with a limit of concurrent requests. One object for each process, which counts only its own.

A key without a limit is not counted.
"""

from __future__ import annotations

from collections import Counter

from tornado_gate.errors import RateLimited
from tornado_gate.types import Caller

RETRY_SECONDS = 1


class ConcurrentRequests:
    """Counts requests, and realtime sessions, from their admission to their end."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def count(self, caller: Caller) -> int:
        """The open requests of a key with a limit."""
        return self._open.get(caller.id, 0)

    def enter(self, caller: Caller) -> None:
        """Count a request of a key with a limit. Raises RateLimited when the key has as many as it may.

        Every call that returns needs a `leave`.
        """
        used, most = self.count(caller), caller.concurrent_requests
        if most is not None and used >= most:
            message = (
                f"This API key may have {most} concurrent requests; {used} are open. Wait until one has ended, "
                f"or retry after {RETRY_SECONDS} s."
            )
            raise RateLimited(message, retry_after=RETRY_SECONDS, code="too_many_concurrent")
        self._open[caller.id] = used + 1

    def leave(self, caller: Caller) -> None:
        """A request that was counted has ended."""
        left = self._open[caller.id] - 1
        if left:
            self._open[caller.id] = left
        else:
            del self._open[caller.id]
