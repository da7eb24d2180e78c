"""The series of the cache in /metrics: one set per process, for all configurations."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tornado_gate.telemetry.metrics import get_plugin_registry

if TYPE_CHECKING:
    from prometheus_client import Counter, Gauge


class CacheMetrics(NamedTuple):
    requests: Counter
    size: Gauge
    entries: Gauge


@lru_cache(1)
def get_metrics() -> CacheMetrics:
    from prometheus_client import Counter, Gauge  # its import reads whether there are several processes

    registry = get_plugin_registry()
    return CacheMetrics(
        Counter(
            "tornado_gate_cache_requests",
            "Requests that the cache may answer, by result (hit, miss, bypass).",
            ["result"],
            registry=registry,
        ),
        Gauge(
            "tornado_gate_cache_bytes",
            "Memory of the answers in the cache.",
            registry=registry,
            multiprocess_mode="livesum",
        ),
        Gauge("tornado_gate_cache_entries", "Answers in the cache.", registry=registry, multiprocess_mode="livesum"),
    )


@lru_cache(1)
def get_store_failures() -> Counter:
    """Return the series of a store in Redis or Valkey. Without one it does not exist."""
    from prometheus_client import Counter

    return Counter(
        "tornado_gate_cache_store_failures",
        "Lookups and answers that the store of the cache (its setting store) has not taken.",
        registry=get_plugin_registry(),
    )
