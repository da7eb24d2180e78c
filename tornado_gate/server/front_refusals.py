"""The HTTP server's own responses: with the gateway's headers, counted and logged like the responses of handlers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from tornado_gate.errors import GateError
from tornado_gate.http.server.refusals import Limit, render_refusal
from tornado_gate.ledger.entries import NO_HEADERS
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.handlers.common import get_request_id, make_default_headers
from tornado_gate.telemetry.entries import NO_CALLER, Entry, find_outcome
from tornado_gate.telemetry.logs import log_access
from tornado_gate.types import NO_TARGET, Charge, Meter, Progress

log = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""The interval of warnings about one limit: a flood of connections must not become a flood of lines."""

_ADVICE = {
    Limit.CONNECTIONS: "the limit server.max_connections, or the descriptors of the process (ulimit -n), are used up",
    Limit.ADDRESS: "one address has reached server.max_connections_per_address",
    Limit.HEAD_TIME: "a client did not complete the head of its request in time",
    Limit.BODY_TIME: "a client did not send the body of its request in time",
    Limit.STALLED: "a client read nothing of its response for server.stalled_reader_seconds",
}


class GateRefusals:
    """A renderer of the HTTP server's responses. It writes an access-log line for each, and counts and logs limits."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._log_times: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def answer(self, error: GateError, headers: Mapping[str, str], method: str, path: str) -> bytes:
        """Return the response of `Refusals.answer`, with a request id.

        A refused connection is no request, so it has no access-log line.
        """
        request_id = get_request_id(headers)
        if error.code != "too_many_connections":
            self._record(error, request_id, method, path)
        return render_refusal(error, make_default_headers(request_id), method)

    def _record(self, error: GateError, request_id: str, method: str, path: str) -> None:
        entry = Entry(
            *(time.time_ns() // 1000, request_id, NO_CALLER, NO_TARGET, "", "", "", error.status, ""),
            *(find_outcome(error.status, ""), Meter(), Progress(), Charge(), 0.0, NO_HEADERS),
            method=method,
            path=path,
        )
        self._gate.metrics.requests.add(entry)
        if self._gate.snapshot.config.server.access_log:
            log_access(entry)

    def on_limit(self, limit: str, address: str) -> None:
        """Count a connection that has reached a limit, and log it at most every LOG_SECONDS."""
        self._gate.metrics.admission.count_connection_limit(limit)
        count = self._unlogged[limit] = self._unlogged.get(limit, 0) + 1
        now = time.monotonic()
        if now - self._log_times.get(limit, float("-inf")) >= LOG_SECONDS:
            self._log_times[limit], self._unlogged[limit] = now, 0
            fields = {"limit": limit, "connections": count, "address": address}
            log.warning("connection closed: %s", _ADVICE[limit], extra={"fields": fields})
