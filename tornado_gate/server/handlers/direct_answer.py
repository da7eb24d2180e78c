"""Requests that need no task until a step must wait.

A `KnownHead` holds what requests with the same head have in common. If the model has a plan (`pipeline/plans.py`), the function
that receives the body sends the request to its upstream. The function that receives a complete response writes it to the caller.
The chunks of a stream are written in the same way (`pipeline/stream_pump.py`). All other requests continue in a task, as in
`AnswerHandler`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal

from tornado.iostream import StreamClosedError

from tornado_gate.admission.estimates import begin_charge, estimate_request, estimate_wire_tokens
from tornado_gate.codec import json_body
from tornado_gate.errors import GateError, InternalError
from tornado_gate.http.server.response_head import is_clean_value, render_fields
from tornado_gate.ledger.costs import format_usd
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.auth import PLAIN_NAMES
from tornado_gate.pipeline.chosen_attempt import ChosenAttempt
from tornado_gate.pipeline.direct import DirectAttempt, may_begin
from tornado_gate.pipeline.guarded_attempt import GuardedAttempt
from tornado_gate.pipeline.model_names import find_plain_name
from tornado_gate.pipeline.plans import AnyPlan, GuardedPlan, Others, Plan, TargetChoice
from tornado_gate.pipeline.pricing import quote_answer
from tornado_gate.server.dispatch import dispatch
from tornado_gate.server.handlers import common
from tornado_gate.server.handlers.answer import AnswerHandler, KeepAliveWriter, make_unread_error
from tornado_gate.server.handlers.authenticated import EMPTY_MAPPING
from tornado_gate.server.handlers.exchange import capitalize_header_name, format_date_header
from tornado_gate.server.handlers.known_heads import KnownHead, remember_head
from tornado_gate.server.handlers.limit_headers import render_limit_headers
from tornado_gate.streams.events import join_frames
from tornado_gate.streams.passthrough import EVENTS
from tornado_gate.types import NO_TARGET, Call, Caller, Reply, WireRequest
from tornado_gate.types.call import LazyExitStack

AnyAttempt = DirectAttempt | GuardedAttempt
_UNKNOWN: Any = object()


class DirectAnswerHandler(AnswerHandler):
    """An `AnswerHandler` that begins without a task. `attempt` is set until its response is whole or a task goes on with it.

    `others` are the targets to try if the attempt fails. `limit_fields` are the lines of the response's head about limits.
    """

    known: KnownHead | None = None
    attempt: AnyAttempt | None = None
    others: Others | None = None
    limit_fields = ""
    _make_attempt: Callable[..., DirectAttempt] = DirectAttempt
    _pings: KeepAliveWriter | None = None  # set while a stream is open

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
        if self.is_timed:
            self._stop_timing()
        self.body_read = True
        raw = self.body[0] if len(self.body) == 1 else b"".join(self.body)
        self.body = []
        if not self._try_to_begin(known, raw):
            self.body = [raw]
            self.start_work()

    def _try_to_begin(self, known: KnownHead, raw: bytes) -> bool:
        """Begin the request without a task. Return False, without an effect, if it needs one."""
        try:
            return self._begin(known, raw)
        except Exception:
            self._fail_unexpectedly()
            return True

    def _begin(self, known: KnownHead, raw: bytes) -> bool:
        """Send the request to its upstream. Return False, without an effect, for a request without a plan, or with a fault."""
        gate = self.gate
        try:
            body = json_body.load_object(raw)
            plan: Any = self._find_plan(known, body)
            if plan.__class__ is not Plan:
                if plan.__class__ is not TargetChoice:
                    return self._begin_otherwise(known, plan, raw, body)
                plan = self._choose_target(known, plan, body, len(raw))
        except GateError:
            return False  # the code that sends the error raises it again
        if plan is None:
            self.parsed = body
            return False
        headers: Mapping[str, str] = {**known.headers}  # a copy, because a plugin may change them
        if len(raw) != known.body_bytes:
            headers = known.get_headers(len(raw))
        wire = WireRequest(
            route=known.route,
            path=known.request.path,
            path_arguments=known.matched.arguments,
            query=EMPTY_MAPPING,
            query_lists=EMPTY_MAPPING,
            headers=headers,
            raw=raw,
            json=body,
        )
        closing = LazyExitStack()
        call = self.services.calls.make_planned(
            self.snapshot.config, self.request_id, known, wire, closing, self.started, plan
        )
        if not may_begin(gate, plan, call, wire) or (
            (known.caller.bounds or gate.admission.is_active) and not self._reserve(known, plan, call, wire)
        ):
            self.parsed = body
            return False
        self.wire = wire
        self.call = call
        self.ledger_headers = known.ledger_headers
        self.note_body(wire)
        gate.requests.begin(self.snapshot)
        gate.requests.running.add(self)
        attempt = self.attempt = self._make_attempt(gate, plan, call, wire, closing, self._on_answered)
        if not attempt.begin():
            self._go_on()
        return True

    def _reserve(self, known: KnownHead, plan: Plan, call: Call, wire: WireRequest) -> bool:
        """Reserve what the request may use. Return False, without an effect, if that needs a wait, or if a limit refuses."""
        admission, estimate = self.gate.admission, None
        if admission.needs_estimate(call):
            begin_charge(call, wire, None)
            count = call.charge.estimate_prompt
            tokens = estimate_wire_tokens(wire) if count is None else count()
            operations = auth.filter_operations(known.caller, wire.route.operations)
            estimate = estimate_request(operations[0], wire.route, wire.json, tokens)
        if not admission.try_enter(self.snapshot.prices, call, plan.target, estimate):
            return False
        reservations = call.charge.reservations
        if reservations is not None:
            fields = render_limit_headers(self.snapshot.formats, call, reservations.levels)
            self.limit_fields = render_fields((capitalize_header_name(name), fields[name]) for name in fields)
        return True

    def _begin_otherwise(self, known: KnownHead, plan: GuardedPlan | None, raw: bytes, body: Mapping[str, Any]) -> bool:
        """Begin a request that guards review. Return False, without an effect, for a request without a plan, or with a fault."""
        gate, closing = self.gate, LazyExitStack()
        self.parsed = body
        if plan is None:
            return False
        self._prepare(known, len(raw))
        call = self.make_call(closing)
        wire = self._build_wire_request(call, raw, body, ())
        review = plan.begin_review(gate.guarding, call)
        if review.reads("request") and not gate.admission.try_begin(review.call):
            return False
        self.parsed = None
        self.wire = wire
        self.call = call
        self.ledger_headers = known.ledger_headers
        self.note_body(wire)
        gate.requests.begin(self.snapshot)
        gate.requests.running.add(self)
        prepare = partial(self._prepare_attempt, known, plan)
        answer = partial(dispatch, self.services, self.snapshot, is_reviewed=True)
        attempt = GuardedAttempt(
            gate, self.snapshot.formats[known.format], review, call, wire, closing, prepare, answer
        )
        self.attempt = attempt
        if not attempt.begin():
            self._go_on()
        return True

    def _prepare(self, known: KnownHead, size: int) -> None:
        """Set the attributes that `AnswerHandler` needs for a body of that size, if they are not yet set."""

    def _prepare_attempt(
        self, known: KnownHead, guarded: GuardedPlan, call: Call, wire: WireRequest
    ) -> DirectAttempt | None:
        """Return the attempt of a request that guards have reviewed. Return None if it needs other steps. Raises GateError."""
        gate, plan = self.gate, guarded.plan
        if find_plain_name(known.caller, wire.route, wire.path_arguments, wire.json) != guarded.model:
            return None  # a guard has replaced the name
        chosen = plan if isinstance(plan, Plan) else self._choose_target(known, plan, wire.json, len(wire.raw))
        if chosen is None:
            return None
        call = chosen.complete_call(call)
        if not may_begin(gate, chosen, call, wire) or (
            (known.caller.bounds or gate.admission.is_active) and not self._reserve(known, chosen, call, wire)
        ):
            return None
        call.progress.begin_attempt(chosen.target)
        self.call = call
        return self._make_attempt(gate, chosen, call, wire, call.closing, self._on_answered)

    def _choose_target(
        self, known: KnownHead, choice: TargetChoice, body: Mapping[str, Any], body_bytes: int
    ) -> Plan | None:
        """Return the plan for one of several targets. Raises GateError."""
        chosen = choice.choose(self.gate.health, known.caller.account, known.headers, body, body_bytes)
        if chosen is None:
            return None
        plan, self.others = chosen
        if plan.is_tracked:
            self._make_attempt = partial(ChosenAttempt, self.others)
        return plan

    def _find_plan(self, known: KnownHead, body: Mapping[str, Any]) -> AnyPlan | None:
        """Return the plan for the model that the request names. Raises GateError."""
        if known.has_plain_model and PLAIN_NAMES.issuperset(body):
            model = body.get("model")
            if type(model) is str:
                plan: AnyPlan | None = known.plans.get(model, _UNKNOWN)
                if plan is not _UNKNOWN:
                    return plan
        matched = known.matched
        name = find_plain_name(known.caller, matched.served.route, matched.arguments, body)
        if name is None:
            return None
        plan = known.plans.get(name, _UNKNOWN)
        if plan is _UNKNOWN:
            plans, served = self.gate.plans, matched.served
            return plans.add(known.plans, self.snapshot, served, known.caller, name, known.cors_fields)
        return plan

    # Waiting for the upstream

    def _on_answered(self) -> None:
        """Send the response if it has arrived completely, else continue in a task."""
        attempt = self.attempt
        if attempt is None:
            return
        try:
            reply = attempt.finish()
            if reply is None:
                self._go_on()
            elif attempt.pump is not None:
                attempt.pump.start(self)
            else:
                self.attempt = None
                self._send_whole(attempt, reply)
        except Exception:
            self._fail_unexpectedly()

    def _go_on(self) -> None:
        """Continue in a task, because a step must wait or has failed."""
        self.headers = self.make_first_headers()
        self.start_work()

    def answer(self) -> Awaitable[None]:
        """Serve the request like `AnswerHandler`, from where its attempt has stopped."""
        attempt = self.attempt
        if attempt is None:
            return super().answer()
        self.attempt = None
        if self.others is not None and self.call is not None:
            attempt.others, self.others = self.others, None
            self.call = self.call.replace(target=NO_TARGET)  # until one of its targets has answered
        self.call = attempt.first_call or self.call
        return self.send_answer(attempt.run, attempt.closing)

    def interrupt(self, error: GateError) -> None:
        """End the response with `error`, because the gateway shuts down."""
        attempt = self.attempt
        if attempt is None or self.finished:
            super().interrupt(error)
        elif self.work is not None:
            self._call_after_first_step(self.interrupt, error)
        elif attempt.pump is not None and attempt.pump.begun:
            attempt.pump.interrupt(error)
        else:
            self.fail(error)

    def on_connection_close(self) -> None:
        """End the request, whose caller has left."""
        if self.attempt is not None and self.work is not None:
            self._call_after_first_step(super().on_connection_close)
        else:
            super().on_connection_close()

    @staticmethod
    def _call_after_first_step(function: Callable[..., None], *arguments: object) -> None:
        """Call `function` after the first step of the task. A task that is cancelled earlier closes no resources."""
        asyncio.get_running_loop().call_soon(function, *arguments)

    def release(self) -> None:
        """Release the resources of the request, and close its connection to the upstream."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            attempt.stop()
            self._stop_running()
        if self._pings is not None:
            self._stop_stream()
        super().release()

    def _stop_running(self) -> None:
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

    def _send_whole(self, attempt: AnyAttempt, reply: Reply) -> None:
        """Write a reply that is complete, and end the request."""
        call = attempt.call
        body: Any = reply.chunks  # a BufferedBody
        call.progress.begin_response(time.monotonic() - self.started)
        if self._send_with_usual_head(attempt, reply, body.data):
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
        """End the request like `_end_exchange`, after a response that needs no further steps."""
        gate = self.gate
        self.finished, self.is_open = True, False
        gate.overload.leave(self.caller.account)
        try:
            common.record_request(self)
        finally:
            gate.requests.running.discard(self)
            gate.requests.end(self.snapshot)

    def _send_with_usual_head(self, attempt: AnyAttempt, reply: Reply, data: bytes) -> bool:
        """Write a reply whose head has the usual fields only. Return False, without an effect, for any other."""
        cost = quote_answer(self.snapshot.prices, attempt.call)
        price = "" if cost is None else f"X-Gate-Cost: {format_usd(cost)}\r\n"
        head = self._render_usual_head(
            attempt, reply, f"{price}Content-Length: {len(data)}\r\nDate: {format_date_header()}"
        )
        if head is None or not self.connection.send_whole(head, data):  # type: ignore[attr-defined]  # only `http.server.front` repeats heads
            return False
        self.sent_bytes = len(data)
        self.headers_written = True
        return True

    def _render_usual_head(self, attempt: AnyAttempt, reply: Reply, last_fields: str) -> str | None:
        """Return the head of a reply, or None if it has unusual fields."""
        call = attempt.call
        if (
            reply.status != 200
            or reply.headers
            or call.losses
            or call.additions.headers is not None
            or not is_clean_value(reply.content_type)
        ):
            return None
        request_id = self.request_id
        return (
            f"HTTP/1.1 200 OK\r\nX-Request-Id: {request_id}\r\nRequest-Id: {request_id}\r\n"
            "Cache-Control: private, no-store\r\nX-Content-Type-Options: nosniff\r\n"
            f"Content-Type: {reply.content_type}\r\n{attempt.plan.response_head}{self.limit_fields}{last_fields}\r\n\r\n"
        )

    def _render_stream_head(self, attempt: AnyAttempt, reply: Reply) -> str | None:
        return self._render_usual_head(attempt, reply, f"Date: {format_date_header()}\r\nTransfer-Encoding: chunked")

    # Sending a stream: the interface `stream_pump.StreamReceiver`

    def send_chunks(self, chunks: list[bytes]) -> Awaitable[None] | None:
        """Write chunks of a stream, the first ones after its head."""
        if self.headers_written and len(chunks) == 1:
            return self.write(chunks[0])
        first, *others = chunks if len(chunks) == 1 else join_frames(chunks)
        if self.headers_written:
            waiting = self.write(first)
        else:
            attempt = self.attempt
            assert attempt is not None
            assert attempt.reply is not None
            attempt.note_begun()
            attempt.call.progress.begin_response(time.monotonic() - self.started)
            waiting = self._begin_stream(attempt, first)
            seconds = self.snapshot.config.server.keep_alive_seconds
            self._pings = KeepAliveWriter(self, attempt.reply.keep_alive, seconds)
            self.gate.metrics.requests.count_stream_opened()
        for chunk in others:
            waiting = self.write(chunk)
        return waiting

    def _begin_stream(self, attempt: AnyAttempt, chunk: bytes) -> Awaitable[None] | None:
        """Write the head and the first chunk of a stream."""
        call, reply = attempt.call, attempt.reply
        assert reply is not None
        self.written_at = time.monotonic()
        head = self._render_stream_head(attempt, reply)
        if head is not None:
            connection: Any = self.connection  # only `http.server.front` repeats heads
            waiting: Awaitable[None] | Literal[False] | None = connection.begin_stream(head, chunk)
            if waiting is not False:
                self.headers = _STREAM_HEADERS
                self._send = connection.send
                self.sent_bytes = len(chunk)
                self.headers_written = True
                return waiting
        self.headers = self.make_first_headers()
        self._describe(call, reply)
        return self.write(chunk)

    def _stop_stream(self) -> None:
        pings, self._pings = self._pings, None
        if pings is not None:
            pings.stop()
            self.gate.metrics.requests.count_stream_closed()

    def end_stream(self, chunks: list[bytes], error: BaseException | None) -> None:
        """Write the last chunks of a stream, and end the request, with an error that its format has not rendered."""
        try:
            if error is None:
                self._end_complete_stream(chunks)
                return
            if chunks:
                self.send_chunks(chunks)
            raise error
        except GateError as failure:
            self.fail_late(failure)
        except StreamClosedError:
            self.outcome = "aborted"
        except Exception:
            self.log_exception()
            self.fail_late(InternalError())
        self._end_exchange()

    def _end_complete_stream(self, chunks: list[bytes]) -> None:
        """Write the last chunks of a stream, or the whole stream if it was complete before it began."""
        *others, last = (chunks if len(chunks) == 1 else join_frames(chunks)) or (b"",)
        for chunk in others:
            self.send_chunks([chunk])
        attempt, self.attempt = self.attempt, None
        assert attempt is not None
        self._stop_running()
        if self.headers_written:
            self._stop_stream()
            self.end(last)
        elif self._send_complete_stream(attempt, last):
            self._end_exchange()
        else:
            assert attempt.reply is not None
            self.headers = self.make_first_headers()
            self._describe(attempt.call, attempt.reply)
            self.end(last)

    def _send_complete_stream(self, attempt: AnyAttempt, chunk: bytes) -> bool:
        """Write a stream that has arrived completely. Return False, without an effect, if its head has unusual fields."""
        call, reply = attempt.call, attempt.reply
        assert reply is not None
        attempt.note_begun()
        call.progress.begin_response(time.monotonic() - self.started)
        head = self._render_stream_head(attempt, reply)
        if head is None or not self.connection.send_whole(head, b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk)):  # type: ignore[attr-defined]  # as above
            return False
        self.sent_bytes = len(chunk)
        self.headers_written = True
        return True

    def leave_stream(self) -> None:
        """Continue a stream in a task."""
        self._stop_stream()
        self._go_on()

    def report_unread(self) -> GateError:
        """Return the error for a caller who has not read the stream in time."""
        assert self.call is not None
        return make_unread_error(self.call)

    def fail_unexpectedly(self) -> None:
        """Send an InternalError for the exception that is being handled."""
        self._fail_unexpectedly()


_STREAM_HEADERS: dict[str, str] = {"Content-Type": EVENTS}
"""The headers of a stream whose head was written: `AnswerHandler.fail_late` looks for its type."""
