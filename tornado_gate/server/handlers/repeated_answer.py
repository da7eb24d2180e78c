"""Requests whose head the client has sent before on its connection: it is not parsed again (`http/server/head.py`)."""

from __future__ import annotations

import time

from tornado.httputil import HTTPConnection

from tornado_gate.errors import GateError
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.direct_answer import DirectAnswerHandler
from tornado_gate.server.handlers.known_heads import KnownHead
from tornado_gate.server.services import Services
from tornado_gate.types import Call


class RepeatedAnswerHandler(DirectAnswerHandler):
    """The handler of a request whose head its client has sent before on the same connection."""

    def __init__(self, services: Services, snapshot: Snapshot, known: KnownHead, connection: HTTPConnection) -> None:
        self.started = time.monotonic()
        self.services = services
        self.gate = services.gate
        self.snapshot = snapshot
        self.request = known.request
        self.connection = connection  # type: ignore[assignment]  # Tornado declares its base class
        self.request_id = known.request_id or common.make_request_id()
        self.format = known.format
        self.caller = known.caller
        self.known = known
        self.body = []

    def make_partial_call(self) -> Call:
        """Return the call for the access log when the request ends before its call exists."""
        assert self.known is not None
        self._prepare(self.known, self.known.body_bytes)
        return super().make_partial_call()

    def find_client(self) -> str:
        """Return the IP address of the caller, for the access log."""
        return self.known.client if self.known is not None else super().find_client()

    def take_request(self, known: KnownHead, body: bytes) -> bool:
        """Check the caller's current permissions and limits, and begin the request with its whole body.

        Return False, without an effect, if the permissions of the key have changed or the body is large.
        """
        gate, size = self.gate, len(body)
        if not gate.callers.is_unchanged(known.key) or size > known.most_bytes:
            return False
        self.connection.close_callback = self.on_connection_close  # type: ignore[attr-defined]  # only `http.server.front` repeats heads
        try:
            gate.overload.enter(known.caller.account)
        except GateError as error:
            self.fail(error)
            return True
        self.is_open = self.body_read = True
        if not self._try_to_begin(known, body):
            self._prepare(known, size)
            self.body = [body]
            self.body_bytes = size
            self.headers = self.make_first_headers()
            self.start_work()
        return True

    def _prepare(self, known: KnownHead, size: int) -> None:
        """Set the attributes that `AnswerHandler` needs for a body of that size."""
        self.matched = known.matched
        self.route = known.matched.served.route
        self.operation = self.route.operation
        self.key_digest = known.key_digest
        self.lower_headers = {**known.request.lowered, "content-length": str(size)}
        self.limit = self.snapshot.config.limits.body_bytes
