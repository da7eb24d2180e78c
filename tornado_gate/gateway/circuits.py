"""Circuit breakers: which targets may be called now. No I/O; the clock is a parameter.

The circuit of a target opens after several failures in a row, or when half of the recent requests failed. While it is open the
target gets no requests; after that time one request probes the target.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable

from cachetools import LRUCache

from tornado_gate.config.model import CircuitsConfig
from tornado_gate.types import Target

MAX_CIRCUITS = 10_000
OUTCOME_WINDOW = 20
PROBE_SECONDS = 60.0


class Circuit:
    """The recent outcomes of one target, and whether it may be called."""

    __slots__ = ("_in_a_row", "_open_until", "_outcomes", "_probing_until")

    def __init__(self) -> None:
        self._outcomes: deque[bool] = deque(maxlen=OUTCOME_WINDOW)
        self._in_a_row = 0
        self._open_until = 0.0
        self._probing_until = 0.0

    def allows(self, now: float) -> bool:
        """Whether a request may go to the target now. True for an open circuit reserves the probe: the next call is False."""
        if not self._open_until:
            return True
        if not self.would_allow(now):
            return False
        self._probing_until = now + PROBE_SECONDS
        return True

    def would_allow(self, now: float) -> bool:
        """What `allows` would return, without reserving the probe."""
        return not self._open_until or (now >= self._open_until and now >= self._probing_until)

    def wait_seconds(self, now: float) -> float:
        """Seconds until the circuit allows a probe. 0 while a probe runs, because its duration is unknown."""
        return max(0.0, self._open_until - now)

    def state(self, now: float) -> str:
        """``closed``, ``open``, or ``half-open`` when the next request is the probe."""
        if not self._open_until:
            return "closed"
        return "half-open" if self.would_allow(now) else "open"

    def record_success(self) -> None:
        if self._open_until:
            self._outcomes.clear()
        self._outcomes.append(True)
        self._in_a_row = 0
        self._open_until = self._probing_until = 0.0

    def record_failure(self, now: float, rules: CircuitsConfig) -> None:
        self._outcomes.append(False)
        self._in_a_row += 1
        half = len(self._outcomes) == OUTCOME_WINDOW and self._outcomes.count(False) * 2 >= OUTCOME_WINDOW
        if self._open_until or self._in_a_row >= rules.failures or half:
            self._open_until = now + rules.open_seconds
        self._probing_until = 0.0

    def release_probe(self) -> None:
        """The probe ended without an outcome for the target: the caller disconnected, or its request was rejected."""
        self._probing_until = 0.0


class CircuitBreakers:
    """The circuits of all targets, by any hashable name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._circuits: LRUCache[Hashable, Circuit] = LRUCache(MAX_CIRCUITS)

    def get_circuit(self, target: Hashable) -> Circuit:
        circuit = self._circuits.get(target)
        if circuit is None:
            circuit = self._circuits[target] = Circuit()
        return circuit


def make_circuit_name(target: Target) -> tuple[str, str, str]:
    """The key of a target's circuit. All names that match one wildcard entry share a circuit."""
    return (target.provider, target.model, "" if "*" in target.model else target.upstream_model)
