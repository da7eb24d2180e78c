"""Requests whose head the client has sent before on its connection: they need no task while nothing waits.

A `KnownHead` holds what such requests have in common. With the plan of the model (`pipeline/plans.py`) the request is sent to its
upstream from the function that has received its body, and a response that arrives whole is written from the function that has
received it. Everything else goes on in a task, as for any request: `AnswerHandler`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any

from tornado.httputil import HTTPConnection
from tornado.iostream import StreamClosedError

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.codec import json_body
from tornado_gate.errors import GateError, InternalError
from tornado_gate.guards.stream_policy import HEADER
from tornado_gate.http.server.head import HeaderFields
from tornado_gate.http.server.response_head import is_clean_value
from tornado_gate.ledger.costs import format_usd
from tornado_gate.pipeline.calls import CallerServices
from tornado_gate.pipeline.direct import DirectAttempt, may_begin
from tornado_gate.pipeline.model_names import find_plain_name
from tornado_gate.pipeline.plans import Plan, Scope
from tornado_gate.pipeline.pricing import compute_answer_cost
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.answer import AnswerHandler, make_header_safe
from tornado_gate.server.handlers.authenticated import EMPTY_MAPPING, remove_keys
from tornado_gate.server.handlers.exchange import CallerRequest, format_date_header
from tornado_gate.server.services import Services
from tornado_gate.targets.routing import MatchedRoute
from tornado_gate.types import BufferedBody, Call, Caller, Reply, WireRequest
from tornado_gate.types.call import LazyExitStack


class KnownHead:
    """What requests with the same head, apart from the length of their body, have in common.

    `headers` are those for plugins, without the key. `request_id` is the caller's own id, or "". `body_bytes` is the length
    in `headers`.
    """

    __slots__ = (
        "body_bytes",
        "caller",
        "headers",
        "key_digest",
        "matched",
        "plans",
        "request",
        "request_id",
        "services",
        "snapshot",
        "strict",
    )

    def __init__(self, handler: AnswerHandler, services: CallerServices) -> None:
        lowered, snapshot, caller = handler.lower_headers, handler.snapshot, handler.caller
        self.snapshot: Snapshot = snapshot
        self.request: CallerRequest = _copy_request(handler.request, lowered["content-length"])
        self.matched: MatchedRoute = handler.matched
        self.caller: Caller = caller
        self.key_digest = handler.key_digest
        self.headers: Mapping[str, str] = remove_keys(lowered)
        self.body_bytes = int(lowered["content-length"])
        self.request_id = handler.request_id if lowered.get("x-request-id") == handler.request_id else ""
        self.strict = lowered.get("x-gate-strict") == "1"
        self.services = services
        self.plans: Scope = handler.gate.plans.find_scope(handler.matched.served, caller)

    def get_headers(self, body_bytes: int) -> Mapping[str, str]:
        """Return the headers for plugins of a request with a body of this length."""
        if body_bytes == self.body_bytes:
            return self.headers
        return {**self.headers, "content-length": str(body_bytes)}


def _copy_request(request: CallerRequest, length: str) -> CallerRequest:
    """Return a copy for a `KnownHead`. Its headers have no note, which would refer to the `KnownHead` itself."""
    copied = copy(request)
    headers = request.headers
    assert isinstance(headers, HeaderFields)
    copied.headers = headers.copy_with_length(length)
    copied.headers.note = None
    return copied


def remember_head(handler: DirectAnswerHandler) -> KnownHead | None:
    """Keep what the next requests with the head of `handler` need. Return None for a request that has other steps."""
    lowered, route, snapshot = handler.lower_headers, handler.route, handler.snapshot
    if (
        route.method != "POST"
        or not handler.key_digest
        or handler.form is not None
        or handler.is_plain
        or handler.request.query
        or HEADER in lowered
        or "content-length" not in lowered
        or handler.caller.addresses
        or snapshot.guards.lanes
        or snapshot.config.cors.origins
        or snapshot is not handler.gate.snapshot  # its plans would be those of another one
        or not isinstance(handler.request.headers, HeaderFields)
    ):
        return None
    services = handler.services.calls.make_services(handler.caller.account, handler.get_public_url())
    known = handler.request.headers.note = KnownHead(handler, services)
    return known


_UNKNOWN: Any = object()


class DirectAnswerHandler(AnswerHandler):
    """An `AnswerHandler` that begins without a task. `attempt` is set until its response is whole or a task goes on with it."""

    known: KnownHead | None = None
    attempt: DirectAttempt | None = None

    def _admit(self, caller: Caller, key_digest: bytes, is_form: bool) -> None:
        super()._admit(caller, key_digest, is_form)
        self.known = remember_head(self)

    def finish(self) -> None:
        """Begin the request, because its body is complete."""
        known = self.known
        if self.finished:
            return
        if known is None or self.claim is not None:
            super().finish()
            return
        self._stop_timing()
        self.body_read = True
        if not self._try_to_begin(known):
            self.start_work()

    def _try_to_begin(self, known: KnownHead) -> bool:
        """Begin the request without a task. Return False, without an effect, if it needs one."""
        try:
            return self._begin(known)
        except Exception:
            self._fail_unexpectedly()
            return True

    def _begin(self, known: KnownHead) -> bool:
        """Send the request to its upstream. Return False, without an effect, for a request without a plan, or with a fault."""
        gate, caller, route = self.gate, self.caller, self.route
        if caller.bounds or gate.admission.is_active:
            return False
        pieces = self.body
        raw = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        try:
            body = json_body.load_object(raw)
            self.body, self.parsed = [raw], body
            plan = self._find_plan(known, body)
        except GateError:
            return False  # it is raised again where it is sent
        if plan is None:
            return False
        headers = known.get_headers(len(raw))
        wire = WireRequest(
            route=route,
            path=self.request.path,
            path_arguments=self.matched.arguments,
            query=EMPTY_MAPPING,
            query_lists=EMPTY_MAPPING,
            headers=headers,
            raw=raw,
            json=body,
        )
        closing = LazyExitStack()
        call = self.services.calls.make_planned(
            self.snapshot.config,
            self.request_id,
            self.format,
            caller,
            headers,
            closing,
            self.started,
            plan,
            known.services,
            strict=known.strict,
            key_digest=self.key_digest,
        )
        if not may_begin(gate, plan, call, wire):
            return False
        self.body = []
        self.parsed = None
        self.wire, self.call = wire, call
        self.note_body(wire)
        gate.requests.begin(self.snapshot)
        gate.requests.running.add(self)
        attempt = self.attempt = DirectAttempt(gate, plan, call, wire, closing, self._on_answered)
        if not attempt.begin():
            self._go_on()
        return True

    def _find_plan(self, known: KnownHead, body: Mapping[str, Any]) -> Plan | None:
        """Return the plan for the model that the request names. Raises GateError."""
        name = find_plain_name(self.caller, self.route, self.matched.arguments, body)
        if name is None:
            return None
        plan: Plan | None = known.plans.get(name, _UNKNOWN)
        if plan is _UNKNOWN:
            return self.gate.plans.add(known.plans, self.snapshot, self.matched.served, self.caller, name)
        return plan

    # Waiting for the upstream

    def _on_answered(self) -> None:
        """Send the response, if it has arrived whole; else go on in a task."""
        attempt = self.attempt
        if attempt is None:
            return
        try:
            reply = attempt.finish()
            if reply is None:
                self._go_on()
            else:
                self.attempt = None
                self._send_whole(attempt, reply)
        except Exception:
            self._fail_unexpectedly()

    def _go_on(self) -> None:
        """Go on in a task, because something must wait or has failed."""
        self.headers = self.make_first_headers()
        self.start_work()

    def answer(self) -> Awaitable[None]:
        """Serve the request like `AnswerHandler`, from where its attempt has stopped."""
        attempt = self.attempt
        if attempt is None:
            return super().answer()
        self.attempt = None
        return self.send_answer(attempt.run, attempt.closing)

    def interrupt(self, error: GateError) -> None:
        """End the response with `error`, because the gateway shuts down."""
        if self.attempt is None or self.finished:
            super().interrupt(error)
        elif self.work is None:
            self.fail(error)
        else:
            self._call_after_first_step(self.interrupt, error)

    def on_connection_close(self) -> None:
        """End the request, whose caller has left."""
        if self.attempt is not None and self.work is not None:
            self._call_after_first_step(super().on_connection_close)
        else:
            super().on_connection_close()

    @staticmethod
    def _call_after_first_step(function: Callable[..., None], *arguments: object) -> None:
        """Call `function` when the task has taken its first step: one that is cancelled before closes nothing."""
        asyncio.get_running_loop().call_soon(function, *arguments)

    def release(self) -> None:
        """Release what the request holds, and close its connection to the upstream."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            attempt.stop()
            self._stop_running()
        super().release()

    def _stop_running(self) -> None:
        self.wire = None
        self.gate.requests.running.discard(self)
        self.gate.requests.end(self.snapshot)

    def _fail_unexpectedly(self) -> None:
        """Send an InternalError for the exception that is being handled."""
        self.log_exception()
        if self.headers_written:
            self.error_code = InternalError.code
            self.cut()
            self._end_exchange()
        elif not self.finished:
            self.fail(InternalError())

    # Sending the response

    def _send_whole(self, attempt: DirectAttempt, reply: Reply) -> None:
        """Write a reply that is complete, and end the request."""
        call, body = attempt.call, reply.chunks
        assert isinstance(body, BufferedBody)
        call.progress.begin_response(time.monotonic() - self.started)
        if self._send_with_usual_head(call, reply, body.data):
            self._end_usually()
            return
        self.headers = self.make_first_headers()
        try:
            self._describe(call, reply)
            self._add_cost(call)
            self.end(body.data)
        except StreamClosedError:
            self.outcome = "aborted"
        finally:
            self._stop_running()
        self._end_exchange()

    def _end_usually(self) -> None:
        """End the request like `_end_exchange`, after a response that needs no more than this."""
        gate = self.gate
        self.finished, self.is_open = True, False
        gate.overload.leave(self.caller.account)
        try:
            common.record_request(self)
        finally:
            self.wire = None
            gate.requests.running.discard(self)
            gate.requests.end(self.snapshot)

    def _send_with_usual_head(self, call: Call, reply: Reply, data: bytes) -> bool:
        """Write a reply whose head has the usual fields only. Return False, without an effect, for any other."""
        if (
            reply.status != 200
            or reply.headers
            or call.losses
            or call.additions.headers is not None
            or not is_clean_value(reply.content_type)
        ):
            return False
        cost = compute_answer_cost(self.snapshot.prices, call)
        price = "" if cost is None else f"X-Gate-Cost: {format_usd(cost)}\r\n"
        request_id, target = self.request_id, call.target
        head = (
            f"HTTP/1.1 200 OK\r\nX-Request-Id: {request_id}\r\nRequest-Id: {request_id}\r\n"
            "Cache-Control: private, no-store\r\nX-Content-Type-Options: nosniff\r\n"
            f"Content-Type: {reply.content_type}\r\nX-Gate-Provider: {target.provider}\r\n"
            f"X-Gate-Model: {make_header_safe(target.upstream_model)}\r\n{price}"
            f"Content-Length: {len(data)}\r\nDate: {format_date_header()}\r\n\r\n"
        )
        if not self.connection.send_whole(head, data):  # type: ignore[attr-defined]  # only `http.server.front` repeats heads
            return False
        self.sent_bytes = len(data)
        self.headers_written = True
        return True


