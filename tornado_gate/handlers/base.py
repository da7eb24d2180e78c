"""What every handler does: a request id, one place where a failure becomes an answer, nothing shared with caches."""

from __future__ import annotations

import logging
import re
import secrets
import time
from typing import Any

import orjson
from tornado.httputil import HTTPServerRequest
from tornado.web import Application, HTTPError, RequestHandler

from tornado_gate.errors import (
    GateError,
    InternalError,
    MethodNotAllowed,
    NotFound,
    RequestError,
)
from tornado_gate.gate import Gate
from tornado_gate.logs import AccessLine, access
from tornado_gate.types import NOWHERE, Call, Meter

log = logging.getLogger(__name__)

_SANE_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,128}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class GateHandler(RequestHandler):
    """The base of all handlers. `fail` is the only place where an error becomes bytes."""

    SUPPORTED_METHODS = METHODS

    def __init__(self, application: Application, request: HTTPServerRequest, **arguments: Any) -> None:
        self.started = time.monotonic()
        given = request.headers.get("X-Request-Id", "")
        self.request_id = given if _SANE_ID.fullmatch(given) else "req_" + secrets.token_hex(12)
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
        self.set_header("x-request-id", self.request_id)
        self.set_header("request-id", self.request_id)  # where Anthropic's SDKs look for it
        self.set_header("Cache-Control", "private, no-store")
        self.set_header("X-Content-Type-Options", "nosniff")

    def compute_etag(self) -> str | None:
        return None  # answers are not for caches

    def fail(self, error: GateError) -> None:
        """Answer with an error, in the envelope of the route's format. Only before the status line has gone out."""
        self.clear()
        self.set_status(error.status)
        for name, value in error.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "application/json")
        self.finish(self.envelope(error))

    def envelope(self, error: GateError) -> bytes:
        """The body of an error answer."""
        wire_format = self.snapshot.formats.get(self.format)
        if wire_format is not None:
            try:
                return wire_format.translate_error(self.call, error)
            except GateError:
                pass  # the format itself has failed; its name is in the log
        return orjson.dumps({"error": error.body()})

    def write_error(self, status_code: int, **details: Any) -> None:
        """What Tornado itself refuses, and what nobody foresaw."""
        error = details.get("exc_info", (None, None, None))[1]
        self.fail(error if isinstance(error, GateError) else _from_tornado(self, status_code))

    def on_finish(self) -> None:
        """Count and log the request, whatever came of it."""
        seconds = time.monotonic() - self.started
        meter = self.call.meter if self.call else Meter()
        target = self.call.target if self.call else NOWHERE
        model = self.call.model if self.call else ""
        self.gate.metrics.request_finished(
            format=self.format,
            operation=self.operation,
            model=target.model or model,
            provider=target.provider,
            status=self.get_status(),
            seconds=seconds,
            first_event_seconds=meter.first_event_seconds,
            usage=meter.usage,
        )
        if (
            self.call is not None
            and not meter.charged
            and meter.usage is not None
            and meter.usage.total_tokens is not None
        ):
            self.gate.limits.spent(self.call.caller, meter.usage.total_tokens)
        if self.snapshot.config.server.access_log:
            access(
                AccessLine(
                    method=self.request.method or "",
                    path=self.request.path,
                    status=self.get_status(),
                    milliseconds=seconds * 1000,
                    request_id=self.request_id,
                    caller=self.call.caller.id if self.call else "",
                    model=model,
                    provider=target.provider,
                    bytes_out=self.sent_bytes,
                    usage=meter.usage,
                    attempts=meter.attempts,
                )
            )

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (GateError, HTTPError)):
            return
        log.error(
            "request failed: %s",
            kind.__name__ if kind else "unknown",
            exc_info=(kind, error, trace),
            extra={"fields": {"request_id": self.request_id}},
        )


def _from_tornado(handler: GateHandler, status: int) -> GateError:
    method, path = handler.request.method or "", handler.request.path[:200]
    if status == 404:
        return NotFound(f"There is no route '{path}'.", code="unknown_route")
    if status == 405:
        return MethodNotAllowed(method, ["GET"])
    if 400 <= status < 500:
        return RequestError("The request could not be read.", status=status)
    return InternalError()
