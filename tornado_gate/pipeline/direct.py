"""The first attempt of a request that has a plan. It needs no task until the upstream responds, because no step waits.

`begin` runs steps 3 to 5 of `pipeline.py` until one of them must wait, and returns when the request is sent. `finish` makes the
reply if the response has arrived completely. A stream of events gets a `StreamPump`, unless its chunks need more than the
synchronous steps. The coroutine `run` handles waiting and every failure. It continues where `begin` or `finish` stopped, with
the steps of `pipeline.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from tornado_gate.admission.estimates import begin_charge
from tornado_gate.errors import GateError, UpstreamTimeout
from tornado_gate.http import upstream
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.pipeline import metering, pipeline, whole_answers
from tornado_gate.pipeline.attempts import (
    check_response,
    end_failed,
    make_deadlines,
    note_begun,
    translate_response,
)
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.own_links import MARK
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.plans import Others, Plan
from tornado_gate.pipeline.request_cache import RequestCache
from tornado_gate.pipeline.server_tool_parts import has_server_tools
from tornado_gate.pipeline.signatures import restore_without_memory
from tornado_gate.pipeline.stream_pump import StreamPump
from tornado_gate.streams import stages
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.targets import outcomes
from tornado_gate.targets.candidates import NO_NEEDS
from tornado_gate.targets.loads import MeasuredAttempt
from tornado_gate.types import (
    NO_TARGET,
    BufferedBody,
    Call,
    ChatRequest,
    Reply,
    Request,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.call import LazyExitStack


def may_begin(gate: Gate, plan: Plan, call: Call, wire: WireRequest) -> bool:
    """Return whether the plan has all steps of a request. This depends on its body and the health of the target."""
    health, raw = gate.health, wire.raw
    if health.keys.suspensions or not health.circuits.is_clear(plan.target):
        return False
    if plan.operation == "chat" and b"=" in raw and MARK in raw:
        return False
    if plan.has_conditions and not _meets_conditions(plan, raw):
        return False
    references = plan.references
    return references is None or not references(call, wire)


def _meets_conditions(plan: Plan, raw: bytes) -> bool:
    if any(mark in raw for mark in plan.marks):
        return False
    return plan.inputs_at_once is None or raw.count(b",") < plan.inputs_at_once


class DirectAttempt:
    """The first attempt of `call`, at the target of its plan."""

    # The state of an attempt that has just begun; a class attribute costs nothing until it changes.
    _forwarded: VerbatimRequest | Awaitable[VerbatimRequest | None] | None = None
    _request: Request | Awaitable[Request] | None = None
    _incoming: UpstreamResponse | None = None
    _outgoing: Any = None  # an UpstreamRequest or an awaitable of one; each `assert` takes six bytecodes
    _response: HttpResponse | None = None
    _events: AsyncIterator[StreamEvent] | None = None
    reply: Reply | None = None
    pump: StreamPump | None = None
    _deadlines: Deadlines | None = None
    _failure: BaseException | None = None
    _begun_at: float | None = None
    _is_streamed = False
    _slot: int | None = None
    load: MeasuredAttempt | None = None
    first_call: Call | None = None  # that of a `GuardedAttempt`
    needs = NO_NEEDS
    others: Others | None = None
    """The targets to try if the attempt fails."""

    def __init__(
        self,
        gate: Gate,
        plan: Plan,
        call: Call,
        wire: WireRequest,
        closing: LazyExitStack,
        on_change: Callable[[], None],
    ) -> None:
        """Create an attempt. `closing` is the exit stack of the call.

        `on_change` is called once after `begin` has returned True: when the upstream has answered or has failed to.
        """
        self.plan = plan
        self.call = call
        self._gate = gate
        self.closing = closing
        self._wire = wire
        self._on_change: Callable[[], None] | None = on_change

    def begin(self) -> bool:
        """Send the request. Return False if `run` must continue immediately."""
        plan, call = self.plan, self.call
        if call.charge.estimate_prompt is None:
            begin_charge(call, self._wire, None)
        try:
            outgoing = self._prepare_verbatim() if plan.is_verbatim else self._prepare_translated()
        except (Exception, asyncio.CancelledError) as error:  # `run` raises it, and closes what hooks have opened
            self._failure = error
            return False
        if outgoing is None or outgoing.context is not None or not self.closing.is_empty:
            return False
        response = self._response = upstream.begin_call(call, outgoing)
        if response is None:
            return False
        call.progress.send()
        wheel = plan.wheel
        now = self._begun_at = wheel.loop.time()
        if response.fault is not None:
            return False
        self._slot = wheel.add(now + (plan.stream_seconds if self._is_streamed else plan.seconds), self)
        response.listener = self._on_change
        return True

    def _prepare_verbatim(self) -> UpstreamRequest | None:
        """Run steps 3 and 4 in the verbatim lane. Return None if `run` must continue with their results. Raises GateError."""
        plan, call = self.plan, self.call
        forwarded = self._forwarded = plan.wire_format.invoke_forward_request(call, self._wire)
        if type(forwarded) is not VerbatimRequest or forwarded.slow_start:
            return None
        self._is_streamed = forwarded.stream
        outgoing = self._outgoing = plan.lane.invoke_translate_request(call, forwarded)
        return outgoing if type(outgoing) is UpstreamRequest else None

    def _prepare_translated(self) -> UpstreamRequest | None:
        """Run steps 3 and 4 in the common lane, like `_prepare_verbatim`."""
        plan, call = self.plan, self.call
        alone = call.replace(target=NO_TARGET)  # shares the losses
        request = self._request = plan.wire_format.invoke_translate_request(alone, self._wire)
        if type(request) is not ChatRequest or has_server_tools(request):
            return None
        self._is_streamed = request.stream
        try:
            restored = restore_without_memory(call, request, signatures=plan.provider.capabilities.signatures)
            if restored is None:
                return None
            self._request = restored
            outgoing = self._outgoing = plan.lane.invoke_translate_request(call, restored)
        except (AttributeError, LookupError, TypeError, ValueError):
            return None  # the request is invalid in its format: `run` finds the fault
        return outgoing if type(outgoing) is UpstreamRequest else None

    def finish(self) -> Reply | None:
        """Return the reply if the response has arrived completely or has a `pump`. Return None if `run` must continue."""
        self._stop_waiting()
        response = self._response
        if self._failure is not None or response is None:
            return None
        try:
            if self._is_streamed and self._may_pump():
                stream = upstream.take_stream(self.call, self._outgoing, response)
                if stream is not None:
                    return self._open_stream(stream, response)
            incoming = self._incoming = upstream.take_whole_response(self.call, self._outgoing, response)
            if incoming is None:
                return None
            reply = self._forward(incoming) if self.plan.is_verbatim else self._translate(incoming)
        except (Exception, asyncio.CancelledError) as error:
            self._failure = error
            return None
        return reply

    def _forward(self, incoming: UpstreamResponse) -> Reply | None:
        """Run step 6 in the verbatim lane. Return None if the reply must be read, or objects recorded. Raises GateError."""
        call = self.call
        forwarded: Any = self._forwarded
        reply = self.reply = self.plan.wire_format.forward_response(call, forwarded, incoming)
        if forwarded.issued is not None or type(reply.chunks) is not BufferedBody or not self.closing.is_empty:
            return None
        outcomes.note_success(self._gate.health, call)
        return reply

    def _translate(self, incoming: UpstreamResponse) -> Reply | None:
        """Run step 6 in the common lane, like `_forward`."""
        call, plan, request = self.call, self.plan, self._request
        assert isinstance(request, ChatRequest)
        events = self._events = plan.lane.translate_response(call, request, incoming)
        reply = self.reply = whole_answers.make_reply(
            self._gate, call, plan.wire_format, plan.provider, request, events
        )
        return reply if reply is not None and type(reply.chunks) is BufferedBody and self.closing.is_empty else None

    def _may_pump(self) -> bool:
        """Return whether no chunk of a stream must wait. No wrapper sees the chunks, and the upstream issues no objects."""
        plan = self.plan
        if plan.wire_format.is_wrapped:
            return False
        forwarded: Any = self._forwarded  # a VerbatimRequest, in its lane
        return forwarded.issued is None if plan.is_verbatim else not plan.lane.is_wrapped

    def _open_stream(self, incoming: UpstreamResponse, response: HttpResponse) -> Reply | None:
        """Return the reply for a stream that has begun, with its pump. Return None if its chunks need more than the steps."""
        call, plan, reader = self.call, self.plan, incoming.reader
        forwarded: Any = self._forwarded  # a VerbatimRequest, in its lane
        flow: stages.Flow[bytes] = incoming.chunks  # type: ignore[assignment]  # `take_stream` makes it
        try:
            if plan.is_verbatim:
                reply = plan.wire_format.forward_response(call, forwarded, incoming)
            else:
                reply = self._translate_stream(incoming)
        except BaseException:
            self.closing.callback(upstream.end_answer, response, reader)
            raise
        self.reply = reply
        if reply.chunks is flow and self.closing.is_empty and reply.content_type.startswith("text/event-stream"):
            flow.add_step(metering.OutcomeStep(self._gate.health, call, plan.wire_format))
            # This is not a method, to avoid a reference cycle: this object refers to the pump.
            limit = partial(make_deadlines, call, streaming=True, begun_at=self._begun_at)
            self.pump = StreamPump(flow, response, reader, limit, self._deadlines)
            return reply
        if self._deadlines is None:
            deadlines = self._deadlines = self._make_deadlines()
            deadlines.limit_source(flow, plan.lane.as_plugin_error)
        self.closing.callback(upstream.end_answer, response, reader)
        return None

    def _translate_stream(self, incoming: UpstreamResponse) -> Reply:
        """Run step 6 in the common lane for a stream, like `pipeline.finish_common_lane`."""
        call, plan = self.call, self.plan
        request: Any = self._request  # a ChatRequest
        deadlines = self._deadlines = self._make_deadlines()
        events = translate_response(call, plan.lane, request, incoming, deadlines)
        events = check_response(call, plan.lane, request, events, deadlines)
        return pipeline.translate_events(call, plan.wire_format, plan.provider, request, events)

    def note_begun(self) -> None:
        """Note that the response has begun: the first chunk of a stream was read."""
        note_begun(self._gate.health, self.call, self.load, self.needs)

    def on_timer(self) -> None:
        """Handle a response that has not begun in time. The timer wheel calls this."""
        self._slot = None
        self._failure = self._make_deadlines().make_first_event_error()
        on_change = self._on_change
        self.stop()
        if on_change is not None:
            on_change()

    def stop(self) -> None:
        """Close the connection to the upstream, unless the response is complete."""
        self._stop_waiting()
        if self.pump is not None:
            self.pump.stop()
        elif self._response is not None:
            self._response.close()

    def _stop_waiting(self) -> None:
        self._on_change = None  # it refers to the handler, which refers to this object
        if self._response is not None:
            self._response.listener = None
        if self._slot is not None:
            self.plan.wheel.remove(self._slot, self)
            self._slot = None

    async def run(self) -> PreparedAnswer:
        """Continue the attempt in a task. Raises the errors of `pipeline.answer`."""
        self._stop_waiting()
        try:
            answer = await (self._run() if self.pump is None else self._read_on(self.pump))
        except BaseException as error:
            self._failure = None
            await end_failed(self._gate.health, self.call, error)
            self._gate.admission.note_failure(self.call, error)
            others, has_begun = self.others, self.pump is not None and self.pump.begun
            self.others = None  # it has an iterator that counts a retry until it ends
            if others is None or has_begun or not isinstance(error, GateError) or not error.retryable:
                raise
            if self.load is not None and isinstance(error, UpstreamTimeout):
                self.load.note_latency(self.call.progress.is_streamed)
            others.candidates.failure = error
        else:
            if self.pump is None or not self.pump.begun:
                note_begun(self._gate.health, answer.call, self.load, self.needs)
            return answer
        return await pipeline.answer_elsewhere(self._gate, self.call, self._wire, others)

    async def _read_on(self, pump: StreamPump) -> PreparedAnswer:
        """Continue a stream that its pump has left."""
        reply = self.reply
        assert reply is not None
        self.closing.callback(pump.stop)
        deadlines = pump.limit_task(self.plan.lane.as_plugin_error)
        if not pump.begun:
            reading = pipeline.read_first_chunk(reply, self.plan.wire_format, pump.flow)
            reply = await deadlines.wait_for_first_event(reading)
        return PreparedAnswer(self.call, reply)

    async def _run(self) -> PreparedAnswer:
        if self._failure is not None:
            raise self._failure
        if self._response is None:
            return await self._send()
        call, plan, outgoing, incoming = self.call, self.plan, self._outgoing, self._incoming
        assert isinstance(outgoing, UpstreamRequest)
        deadlines = self._deadlines or self._make_deadlines()
        if incoming is None and self.reply is None:
            incoming = await deadlines.wait_for_first_event(plan.lane.end_call(call, outgoing, self._response))
        finish = self._finish_forwarding if plan.is_verbatim else self._finish_translating
        return PreparedAnswer(call, await finish(incoming, deadlines))

    async def _finish_forwarding(self, incoming: UpstreamResponse | None, deadlines: Deadlines) -> Reply:
        call, wire_format, forwarded, reply = self.call, self.plan.wire_format, self._forwarded, self.reply
        assert isinstance(forwarded, VerbatimRequest)
        if reply is None:
            assert incoming is not None
            reply = pipeline.forward_response(call, wire_format, self.plan.lane, forwarded, incoming, deadlines)
        return await pipeline.finish_forwarding(self._gate, call, wire_format, forwarded, reply, deadlines)

    async def _finish_translating(self, incoming: UpstreamResponse | None, deadlines: Deadlines) -> Reply:
        gate, call, plan, request = self._gate, self.call, self.plan, self._request
        assert isinstance(request, ChatRequest)
        if self.reply is not None:
            if type(self.reply.chunks) is BufferedBody:
                return self.reply
            return await pipeline.finish_reply(gate, call, plan.wire_format, self.reply, deadlines)
        assert incoming is not None
        if self._events is None:
            return await pipeline.finish_common_lane(
                gate, call, plan.wire_format, plan.provider, request, incoming, deadlines
            )
        events = check_response(call, plan.lane, request, self._events, deadlines)
        return await pipeline.finish_events(gate, call, plan.wire_format, plan.provider, request, events, deadlines)

    async def _send(self) -> PreparedAnswer:
        """Continue an attempt that has not been sent."""
        gate, call, plan, forwarded, request = self._gate, self.call, self.plan, self._forwarded, self._request
        once = RequestCache(self._wire, plan.wire_format, gate)
        if forwarded is not None and not isinstance(forwarded, VerbatimRequest):
            forwarded = await forwarded
        if forwarded is not None:
            return await pipeline.run_verbatim_lane(gate, call, once, plan.lane, forwarded, self._outgoing)
        if inspect.isawaitable(request):
            request = await request
        if request is not None and self._outgoing is not None:
            return await pipeline.run_translated(gate, call, plan.wire_format, plan.provider, request, self._outgoing)
        return await pipeline.run_common_lane(gate, call, once, plan.provider, request)

    def _make_deadlines(self) -> Deadlines:
        return make_deadlines(self.call, streaming=self._is_streamed, begun_at=self._begun_at)