class RepeatedAnswerHandler(DirectAnswerHandler):
    """The handler of a request whose head its client has sent before on the same connection."""

    def __init__(self, services: Services, known: KnownHead, connection: HTTPConnection) -> None:
        self.started = time.monotonic()
        self.services = services
        self.gate = services.gate
        self.snapshot = known.snapshot
        self.request = request = known.request
        self.connection = connection  # type: ignore[assignment]  # Tornado declares its base class
        self.request_id = known.request_id or common.make_request_id()
        self.matched = known.matched
        served = known.matched.served
        self.route, self.format = served.route, served.format
        self.operation = served.route.operation
        self.lower_headers = request.lowered
        self.known = known

    def take_request(self, known: KnownHead, body: bytes) -> bool:
        """Check the caller's current permissions and limits, and begin the request with its whole body.

        Return False, without an effect, if what the key may do has changed, or the body is large.
        """
        gate = self.gate
        caller = gate.callers.find_cached(known.key_digest)
        self.limit = self.snapshot.config.limits.body_bytes
        size = self.body_bytes = len(body)
        if caller is not known.caller or size > self.limit or size > SMALL_BYTES:
            return False
        self.connection.set_close_callback(self.on_connection_close)
        self.caller, self.key_digest = caller, known.key_digest
        try:
            gate.overload.enter(caller.account)
        except GateError as error:
            self.fail(error)
            return True
        self.is_open = self.body_read = True
        self.body = [body]
        if not self._try_to_begin(known):
            self.lower_headers = {**self.lower_headers, "content-length": str(size)}
            self.headers = self.make_first_headers()
            self.start_work()
        return True
