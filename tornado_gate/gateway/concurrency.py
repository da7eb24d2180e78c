"""The open requests of keys and teams with a limit of concurrent requests.

One object for each process, which counts only its own. A caller without a limit is not counted.
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

    def count(self, identity: str) -> int:
        """The open requests of a key or a team with a limit."""
        return self._open.get(identity, 0)

    def enter(self, caller: Caller) -> None:
        """Count a request of a caller with a limit. Raises RateLimited when its key or its team has as many as it may.

        Every call that returns needs a `leave` with the same caller.
        """
        limits = _list_limits(caller)
        for identity, (owner, most) in limits.items():
            used = self.count(identity)
            if used >= most:
                message = (
                    f"{owner} may have {most} concurrent requests; {used} are open. Wait until one has ended, "
                    f"or retry after {RETRY_SECONDS} s."
                )
                raise RateLimited(message, retry_after=RETRY_SECONDS, code="too_many_concurrent")
        self._open.update(limits.keys())

    def leave(self, caller: Caller) -> None:
        """A request that was counted has ended."""
        for identity in _list_limits(caller):
            left = self._open[identity] - 1
            if left:
                self._open[identity] = left
            else:
                del self._open[identity]


def _list_limits(caller: Caller) -> dict[str, tuple[str, int]]:
    """Whose requests are counted, by id: the words for it, and its limit."""
    limits: dict[str, tuple[str, int]] = {}
    if caller.concurrent_requests is not None:
        limits[caller.id] = ("This API key", caller.concurrent_requests)
    if caller.team_limits.concurrent_requests is not None:
        limits[caller.team] = ("The team of this API key", caller.team_limits.concurrent_requests)
    return limits
