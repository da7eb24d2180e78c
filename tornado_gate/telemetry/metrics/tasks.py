"""Video tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tornado_gate.telemetry.metrics.labels import MAX_CHILDREN, OTHER_LABEL, KnownLabels
from tornado_gate.telemetry.metrics.series import SeriesFactory

VIDEO_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
OUTCOMES = ("completed", "failed")


class TaskMetrics:
    """Open and ended video tasks. Every process counts all open tasks, so the most recent value is shown, not a sum."""

    def __init__(self, series: SeriesFactory, labels: KnownLabels) -> None:
        self._labels = labels
        self._open_shown: set[tuple[str, str]] = set()
        self._ended_shown: set[tuple[str, str]] = set()
        self._open = series.make_gauge(
            "tornado_gate_open_video_tasks",
            "Video tasks that have not ended, of all processes.",
            ["provider", "state"],
            mode="livemostrecent",
        )
        self._oldest = series.make_gauge(
            "tornado_gate_video_oldest_seconds",
            "Age of the oldest video task that has not ended, in seconds.",
            mode="livemostrecent",
        )
        self._ended = series.make_counter(
            "tornado_gate_video_tasks", "Ended video tasks, by result.", ["provider", "model", "outcome"]
        )
        self._seconds = series.make_histogram(
            "tornado_gate_video_task_seconds",
            "Seconds from a video task's request to its end.",
            ["provider", "outcome"],
            VIDEO_BUCKETS,
        )

    def set_open(self, counts: Mapping[tuple[str, str], int], oldest_seconds: float) -> None:
        """Set the number of unfinished video tasks of all processes, by (provider entry, "queued" or "running"), and the age
        of the oldest, 0 without waiting tasks. Each process calls this periodically; missing combinations become 0."""
        shown = dict.fromkeys(self._open_shown, 0)
        for (provider, state), count in counts.items():
            labels = (self._labels.bind_provider(provider), state)
            shown[labels] = shown.get(labels, 0) + count
        for labels, count in shown.items():
            self._open.labels(*labels).set(count)
        self._open_shown = set(shown)
        self._oldest.set(oldest_seconds)

    def count_ended(self, provider: str, model: str, outcome: Literal["completed", "failed"], seconds: float) -> None:
        """Count an ended video task, `seconds` after its request. Call it once, in the process that ended it."""
        labels = (self._labels.bind_provider(provider), self._labels.bind_model(model))
        if labels not in self._ended_shown and len(self._ended_shown) >= MAX_CHILDREN:
            labels = (OTHER_LABEL, OTHER_LABEL)
        self._ended_shown.add(labels)
        self._ended.labels(*labels, outcome).inc()
        self._seconds.labels(labels[0], outcome).observe(max(0.0, seconds))  # the clock may have been set back

    def remove_unknown_series(self) -> None:
        """Remove the series of names that the configuration no longer has."""
        for provider, model in list(self._ended_shown):
            if not self._labels.has_target(model, provider):
                self._remove_ended_series(provider, model)
        for provider, state in list(self._open_shown):
            if not self._labels.has_provider(provider):
                self._open_shown.remove((provider, state))
                self._open.remove(provider, state)

    def _remove_ended_series(self, provider: str, model: str) -> None:
        self._ended_shown.remove((provider, model))
        for outcome in OUTCOMES:
            self._ended.remove(provider, model, outcome)
            if not self._labels.is_configured(provider):
                self._seconds.remove(provider, outcome)
