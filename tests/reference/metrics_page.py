"""The tables of `docs/reference/metrics.md`: name, type and labels come from the series, the meaning is written in the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry

from tests.reference.kept_tables import fill_tables
from tornado_gate.telemetry.metrics import Metrics, get_plugin_registry
from tornado_gate_cache.metrics import get_metrics

KIND: Final = "metrics of"
HEAD: Final = ("metric", "type", "labels", "meaning")
NAMES: Final = ("gateway", "plugins")
"""The tables: series of the gateway, and of the plugins that come with it."""
_RESTARTS: Final = ("`tornado_gate_process_restarts_total`", "counter", "")
"""Its counter is in the process that starts the others, and needs the files of several processes."""


def fill_metrics(text: str) -> str:
    """The page with the columns that come from the code. Raises KeyError for a table of another name."""
    return fill_tables(KIND, text, HEAD, 1, lambda name: {"gateway": _list_core, "plugins": _list_plugins}[name]())


def _list_core() -> list[tuple[str, ...]]:
    metrics = Metrics()
    metrics.add_bucket_metrics()
    metrics.add_stored_conf_metrics()
    return sorted([*_iterate_series(metrics._series._registry), _RESTARTS])


def _list_plugins() -> list[tuple[str, ...]]:
    get_metrics()
    return sorted(_iterate_series(get_plugin_registry()))


def _iterate_series(registry: CollectorRegistry) -> Iterator[tuple[str, str, str]]:
    """Name, type and labels of each series, as `/metrics` shows them."""
    for collector in registry._collector_to_names:
        labels = ", ".join(f"`{label}`" for label in collector._labelnames)  # type: ignore[attr-defined]
        for family in collector.describe():  # type: ignore[attr-defined]
            suffix = "_total" if family.type == "counter" else ""
            yield f"`{family.name}{suffix}`", family.type, labels
