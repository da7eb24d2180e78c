"""Plain counters of requests, which are added to the Prometheus series periodically.

A series of prometheus_client takes a lock for each change, and writes to a file with several processes; a request
changes a dozen. These counters are integers that only grow. Only the event loop changes them. The flushing side records
the part that it has added, so a flush in another thread needs no lock and loses no count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tornado_gate.types import Usage

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

_USAGE_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write": "cache_write_tokens",
    "reasoning": "reasoning_tokens",
}
TOKEN_DIRECTIONS = tuple(_USAGE_FIELDS)
"""Values of the label of token counts."""
_get_token_counts: Callable[[Usage], tuple[int | None, ...]] = attrgetter(*_USAGE_FIELDS.values())


class DeferredCounter:
    """A growing number, and the part that has been added to a Prometheus counter."""

    __slots__ = ("_told", "value")

    def __init__(self) -> None:
        self.value = self._told = 0

    def flush(self, counter: Callable[[], Counter]) -> None:
        """Add the difference to `counter()`. If there is no difference, it is not called, because a series of zero must
        not exist.
        """
        value = self.value
        if value > self._told:
            counter().inc(value - self._told)
            self._told = value


class DeferredHistogram:
    """Seconds by bucket, and the part that has been added to a Prometheus histogram with the same `bounds`."""

    __slots__ = ("_bounds", "_buckets", "_sum", "_told", "_told_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets = [0] * (len(bounds) + 1)
        self._told = self._buckets.copy()
        self._sum = self._told_sum = 0.0

    def add(self, seconds: float) -> None:
        self._buckets[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def flush(self, histogram: Callable[[], Histogram]) -> None:
        """Add the difference to `histogram()`, which is called only if there is a difference."""
        buckets, total = self._buckets.copy(), self._sum
        if buckets == self._told:
            return
        # prometheus_client has no public method for many values together; this is what `observe` does for each.
        series = histogram()
        for bucket, value, before in zip(series._buckets, buckets, self._told, strict=True):
            if value > before:
                bucket.inc(value - before)
        series._sum.inc(total - self._told_sum)
        self._told, self._told_sum = buckets, total


class RequestLabels(NamedTuple):
    """The labels of a request. Equal to a plain tuple, which makes faster lookups."""

    format: str
    operation: str
    model: str
    provider: str
    status: int


class RequestCounters:
    """The requests of one combination of labels. `waiting`: it has changed since the last flush."""

    __slots__ = ("_first_event", "_requests", "_seconds", "_tokens", "labels", "waiting")

    def __init__(self, labels: RequestLabels, bounds: Sequence[float], first_event_bounds: Sequence[float]) -> None:
        self.labels = labels
        self.waiting = False
        self._requests = DeferredCounter()
        self._seconds = DeferredHistogram(bounds)
        self._first_event = DeferredHistogram(first_event_bounds)
        self._tokens = tuple(DeferredCounter() for _ in TOKEN_DIRECTIONS)

    def add(self, seconds: float, first_event_seconds: float | None, usage: Usage | None) -> None:
        """Count a finished request."""
        self._requests.value += 1
        self._seconds.add(seconds)
        if first_event_seconds is not None:
            self._first_event.add(first_event_seconds)
        if usage is not None:
            for count, tokens in zip(self._tokens, _get_token_counts(usage), strict=True):
                if tokens and tokens > 0:  # a counter must not fall, even if an upstream reports a negative number
                    count.value += tokens

    def flush(self, requests: Counter, seconds: Histogram, first_event: Histogram, tokens: Counter) -> None:
        """Add the changes since the last call to the series. One thread at a time."""
        self.waiting = False  # first, because a request may be added during the flush
        format, operation, model, provider, status = self.labels
        self._requests.flush(partial(requests.labels, format, operation, model, provider, str(status)))
        self._seconds.flush(partial(seconds.labels, format, operation))
        self._first_event.flush(partial(first_event.labels, format, operation, provider))
        for direction, count in zip(TOKEN_DIRECTIONS, self._tokens, strict=True):
            count.flush(partial(tokens.labels, model, provider, direction))
