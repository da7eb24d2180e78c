"""Limits the memory of all large answers of upstreams, until their callers have them. One budget for each process.

An account may hold at most as much as is then still free, as of all shared memory (`storage/shares.py`): alone it gets half.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import ClassVar

from tornado_gate.errors import Unavailable

DEFAULT_ANSWERS_BYTES = 1024 * 1024 * 1024
RETRY_SECONDS = 5


ANSWERED_ACCOUNT: ContextVar[str] = ContextVar("answered_account", default="")
"""The account whose request the current task answers, for parsers, which know no call."""


class _Budget:
    most = DEFAULT_ANSWERS_BYTES
    held = 0
    accounts: ClassVar[dict[str, int]] = {}
    lock: ClassVar[threading.RLock] = threading.RLock()
    """Large answers are read in the loop and in a thread; a garbage collection may end a claim while the lock is held."""


def set_answers_bytes(most: int) -> None:
    """Set conf's ``limits.answers_bytes``, at the start and after a reload."""
    _Budget.most = most


class AnswerClaim:
    """What one answer of an account holds of the budget, in bytes, until `release` or the end of this object."""

    __slots__ = ("_account", "_held")

    def __init__(self, account: str = "") -> None:
        self._account = account
        self._held = 0

    def grow(self, size: int) -> None:
        """Hold `size` bytes more. Raises Unavailable when the answers of all, or of the account, would hold too much.

        The answer is then given up, so its claim is released at once: others that grow at the same time still fit.
        """
        if not self._try_to_grow(size):
            self.release()
            raise Unavailable(
                "The gateway's limit for the memory of large answers (limits.answers_bytes), or your account's share of it, is "
                f"reached. Retry after {RETRY_SECONDS} s.",
                code="overloaded",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def _try_to_grow(self, size: int) -> bool:
        with _Budget.lock:
            own = _Budget.accounts.get(self._account, 0) + size
            if own > _Budget.most - _Budget.held - size:
                return False
            _Budget.held += size
            _Budget.accounts[self._account] = own
            self._held += size
            return True

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Give everything back."""
        if not self._held:
            return
        with _Budget.lock:
            _Budget.held -= self._held
            _Budget.accounts[self._account] -= self._held
            if not _Budget.accounts[self._account]:
                del _Budget.accounts[self._account]
            self._held = 0
