"""Reviews by guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado_gate.telemetry.metrics.series import SeriesFactory

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

REVIEW_BUCKETS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class GuardMetrics:
    """Decisions of guards, how long they took, and the threads for large texts."""

    def __init__(self, series: SeriesFactory) -> None:
        self._reviews = series.make_counter(
            "tornado_gate_guard_reviews",
            "Reviews by guards of requests and of answers or windows of them, by decision.",
            ["guard", "side", "decision"],
        )
        self._seconds = series.make_histogram(
            "tornado_gate_guard_review_seconds", "Seconds that a review took.", ["guard", "side"], REVIEW_BUCKETS
        )
        self._threads = series.make_gauge(
            "tornado_gate_guard_threads",
            "Reviews of large texts by guards in threads: running, waiting for one, and stuck ones that are told to stop.",
            ["state"],
            mode="livesum",
        )
        self._largest_share = series.make_gauge(
            "tornado_gate_guard_largest_share",
            "How many of these reviews belong to the account that has most, in one process.",
            mode="livemax",
        )
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._histograms: dict[tuple[str, str], Histogram] = {}

    def count_review(self, guard: str, side: str, decision: str, seconds: float) -> None:
        """Count a review of an installed guard.

        `decision` is "allow", "replace", "block", "failed", "unseen" (the guard cannot read the texts of the route) or "waited"
        (the request was refused because it would have waited too long).
        """
        counter = self._counters.get((guard, side, decision))
        if counter is None:
            counter = self._counters[guard, side, decision] = self._reviews.labels(guard, side, decision)
        counter.inc()
        histogram = self._histograms.get((guard, side))
        if histogram is None:
            histogram = self._histograms[guard, side] = self._seconds.labels(guard, side)
        histogram.observe(seconds)

    def set_threads(self, running: int, waiting: int, stuck: int, largest_share: int) -> None:
        """Set how many reviews of large texts run, wait and are stuck, and how many of them one account has at most."""
        for state, count in (("running", running), ("waiting", waiting), ("stuck", stuck)):
            self._threads.labels(state).set(count)
        self._largest_share.set(largest_share)
