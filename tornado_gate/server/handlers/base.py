"""Handlers that are Tornado's own: of pages for operators, of kept files, of WebSockets."""

from __future__ import annotations

import logging
import time
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, HTTPError, RequestHandler

from tornado_gate.errors import GateError
from tornado_gate.gateway.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.exchange import CallerConnection
from tornado_gate.types import Call

log = logging.getLogger(__name__)


class GateHandler(RequestHandler):
    """The base of all of them. `fail` is the only place where an error becomes bytes."""

    SUPPORTED_METHODS = common.METHODS

    def __init__(self, application: Application, request: HTTPServerRequest, **arguments: Any) -> None:
        self.started = time.monotonic()
        self.request_id = common.get_request_id(request.headers)
        super().__init__(application, request, **arguments)

    def initialize(self, gate: Gate) -> None:
        self.gate = gate
        self.snapshot = gate.snapshot
        self.format = ""
        self.operation = ""
        self.call: Call | None = None
        self.sent_bytes = 0

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in common.make_default_headers(self.request_id).items():
            self.set_header(name, value)

    def compute_etag(self) -> str | None:
        return None  # answers are not for caches

    def fail(self, error: GateError) -> None:
        """Answer with an error, in the envelope of the route's format. Only before the status line has gone out."""
        self.clear()
        self.set_status(error.status)
        for name, value in error.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "application/json")
        self.finish(common.render_error_envelope(self.snapshot, self.format, self.call, error))

    async def send(self, chunk: bytes) -> None:
        """Write a piece of the body; returns when the caller takes more. Raises StreamClosedError when it has left."""
        self.sent_bytes += len(chunk)
        self.write(chunk)
        await self.flush()

    def end(self) -> None:
        """The answer is complete."""
        self.finish()

    def cut(self) -> None:
        """End the connection in the middle of an answer, which must not look whole."""
        connection: CallerConnection = self.request.connection  # type: ignore[assignment]  # Tornado types it as the least of them
        connection.close()

    def write_error(self, status_code: int, **details: Any) -> None:
        """What Tornado itself refuses, and what nobody foresaw."""
        error = details.get("exc_info", (None, None, None))[1]
        self.fail(error if isinstance(error, GateError) else common.make_error_from_tornado(self.request, status_code))

    def on_finish(self) -> None:
        """Count and log the request, whatever came of it."""
        common.record_request(self)

    @property
    def status(self) -> int:
        """Of the answer."""
        return self.get_status()

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (GateError, HTTPError)):
            return
        log.error(
            "request failed: %s",
            kind.__name__ if kind else "unknown",
            exc_info=(kind, error, trace),
            extra={"fields": {"request_id": self.request_id}},
        )
