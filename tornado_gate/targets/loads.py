"""The loads of a process's targets: requests in flight, retries, time to the first event. No I/O.

Only models whose strategy, affinity or retries need the loads are measured.
"""

from __future__ import annotations

import math
import time
from typing import Final

from cachetools import FIFOCache

from tornado_gate.types import Target
from tornado_gate.types.model_names import canonicalize_name

MAX_TARGETS: Final = 10_000
AVERAGE_SECONDS: Final = 15.0
"""The time in which the weight of an older latency falls to 37 %."""
LEAST_WEIGHT: Final = 0.1
"""The minimum weight of a new latency, so that many requests within a moment change the average too."""


class TargetLoad:
    """The load of one upstream model of one provider entry. `latency` is the average time to the first event, None if unmeasured.

    Whole responses have their own average, because they take as long as a stream takes to its end.
    """

    __slots__ = ("_averages", "in_flight", "retries")

    def __init__(self) -> None:
        self.in_flight = 0
        self.retries = 0
        self._averages: dict[bool, tuple[float, float]] = {}  # by whether they are streams: average, time of the last

    def begin(self) -> None:
        self.in_flight += 1

    def end(self) -> None:
        self.in_flight -= 1

    @property
    def latency(self) -> float | None:
        average = self._averages.get(True) or self._averages.get(False)
        return None if average is None else average[0]

    def note_latency(self, seconds: float, now: float, *, streamed: bool) -> None:
        average, last = self._averages.get(streamed, (seconds, now))
        weight = max(LEAST_WEIGHT, 1.0 - math.exp((last - now) / AVERAGE_SECONDS))
        self._averages[streamed] = (average + (seconds - average) * weight, now)


class MeasuredAttempt:
    """One attempt at a target, from its creation on."""

    __slots__ = ("_load", "_started")

    def __init__(self, load: TargetLoad) -> None:
        self._load = load
        self._started = time.monotonic()

    def note_latency(self, streamed: bool) -> None:
        """Record the time until the response began, or until the gateway stopped waiting for it."""
        now = time.monotonic()
        self._load.note_latency(now - self._started, now, streamed=streamed)


class TargetLoads:
    """The loads by provider entry and upstream model. A reload keeps them."""

    def __init__(self) -> None:
        self._loads: FIFOCache[tuple[str, str], TargetLoad] = FIFOCache(MAX_TARGETS)

    def find_load(self, target: Target) -> TargetLoad:
        name = target.place
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = TargetLoad()
        return load

    def peek(self, provider: str, upstream_model: str) -> TargetLoad | None:
        """Return the load of a target; None if it was not measured."""
        return self._loads.get((provider, canonicalize_name(upstream_model)))

    def adopt(self, other: TargetLoads) -> None:
        """Continue with the loads of `other`."""
        self._loads = other._loads
