"""Alerts of a process, which exist only while conf has sinks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tornado_gate.config.model import Config
from tornado_gate.http.fetch import Fetcher
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.process.configuration_state import ConfigurationState

if TYPE_CHECKING:
    from tornado_gate.alerts.watch import AlertMetrics, AlertWatch


class Alerting:
    """A holder of the timer for alerts. It follows the configuration after `start`, which belongs to the event loop."""

    def __init__(self, gate: Gate, fetcher: Fetcher, configuration: ConfigurationState) -> None:
        self._gate = gate
        self._fetcher = fetcher
        self._configuration = configuration
        self._metrics: AlertMetrics | None = None
        self._watch: AlertWatch | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self.apply(self._gate.snapshot.config)

    def apply(self, config: Config) -> None:
        """Begin, change or stop to look for alerts."""
        if not self._is_started:
            return
        if not config.alerts.sinks:
            self._stop()
        elif self._watch is not None:
            self._watch.rules = config.alerts
        else:
            self._watch = self._make_watch(config)
            self._watch.start()

    def _make_watch(self, config: Config) -> AlertWatch:
        from tornado_gate.alerts.watch import AlertWatch

        if self._metrics is None:
            self._metrics = self._gate.metrics.add_alert_metrics()
        return AlertWatch(self._gate, self._fetcher, self._metrics, self._find_faults, config.alerts)

    def _find_faults(self) -> tuple[str, ...]:
        rejected = self._configuration.rejected
        return rejected.faults if rejected else ()

    def _stop(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            task = asyncio.ensure_future(watch.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        self._stop()
        await asyncio.gather(*self._ending)
