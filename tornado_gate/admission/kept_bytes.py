"""Limits the memory of what connections keep between their requests. It is shared by account; what finds no room is not kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial


class KeptBytes:
    """At most `total` bytes are kept. An account may keep as much as is still free, as in `gateway.body_budget`."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self._of_account: Counter[str] = Counter()

    def keep(self, account: str, size: int) -> Callable[[], None] | None:
        """Count `size` bytes of an account. Returns the function that releases them, to be called once, or None without room."""
        if self._of_account[account] + size > self.total - self.held - size:
            return None
        self.held += size
        self._of_account[account] += size
        return partial(self._release, account, size)

    def _release(self, account: str, size: int) -> None:
        self.held -= size
        self._of_account[account] -= size
        if not self._of_account[account]:
            del self._of_account[account]
