"""Prometheus metrics with bounded labels, one object for each subject: ``metrics.requests.count(…)``.

If PROMETHEUS_MULTIPROC_DIR is set when `Metrics` is created, every process writes to files there and each of them renders
the sum. Values that change with each request are first counted as plain numbers; see `Flusher`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tornado_gate.telemetry.metrics.admission import AdmissionMetrics, LimitMetrics
from tornado_gate.telemetry.metrics.flushing import Flusher
from tornado_gate.telemetry.metrics.guards import GuardMetrics
from tornado_gate.telemetry.metrics.labels import KnownLabels
from tornado_gate.telemetry.metrics.ledger import LedgerMetrics
from tornado_gate.telemetry.metrics.process import ProcessMetrics
from tornado_gate.telemetry.metrics.requests import RequestMetrics
from tornado_gate.telemetry.metrics.series import SeriesFactory, get_plugin_registry
from tornado_gate.telemetry.metrics.tapes import TapeMetrics
from tornado_gate.telemetry.metrics.targets import TargetMetrics
from tornado_gate.telemetry.metrics.tasks import TaskMetrics

if TYPE_CHECKING:
    from tornado_gate.telemetry.metrics.alerts import AlertMetrics
    from tornado_gate.telemetry.metrics.bucket import BucketMetrics
    from tornado_gate.telemetry.metrics.stored_conf import StoredConfMetrics

__all__ = ["Metrics", "get_plugin_registry"]


class Metrics:
    """All metrics of the gateway. Create one per process, before `Gate`. Call it from the event loop only, except `flush`,
    `render` and `ledger`, which any thread may call."""

    def __init__(self) -> None:
        self._series = series = SeriesFactory()
        self._labels = labels = KnownLabels()
        self._flusher = flusher = Flusher(series.is_multiprocess)
        self.requests = RequestMetrics(series, labels, flusher)
        self.targets = TargetMetrics(series, labels, flusher)
        self.admission = AdmissionMetrics(series, flusher)
        self.limits = LimitMetrics(series)
        self.guards = GuardMetrics(series)
        self.tasks = TaskMetrics(series, labels)
        self.tapes = TapeMetrics(series)
        self.ledger = LedgerMetrics(series, labels)
        self.process = ProcessMetrics(series)

    def add_alert_metrics(self) -> AlertMetrics:
        """Create the series of alerts. Call it once, in a process whose conf has receivers of alerts."""
        from tornado_gate.telemetry.metrics.alerts import AlertMetrics

        return AlertMetrics(self._series)

    def add_bucket_metrics(self) -> BucketMetrics:
        """Create the series of a bucket for files. Call it once, in a process that has one."""
        from tornado_gate.telemetry.metrics.bucket import BucketMetrics

        return BucketMetrics(self._series)

    def add_stored_conf_metrics(self) -> StoredConfMetrics:
        """Create the series of a configuration in the database. Call it once, in a process that has one."""
        from tornado_gate.telemetry.metrics.stored_conf import StoredConfMetrics

        return StoredConfMetrics(self._series)

    def set_known_names(self, *, models: Iterable[str], providers: Iterable[str]) -> None:
        """Set the names in the configuration, the only ones used as labels. On a reload, series of removed names are deleted."""
        with self._flusher.lock:
            self._flusher.flush_locked()
            self._labels.set_names(models, providers)
            gone = self.requests.forget_unknown()
            if not self._series.is_multiprocess:  # series in the files of several processes cannot be removed
                for labels in gone:
                    self.requests.remove_series(labels)
                    self.ledger.remove_unpriced_series(labels.model, labels.provider)
            self.tasks.remove_unknown_series()
            self.targets.remove_unknown_series()

    def defer(self, deferred: bool) -> None:
        """With true, `flush` is called periodically; with false, every count is flushed immediately, including pending counts."""
        self._flusher.defer(deferred)

    def flush(self) -> None:
        """Add the pending counts to the Prometheus series."""
        self._flusher.flush()

    def render(self) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type. Reads files if there are several processes."""
        self.flush()
        return self._series.render()
