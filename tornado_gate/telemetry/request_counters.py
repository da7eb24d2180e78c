"""Sums of many requests, which are added to the Prometheus series together.

A series of prometheus_client takes a lock for each change, and writes to a file with several processes; a request
changes a dozen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tornado_gate.types import Usage

if TYPE_CHECKING:
    from prometheus_client import Histogram

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


class RequestLabels(NamedTuple):
    """The labels of a request. Equal to a plain tuple, which makes faster lookups."""

    format: str
    operation: str
    model: str
    provider: str
    status: int


def observe_all(histogram: Histogram, durations: Sequence[float]) -> None:
    """Add durations in seconds to a series of a histogram."""
    # prometheus_client has no public method for many values together; this is what `observe` does for each.
    bounds = histogram._upper_bounds
    for index, number in Counter([bisect_left(bounds, seconds) for seconds in durations]).items():
        histogram._buckets[index].inc(number)
    histogram._sum.inc(sum(durations))


def sum_tokens(usages: Sequence[Usage]) -> Iterator[tuple[str, int]]:
    """Yield (direction, tokens) of each direction that has any."""
    for direction, counts in zip(TOKEN_DIRECTIONS, zip(*map(_get_token_counts, usages), strict=True), strict=False):
        # A counter must not fall, even if an upstream reports a negative number.
        if total := sum([count for count in counts if count and count > 0]):
            yield direction, total
