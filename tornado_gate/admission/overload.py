"""Refuses new requests before the memory or the latency of all collapses: 503 with Retry-After. One object for each process.

Three bounds of conf's ``limits``: `open_requests`, shared by account by the rule of `account_shares.py`; `loop_lag_seconds`, the
delay of the event loop that lasts for a second; `memory_bytes`, or the container's limit. While the loop lags, an account without
an open request still gets in, so one busy account does not lock out the others; while memory is short, a few requests in all do,
so that a process whose memory stays high for another reason still answers.

Requests without a body (polls, lists) and those of operators (probes, metrics, the console, /admin/v1) are never refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from tornado_gate.account_shares import may_hold
from tornado_gate.config.model import LimitsConfig
from tornado_gate.errors import Unavailable
from tornado_gate.telemetry.memory import CONTAINER_SHARE, ContainerMemory, read_resident_bytes

RETRY_SECONDS: Final = 2
LAGGING_TICKS: Final = 4
"""The loop lags when so many measurements in a row are above the bound: a single long block is no overload."""
TICKS_PER_MEMORY: Final = 4
REQUESTS_WITHOUT_MEMORY: Final = 4
"""So many requests of all accounts may be open while memory is short."""


class Overload:
    """Counts open requests by account, and knows whether the process is overloaded. `refused` is called with each reason."""

    def __init__(
        self,
        limits: LimitsConfig,
        refused: Callable[[str], None],
        container: ContainerMemory | None = None,
        read_memory: Callable[[], int] = read_resident_bytes,
    ) -> None:
        self.limits = limits
        self.open = 0
        self.pressure = ""
        """The bound that is exceeded now, ``loop_lag`` or ``memory``; "" for none."""
        self._refused = refused
        self._held: dict[str, int] = {}
        self._delays: deque[float] = deque(maxlen=LAGGING_TICKS)
        self._ticks = 0
        self._container = container or ContainerMemory()
        self._read_memory = read_memory
        self._is_memory_short = False

    def enter(self, account: str) -> None:
        """Count a request. Raises Unavailable for one that is too many. Every call that returns needs a `leave`."""
        held = self._held.get(account, 0)
        if self.pressure or 2 * (self.open + 1) > self.limits.open_requests:
            self._check(held)
        self.open += 1
        self._held[account] = held + 1

    def leave(self, account: str) -> None:
        """A request that was counted has ended."""
        self.open -= 1
        left = self._held[account] - 1
        if left:
            self._held[account] = left
        else:
            del self._held[account]

    def _check(self, held: int) -> None:
        if self.pressure == "memory" and self.open >= REQUESTS_WITHOUT_MEMORY:
            raise self._refuse("memory", "its memory is nearly used up")
        if self.pressure == "loop_lag" and held:
            raise self._refuse("loop_lag", "it answers with delay, and this account has open requests")
        if not may_hold(1, held, self.open, self.limits.open_requests + 1):
            why = "the limit of open requests, or this account's share of it (limits.open_requests), is reached"
            raise self._refuse("open_requests", why)

    def _refuse(self, reason: str, why: str) -> Unavailable:
        self._refused(reason)
        message = f"The gateway is overloaded: {why}. Retry after {RETRY_SECONDS} s."
        return Unavailable(message, code="overloaded", headers={"Retry-After": str(RETRY_SECONDS)})

    def note_delay(self, seconds: float) -> None:
        """Called several times a second with the current delay of the event loop."""
        self._delays.append(seconds)
        self._ticks += 1
        if self._ticks % TICKS_PER_MEMORY == 0:
            self._is_memory_short = self._measure_memory()
        bound = self.limits.loop_lag_seconds
        is_lagging = bool(bound) and len(self._delays) == LAGGING_TICKS and min(self._delays) > bound
        self.pressure = "memory" if self._is_memory_short else "loop_lag" if is_lagging else ""

    def _measure_memory(self) -> bool:
        if self.limits.memory_bytes is not None:
            return self._read_memory() > self.limits.memory_bytes
        limit = self._container.limit
        return limit is not None and self._container.read_used() > limit * CONTAINER_SHARE

    def explain_overload(self) -> str:
        """Why the process should get no more requests for now; "" if it should."""
        if self.pressure == "memory":
            return "memory is nearly used up"
        return f"the event loop is late by more than {self.limits.loop_lag_seconds:g} s" if self.pressure else ""
