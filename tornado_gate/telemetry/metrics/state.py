"""The database of short-lived state."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class StateMetrics:
    """Reads and writes of conversations and client secrets that failed because the database was away."""

    def __init__(self, series: SeriesFactory) -> None:
        self._failures = series.make_counter(
            "tornado_gate_state_failures", "Reads and writes of the database of state.store that failed."
        )

    def count_failure(self) -> None:
        self._failures.inc()
