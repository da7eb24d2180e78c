"""The ledger of usage and costs. Any thread may call its methods."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.labels import KnownLabels
from tornado_gate.telemetry.metrics.series import SeriesFactory


class LedgerMetrics:
    """Rows of the ledger, requests without a price, and how late the database is."""

    def __init__(self, series: SeriesFactory, labels: KnownLabels) -> None:
        self._labels = labels
        self._rows = series.make_counter(
            "tornado_gate_ledger_rows",
            "Rows of the usage ledger: written to the database, spooled to the disk while it is away, dropped.",
            ["result"],
        )
        self._unpriced = series.make_counter(
            "tornado_gate_unpriced_requests",
            "Requests whose cost is unknown, because their model or a part of what they used has no price.",
            ["model", "provider"],
        )
        self._lag = series.make_gauge(
            "tornado_gate_ledger_lag_seconds",
            "Age of the oldest request that is not in the database yet, of the worst process.",
            mode="livemax",
        )

    def count_rows(self, result: str, number: int) -> None:
        """Count rows of the usage ledger. `result` is "written", "spooled" or "dropped"."""
        self._rows.labels(result).inc(number)

    def count_unpriced(self, model: str, provider: str, number: int) -> None:
        """Count requests whose cost is unknown. `model` is the name of the configured entry."""
        self._unpriced.labels(*self._labels.bind_target(model, provider)).inc(number)

    def set_lag(self, seconds: float) -> None:
        """Set the age of the oldest request that is not in the database."""
        self._lag.set(seconds)

    def remove_unpriced_series(self, model: str, provider: str) -> None:
        self._unpriced.remove(model, provider)
