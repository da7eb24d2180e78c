"""What operators and their machines ask: /healthz, /readyz, /metrics. And what no route answers."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado_gate import __version__
from tornado_gate.errors import GateError
from tornado_gate.gateway.gate import Gate
from tornado_gate.server.handlers.base import GateHandler


class StatusHandler(GateHandler):
    """Asked by machines, every few seconds: neither counted nor logged."""

    def on_finish(self) -> None:
        """Nothing."""


class HealthHandler(StatusHandler):
    """The process lives."""

    def get(self) -> None:
        self.write({"status": "ok", "version": __version__})


class ReadyHandler(StatusHandler):
    """The process may take traffic: 503 while it is shutting down."""

    def get(self) -> None:
        if self.gate.draining:
            self.set_status(503)
            self.write({"status": "draining"})
            return
        self.write({"status": "ready", "configuration": self.snapshot.number})


class MetricsHandler(StatusHandler):
    """Prometheus text."""

    async def get(self) -> None:
        # With several processes the numbers of all of them are read from files.
        body, content_type = await asyncio.to_thread(self.gate.metrics.render)
        self.set_header("Content-Type", content_type)
        self.finish(body)


class RefusalHandler(GateHandler):
    """Answers with the error that routing found: 404 or 405."""

    def initialize(self, gate: Gate, error: GateError, format: str) -> None:  # type: ignore[override]
        super().initialize(gate)
        self.error = error
        self.format = format

    def prepare(self) -> Any:
        self.fail(self.error)
