"""Circuits: which targets may be asked now; and the budget of retries. Pure but for the clock.

A target that failed several times in a row, or half of the time lately, is left alone for a while; then one request probes it. A
retry costs from a budget that requests fill, so that an outage is not multiplied.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

from tornado_gate.config.model import Circuits
from tornado_gate.types import Target

MAX_CIRCUITS = 10_000
WINDOW = 20
PROBE_SECONDS = 60.0


class Circuit:
    """The recent past of one target."""

    __slots__ = ("_in_a_row", "_open_until", "_outcomes", "_probing_until")

    def __init__(self) -> None:
        self._outcomes: deque[bool] = deque(maxlen=WINDOW)
        self._in_a_row = 0
        self._open_until = 0.0
        self._probing_until = 0.0

    def allows(self, now: float) -> bool:
        """Whether a request may go to the target now. A yes while it is open is the probe: the next answer is no."""
        if not self._open_until:
            return True
        if now < self._open_until or now < self._probing_until:
            return False
        self._probing_until = now + PROBE_SECONDS
        return True

    def succeeded(self) -> None:
        if self._open_until:
            self._outcomes.clear()
        self._outcomes.append(True)
        self._in_a_row = 0
        self._open_until = self._probing_until = 0.0

    def failed(self, now: float, rules: Circuits) -> None:
        self._outcomes.append(False)
        self._in_a_row += 1
        half = len(self._outcomes) == WINDOW and self._outcomes.count(False) * 2 >= WINDOW
        if self._open_until or self._in_a_row >= rules.failures or half:
            self._open_until = now + rules.open_seconds
        self._probing_until = 0.0

    def released(self) -> None:
        """The request that asked ended without saying anything about the target: the caller left, or was refused."""
        self._probing_until = 0.0

    @property
    def open(self) -> bool:
        return bool(self._open_until)


class Health:
    """The circuits of all targets, by any hashable name, and the retry budget."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._circuits: OrderedDict[Hashable, Circuit] = OrderedDict()
        self._budget = 10.0

    def circuit(self, target: Hashable) -> Circuit:
        circuit = self._circuits.get(target)
        if circuit is None:
            circuit = self._circuits[target] = Circuit()
            if len(self._circuits) > MAX_CIRCUITS:
                self._circuits.popitem(last=False)
        return circuit

    def allows(self, target: Hashable) -> bool:
        return self.circuit(target).allows(self._clock())

    def succeeded(self, target: Hashable) -> None:
        self.circuit(target).succeeded()

    def failed(self, target: Hashable, rules: Circuits) -> None:
        self.circuit(target).failed(self._clock(), rules)

    def released(self, target: Hashable) -> None:
        self.circuit(target).released()

    def request_began(self) -> None:
        """Every request adds a fifth of a retry to the budget."""
        self._budget = min(100.0, self._budget + 0.2)

    def may_retry(self) -> bool:
        """Take one retry from the budget, if there is one."""
        if self._budget < 1:
            return False
        self._budget -= 1
        return True


def circuit_name(target: Target) -> tuple[str, str, str]:
    """What a circuit is for. A wildcard's many names share one."""
    return (target.provider, target.model, "" if "*" in target.model else target.upstream_model)
