"""The memory of all large responses of upstreams, until their callers have them. One object for each process.

An account may hold at most as much as is then still free (`account_shares.py`): alone it gets half.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from tornado_gate.account_shares import AccountShares, Report
from tornado_gate.codec.large_json import load_upstream_json
from tornado_gate.errors import Unavailable
from tornado_gate.streams.large_work import run_alone

Result = TypeVar("Result")

RETRY_SECONDS: Final = 5


class LargeResponses:
    """The limit for the memory of all large responses, in bytes. `shares.total` is conf's ``limits.answers_bytes``."""

    def __init__(self, total: int, report: Report | None = None) -> None:
        self.shares = AccountShares(total, report)
        self._lock = threading.Lock()  # large responses are read in the loop and in a thread

    def open_reader(self, account: str) -> LargeResponseReader:
        """Return the reader of one response of an account. Call its `release` when the request ends."""
        return LargeResponseReader(self, account)

    def try_hold(self, account: str, size: int) -> bool:
        """Hold `size` bytes for an account. Return False if they do not fit the limit or the account's share."""
        with self._lock:
            return self.shares.try_hold(account, size)

    def release(self, account: str, size: int) -> None:
        """Give back `size` bytes of an account."""
        with self._lock:
            self.shares.release(account, size)


class LargeResponseReader:
    """What one response of an account holds, in bytes: a `types.wire.ResponseReader`."""

    __slots__ = ("_account", "_held", "_responses")

    def __init__(self, responses: LargeResponses, account: str) -> None:
        self._responses = responses
        self._account = account
        self._held = 0

    def hold(self, size: int) -> None:
        """Hold `size` bytes more. Raises Unavailable when the responses of all, or of the account, would hold too much.

        The response is then given up, so everything it holds is released at once: others that grow at the same time still fit.
        """
        if not self._responses.try_hold(self._account, size):
            self.release()
            raise Unavailable(
                "The gateway's limit for the memory of large answers (limits.answers_bytes), or your account's share of it, is "
                f"reached. Retry after {RETRY_SECONDS} s.",
                code="overloaded",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        self._held += size

    def release(self, size: int | None = None) -> None:
        """Give `size` bytes back; without it all. What is no longer held is not given back again."""
        if not self._held:
            return
        released = self._held if size is None else min(size, self._held)
        self._held -= released
        self._responses.release(self._account, released)

    def load_json(self, raw: bytes, provider: str) -> Any:
        """Parse a large body in pieces. Raises UpstreamError."""
        return load_upstream_json(raw, provider)

    def run(self, function: Callable[..., Result], *arguments: Any) -> Awaitable[Result]:
        """Return the result of a function, in the thread of large responses."""
        return run_alone(function, *arguments)
