"""/healthz, /readyz and /metrics for operators, OPTIONS *, and the errors of requests that no handler takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from tornado_gate import __version__
from tornado_gate.errors import GateError
from tornado_gate.gateway.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.base import GateHandler
from tornado_gate.server.handlers.exchange import CallerRequest, Exchange


class StatusHandler(GateHandler):
    """Requested by probes every few seconds: neither counted nor logged."""

    def on_finish(self) -> None:
        """Does not count or log the request."""


class HealthHandler(StatusHandler):
    """The process runs."""

    def get(self) -> None:
        self.write({"status": "ok", "version": __version__})

    head = get


class ReadyHandler(StatusHandler):
    """The process accepts requests; 503 while it shuts down or is overloaded, and while a required plugin cannot work."""

    def get(self) -> None:
        if self.gate.draining:
            self.set_status(503)
            self.write({"status": "draining"})
            return
        if self.snapshot.closed:
            self.set_status(503)
            self.write({"status": "plugin_unavailable", "plugins": sorted(self.snapshot.closed)})
            return
        reasons = [reason for check in self.gate.ready_checks if (reason := check())]
        if reasons:
            self.set_status(503)
            self.write({"status": "overloaded", "reason": "; ".join(reasons)})
            return
        self.write({"status": "ready", "configuration": self.snapshot.number})

    head = get


class MetricsHandler(StatusHandler):
    """Metrics in the text format of Prometheus."""

    async def get(self) -> None:
        # With several processes, rendering reads the metrics files of all of them.
        body, content_type = await asyncio.to_thread(self.gate.metrics.render)
        self.set_header("Content-Type", content_type)
        self.finish(body)

    head = get


class RefusalHandler(Exchange):
    """Sends an error before the body of its request is read: 404, 405, or 413 for a body that nothing takes."""

    def __init__(self, gate: Gate, request: CallerRequest, error: GateError, format: str) -> None:
        super().__init__(gate, request, format)
        self._error = error

    def prepare(self) -> Awaitable[None] | None:
        if common.has_body(self.request.lowered):
            raise self._error
        return None

    async def answer(self) -> None:
        self.fail(self._error)


class OptionsHandler(Exchange):
    """OPTIONS *: the methods of the server as a whole (RFC 9110 9.3.7)."""

    async def answer(self) -> None:
        self.set_status(204)
        self.set_header("Allow", ", ".join(common.METHODS))
        self.end()
