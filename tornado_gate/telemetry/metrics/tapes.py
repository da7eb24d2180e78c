"""Wire tapes."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class TapeMetrics:
    """Recorded requests by what became of their tape."""

    def __init__(self, series: SeriesFactory) -> None:
        self._tapes = series.make_counter(
            "tornado_gate_tapes",
            "Tapes of requests: kept, evicted by newer ones, skipped because too many are recorded, or failed.",
            ["result"],
        )

    def count(self, result: str, number: int = 1) -> None:
        """Count tapes: kept, evicted, skipped, failed. Call it from the event loop only."""
        if number:
            self._tapes.labels(result).inc(number)
