"""The database of short-lived state."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class StateMetrics:
    """Reads and writes of conversations and client secrets that failed because the database was away, and their space."""

    def __init__(self, series: SeriesFactory) -> None:
        self._failures = series.make_counter(
            "tornado_gate_state_failures", "Reads and writes of the database of state.store that failed."
        )

        self._bytes = series.make_gauge(
            "tornado_gate_state_bytes",
            "Space of kept values in the database of state.store, of all nodes, when this node measured it last.",
            mode="livemostrecent",
        )

    def set_bytes(self, size: int) -> None:
        self._bytes.set(size)

    def count_failure(self) -> None:
        self._failures.inc()
