"""Series of prometheus_client. The library is imported when the first series is created, because that takes 30 ms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

DIRECTORY_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

GaugeMode = Literal["livesum", "livemin", "livemax", "livemostrecent", "max"]
"""How the values of several processes are combined: the sum, the smallest, the largest or the most recent value of the processes
that live."""


class SeriesFactory:
    """Creates the series of one registry. `is_multiprocess`: the values are in files, and each process renders the sum."""

    def __init__(self) -> None:
        self.is_multiprocess = bool(os.environ.get(DIRECTORY_VARIABLE))
        self._registry = make_registry()

    def make_counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        from prometheus_client import Counter

        return Counter(name, text, labels, registry=self._registry)

    def make_gauge(self, name: str, text: str, labels: Sequence[str] = (), *, mode: GaugeMode) -> Gauge:
        from prometheus_client import Gauge

        return Gauge(name, text, labels, registry=self._registry, multiprocess_mode=mode)

    def make_histogram(self, name: str, text: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        from prometheus_client import Histogram

        return Histogram(name, text, labels, registry=self._registry, buckets=buckets)

    def render(self) -> tuple[bytes, str]:
        """Return the text for Prometheus and its content type. Reads files if there are several processes."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.multiprocess import MultiProcessCollector

        if not self.is_multiprocess:
            return generate_latest(self._registry) + generate_latest(get_plugin_registry()), CONTENT_TYPE_LATEST
        registry = make_registry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


@lru_cache(1)
def get_plugin_registry() -> CollectorRegistry:
    """Return the registry for series of plugins, which `/metrics` shows beside the core's series. A process has one.

    A plugin creates its series once in a process, not for each configuration, and bounds the values of its labels.
    """
    return make_registry()


def make_registry() -> CollectorRegistry:
    """Return an empty registry. Its series have no doubles that end in ``_created``."""
    from prometheus_client import CollectorRegistry, disable_created_metrics

    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()
