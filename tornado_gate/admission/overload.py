"""Rejects new requests with 503 and Retry-After before memory or latency get out of control. A process has one object.

Conf's ``limits`` have three limits for this. `open_requests` is shared by account, by the rule of `account_shares.py`.
`loop_lag_seconds` is a delay of the event loop that lasts for a second. `memory_bytes` is the memory of the process; without it,
the container's limit counts. While the loop lags, an account without an open request may send one, so a busy account does not
lock out the others. While memory is short, all accounts together may have a few requests, so that a process with high memory for
another reason still responds.

Requests without a body (polls, lists) and requests of operators (probes, metrics, the console, /admin/v1) are never rejected.
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
"""The loop lags if this number of measurements in a row is above the limit. A single long block is not an overload."""
TICKS_PER_MEMORY: Final = 4
REQUESTS_WITHOUT_MEMORY: Final = 4
"""The number of requests of all accounts that may be open while memory is short."""


class Overload:
    """Counts open requests by account, and detects overload. `refused` is called with the reason of each rejection."""

    def __init__(
        self,
        limits: LimitsConfig,
        refused: Callable[[str], None],
        container: ContainerMemory | None = None,
        read_memory: Callable[[], int] = read_resident_bytes,
    ) -> None:
        self.apply(limits)
        self.open = 0
        self.pressure = ""
        """The limit that is exceeded now, ``loop_lag`` or ``memory``; "" without one."""
        self._refused = refused
        self._held: dict[str, int] = {}
        self._delays: deque[float] = deque(maxlen=LAGGING_TICKS)
        self._ticks = 0
        self._container = container or ContainerMemory()
        self._read_memory = read_memory
        self._is_memory_short = False

    def apply(self, limits: LimitsConfig) -> None:
        """Use the limits of a configuration."""
        self.limits = limits
        self._uncontended = limits.open_requests // 2
        """The number of open requests below which an account may have any share."""

    def enter(self, account: str) -> None:
        """Count a request. Raises Unavailable if there are too many. Every call that returns needs a `leave`."""
        held = self._held.get(account, 0)
        if self.pressure or self.open >= self._uncontended:
            self._check(held)
        self.open += 1
        self._held[account] = held + 1

    def leave(self, account: str) -> None:
        """Remove a request that was counted and has ended."""
        self.open -= 1
        remaining = self._held[account] - 1
        if remaining:
            self._held[account] = remaining
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
        """Record the current delay of the event loop. Call it several times a second."""
        self._delays.append(seconds)
        self._ticks += 1
        if self._ticks % TICKS_PER_MEMORY == 0:
            self._is_memory_short = self._measure_memory()
        limit = self.limits.loop_lag_seconds
        is_lagging = bool(limit) and len(self._delays) == LAGGING_TICKS and min(self._delays) > limit
        self.pressure = "memory" if self._is_memory_short else "loop_lag" if is_lagging else ""

    def _measure_memory(self) -> bool:
        if self.limits.memory_bytes is not None:
            return self._read_memory() > self.limits.memory_bytes
        limit = self._container.limit
        return limit is not None and self._container.read_used() > limit * CONTAINER_SHARE

    def explain_overload(self) -> str:
        """Return the reason why the process should get no more requests now, or ""."""
        if self.pressure == "memory":
            return "memory is nearly used up"
        return f"the event loop is late by more than {self.limits.loop_lag_seconds:g} s" if self.pressure else ""
