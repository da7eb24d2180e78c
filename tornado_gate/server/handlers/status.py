"""/healthz, /readyz and /metrics for operators, and the errors of requests without a route."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado_gate import __version__
from tornado_gate.errors import GateError
from tornado_gate.gateway.gate import Gate
from tornado_gate.server.handlers.base import GateHandler


class StatusHandler(GateHandler):
    """Requested by probes every few seconds: neither counted nor logged."""

    def on_finish(self) -> None:
        """Does not count or log the request."""


class HealthHandler(StatusHandler):
    """The process runs."""

    def get(self) -> None:
        self.write({"status": "ok", "version": __version__})


class ReadyHandler(StatusHandler):
    """The process accepts requests; 503 while it shuts down or is overloaded."""

    def get(self) -> None:
        if self.gate.draining:
            self.set_status(503)
            self.write({"status": "draining"})
            return
        reasons = [reason for check in self.gate.ready_checks if (reason := check())]
        if reasons:
            self.set_status(503)
            self.write({"status": "overloaded", "reason": "; ".join(reasons)})
            return
        self.write({"status": "ready", "configuration": self.snapshot.number})


class MetricsHandler(StatusHandler):
    """Metrics in the text format of Prometheus."""

    async def get(self) -> None:
        # With several processes, rendering reads the metrics files of all of them.
        body, content_type = await asyncio.to_thread(self.gate.metrics.render)
        self.set_header("Content-Type", content_type)
        self.finish(body)


class RefusalHandler(GateHandler):
    """Sends the error of routing: 404 or 405."""

    def initialize(self, gate: Gate, error: GateError, format: str) -> None:  # type: ignore[override]
        super().initialize(gate)
        self.error = error
        self.format = format

    def prepare(self) -> Any:
        self.fail(self.error)
