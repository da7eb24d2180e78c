"""The bucket of an object store for files."""

from __future__ import annotations

from tornado_gate.telemetry.metrics.series import SeriesFactory


class BucketMetrics:
    """Failed requests to the bucket, and files that are not uploaded yet. All processes of a node see the same files."""

    def __init__(self, series: SeriesFactory) -> None:
        self._failures = series.make_counter(
            "tornado_gate_bucket_failures", "Requests to the bucket of media.store that failed."
        )
        self._pending = series.make_gauge(
            "tornado_gate_bucket_pending_bytes",
            "Bytes of files on the disk of this node that are not in the bucket yet, of all processes.",
            ["folder"],
            mode="livemostrecent",
        )

    def count_failure(self) -> None:
        self._failures.inc()

    def set_pending(self, folder: str, size: int) -> None:
        """Set the bytes of a folder, "media" or "videos"."""
        self._pending.labels(folder).set(size)
