"""The base of handlers that are Tornado RequestHandlers: operator pages, stored files, WebSockets."""

from __future__ import annotations

import logging
import time
from asyncio import Future
from collections.abc import Mapping
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.web import Application, HTTPError, RequestHandler

from tornado_gate.errors import GateError
from tornado_gate.http.server.response_head import clean_header_value
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.cors import make_cors_headers
from tornado_gate.server.handlers.exchange import CallerConnection
from tornado_gate.types import Call

log = logging.getLogger(__name__)


class GateHandler(RequestHandler):
    """A RequestHandler with the gateway's headers, error bodies and access log. Only `fail` sends an error."""

    SUPPORTED_METHODS = common.METHODS
    is_shared = False
    """The permission for web pages of other origins to read the response, if conf allows their origin."""

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
        self.error_code = ""
        self.outcome = ""
        self.end_user = ""
        self.recorded_body = b""
        self.ledger_headers: Mapping[str, str] | None = None
        self.sent_bytes = 0
        self.set_cors_headers()

    def find_client(self) -> str:
        """Return the IP address of the caller, for the access log."""
        return common.find_request_origin(self.request, self.snapshot.config.server).address

    def set_cors_headers(self) -> None:
        """Set the headers of CORS. Called for each request and again by `clear`, which `fail` calls."""
        snapshot = getattr(self, "snapshot", None)  # Tornado calls `clear` before `initialize`
        if self.is_shared and snapshot is not None and snapshot.config.cors.origins:
            for name, value in make_cors_headers(snapshot.config.cors, self.request.headers.get("Origin", "")).items():
                self.set_header(name, value)

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in common.make_default_headers(self.request_id).items():
            self.set_header(name, value)
        self.set_cors_headers()

    def set_header(self, name: str, value: Any) -> None:
        """Set a header. Characters that its value cannot have are replaced, where Tornado would raise."""
        super().set_header(name, clean_header_value(value) if isinstance(value, str) else value)

    def compute_etag(self) -> str | None:
        return None  # responses must not be cached

    def fail(self, error: GateError) -> None:
        """Send an error response in the format of the route. Call it only before the status line was sent."""
        self.clear()
        self.error_code = error.code
        self.set_status(error.status)
        for name, value in error.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "application/json")
        self.finish(common.render_error_envelope(self.snapshot, self.format, self.call, error))

    async def send(self, chunk: bytes) -> None:
        """Write a chunk of the body, and return when the caller can receive more. Raises StreamClosedError after a disconnect."""
        self.write(chunk)
        await self.flush()

    def flush(self, include_footers: bool = False) -> Future[None]:
        """Send what was written, and count its bytes for the access log: of pages too, which Tornado finishes itself."""
        if self.request.method != "HEAD":
            self.sent_bytes += sum(map(len, self._write_buffer))
        return super().flush(include_footers)

    def end(self) -> None:
        """Finish the response."""
        self.finish()

    def cut(self) -> None:
        """Close the connection in the middle of a response, so that the client sees that it is incomplete."""
        connection: CallerConnection = self.request.connection  # type: ignore[assignment]  # Tornado declares its base class
        connection.close()

    def write_error(self, status_code: int, **details: Any) -> None:
        """Send the error response for a request that Tornado rejects and for an unexpected exception."""
        error = details.get("exc_info", (None, None, None))[1]
        self.fail(error if isinstance(error, GateError) else common.make_error_from_tornado(self.request, status_code))

    def on_finish(self) -> None:
        """Count and log the request, with any outcome."""
        common.record_request(self)

    @property
    def status(self) -> int:
        """Return the status of the response."""
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
