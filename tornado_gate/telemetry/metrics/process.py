"""The process: its event loop, plugins, configuration and versions; and processes that have ended."""

from __future__ import annotations

import os
import platform

from tornado_gate._version import __version__
from tornado_gate.telemetry.metrics.series import DIRECTORY_VARIABLE, SeriesFactory, make_registry


class ProcessMetrics:
    """The event loop, failures of plugins, and reloads of the configuration."""

    def __init__(self, series: SeriesFactory) -> None:
        self._loop_lag = series.make_gauge(
            "tornado_gate_event_loop_lag_seconds",
            "Largest delay of the event loop in the last period, of the worst process.",
            mode="livemax",
        )
        self._loop_tasks = series.make_gauge(
            "tornado_gate_event_loop_tasks", "Tasks of the event loop at the end of the last period.", mode="livesum"
        )
        self._plugin_errors = series.make_counter("tornado_gate_plugin_errors", "Plugin failures.", ["plugin"])
        self._reloads = series.make_counter(
            "tornado_gate_reloads", "Reloads of the configuration, by result.", ["result"]
        )
        build = series.make_gauge(
            "tornado_gate_build_info", "Always 1; the labels contain the versions.", ["version", "python"], mode="max"
        )
        build.labels(__version__, platform.python_version()).set(1)

    def observe_loop(self, lag_seconds: float, tasks: int) -> None:
        """Record the largest delay of the event loop in a period, and its tasks at the end."""
        self._loop_lag.set(lag_seconds)
        self._loop_tasks.set(tasks)

    def count_plugin_error(self, plugin: str) -> None:
        """Count a failure of an installed plugin."""
        self._plugin_errors.labels(plugin).inc()

    def count_reload(self, ok: bool) -> None:
        """Count a reload that succeeded or was rejected."""
        self._reloads.labels("ok" if ok else "failed").inc()


class RestartCounter:
    """Counts processes that have ended unexpectedly. For the process that replaces them."""

    def __init__(self) -> None:
        from prometheus_client import Counter

        self._counter = Counter(
            "tornado_gate_process_restarts",
            "Serving processes that ended unexpectedly and were replaced.",
            registry=make_registry(),
        )

    def count(self) -> None:
        self._counter.inc()


def remove_process(process_id: int) -> None:
    """Remove the open streams and the delay of an ended process; its counters stay."""
    if os.environ.get(DIRECTORY_VARIABLE):
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(process_id)  # type: ignore[no-untyped-call]
