"""Limits the memory, or the disk space, for the bodies of all requests together. It is shared by account; excess bodies wait.

A JSON body is parsed as a whole, so it is in memory as a whole: fifty bodies of 20 MB take a gigabyte. Files in forms are on the
disk, which has its own budget. What has arrived of a body is counted, not the length that its head declares, and after parsing
also the estimated size of its parsed value. Both stay counted until the request ends: a fallback target may need either.

*Shares.* An account may hold at most as much as is still free (`account_shares.py`); the rest is free for the next account.

*Progress.* Bodies that have arrived in part could wait for each other forever. So the oldest incomplete body of an account may
exceed the account's share, and the oldest one of all may exceed the budget, as long as no complete body holds any of it: complete
bodies end without more memory. The budget is exceeded by the length of one body at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from tornado_gate.account_shares import AccountShares
from tornado_gate.errors import Unavailable

SMALL_BYTES = 64 * 1024
"""JSON bodies up to this length are not counted."""
WAIT_SECONDS = 60.0
"""A body that waits for longer is refused."""
RETRY_SECONDS = 10
OVERLOAD_SECONDS = 30.0
"""If a full budget admits no waiting body for this time, the process reports that it is not ready."""


Report = Callable[[int, int, int], None]
"""Called after a change with the held bytes, the number of waiting bodies, and the number of refused bodies since the start."""


def _report_nothing(_held: int, _waiting: int, _refused: int) -> None: ...


class _Bodies:
    """The bodies of an account. `incomplete` are its incomplete ones, the oldest first; `complete_bytes` belong to the others."""

    __slots__ = ("claims", "complete_bytes", "incomplete")

    def __init__(self) -> None:
        self.complete_bytes = 0
        self.claims = 0
        self.incomplete: dict[BodyClaim, None] = {}


class BodyBudget:
    """At most `total` bytes are held at a time. One for each process and kind of storage; `setting` is its key in conf.

    `refused` counts the bodies that have waited in vain since the start.
    """

    def __init__(self, total: int, setting: str, report: Report = _report_nothing) -> None:
        self._memory = AccountShares(total)
        self._report = report
        self.setting = setting
        self.refused = 0
        self._complete_bytes = 0
        self._incomplete: dict[BodyClaim, None] = {}
        self._bodies: dict[str, _Bodies] = {}
        self._waiting: dict[BodyClaim, tuple[int, asyncio.Future[None]]] = {}
        self._full_since: float | None = None

    def open(self, account: str) -> BodyClaim:
        """A claim of `account` that holds nothing yet. Call its `release` when the request ends."""
        bodies = self._bodies.get(account)
        if bodies is None:
            bodies = self._bodies[account] = _Bodies()
        bodies.claims += 1
        claim = BodyClaim(self, account, bodies)
        bodies.incomplete[claim] = self._incomplete[claim] = None
        return claim

    @property
    def total(self) -> int:
        """The maximum number of bytes; a reload replaces it."""
        return self._memory.total

    @total.setter
    def total(self, total: int) -> None:
        self._memory.total = total

    @property
    def held(self) -> int:
        """The bytes that all bodies hold."""
        return self._memory.held

    @property
    def waiting(self) -> int:
        """The number of bodies that wait."""
        return len(self._waiting)

    @property
    def full_seconds(self) -> float:
        """How long bodies have been waiting because the whole budget is held, without any that got more; 0 if none waits."""
        return 0.0 if self._full_since is None or not self._waiting else monotonic() - self._full_since

    def explain_overload(self) -> str:
        """Why the process should get no more requests for now; "" if it should."""
        if self.full_seconds < OVERLOAD_SECONDS:
            return ""
        return f"{self.setting} has been reached for {self.full_seconds:.0f} s, and {self.waiting} bodies wait"

    def _allows(self, claim: BodyClaim, size: int) -> bool:
        if self._memory.fits_share(claim.account, size):
            return True
        if self._memory.fits_total(size):
            bodies = claim.bodies
            return not bodies.complete_bytes and next(iter(bodies.incomplete), None) is claim
        return not self._complete_bytes and next(iter(self._incomplete), None) is claim

    def _take(self, claim: BodyClaim, size: int) -> None:
        claim.held += size
        self._memory.hold(claim.account, size)
        self._report(self.held, len(self._waiting), self.refused)

    async def _wait(self, claim: BodyClaim, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._full_since = None
        if self._full_since is None and not self._memory.fits_total(size):
            self._full_since = monotonic()
        self._waiting[claim] = size, turn
        self._report(self.held, len(self._waiting), self.refused)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except TimeoutError:
            self.refused += 1
            raise self._full_error() from None
        finally:
            self._waiting.pop(claim, None)
            self._report(self.held, len(self._waiting), self.refused)

    def _full_error(self) -> Unavailable:
        message = (
            f"The gateway's limit for the bodies of all requests together, or this account's share of it ({self.setting}), "
            f"is reached. Retry after {RETRY_SECONDS} s."
        )
        return Unavailable(message, code="overloaded", headers={"Retry-After": str(RETRY_SECONDS)})

    def _serve_waiting(self) -> None:
        """Let bodies proceed that may do so now, in order of arrival; an account at its limit does not hold up the others."""
        for claim, (size, turn) in list(self._waiting.items()):
            if not turn.done() and self._allows(claim, size):
                del self._waiting[claim]
                self._take(claim, size)
                self._full_since = None
                turn.set_result(None)

    def _release(self, claim: BodyClaim) -> None:
        bodies = claim.bodies
        _, turn = self._waiting.pop(claim, (0, None))
        if turn is not None and not turn.done():
            turn.set_result(None)  # it gets nothing: its request has ended
        self._memory.release(claim.account, claim.held)
        if claim in bodies.incomplete:
            del bodies.incomplete[claim], self._incomplete[claim]
        else:
            bodies.complete_bytes -= claim.held
            self._complete_bytes -= claim.held
        claim.held = 0
        bodies.claims -= 1
        if not bodies.claims:
            del self._bodies[claim.account]
        if self._waiting:
            self._serve_waiting()
        self._report(self.held, len(self._waiting), self.refused)

    def _complete(self, claim: BodyClaim) -> None:
        bodies = claim.bodies
        del bodies.incomplete[claim], self._incomplete[claim]
        bodies.complete_bytes += claim.held
        self._complete_bytes += claim.held
        if self._waiting:
            self._serve_waiting()


class BodyClaim:
    """What the body of one request holds of a budget, in bytes."""

    __slots__ = ("_budget", "_ended", "account", "bodies", "held")

    def __init__(self, budget: BodyBudget, account: str, bodies: _Bodies) -> None:
        self._budget = budget
        self._ended = False
        self.account = account
        self.bodies = bodies
        self.held = 0

    def grow(self, size: int) -> Awaitable[None] | None:
        """Hold `size` bytes more. Returns None, or an awaitable that ends when they are free.

        The awaitable raises Unavailable after WAIT_SECONDS. Only one call may wait at a time.
        """
        if self._ended:
            return None
        if self._budget._allows(self, size):
            self._budget._take(self, size)
            return None
        return self._budget._wait(self, size)

    def complete(self) -> None:
        """The body needs no more than it holds now."""
        if not self._ended and self in self.bodies.incomplete:
            self._budget._complete(self)

    def release(self) -> None:
        """Give everything back; repeated calls have no effect."""
        if not self._ended:
            self._ended = True
            self._budget._release(self)
