"""The first attempt of a request that has a plan: everything up to the upstream's response without a task, because nothing waits.

`begin` runs steps 3 to 5 of `pipeline.py` as far as none of them waits, and returns when the request is sent. `finish` makes the
reply of a response that has arrived whole. A stream of events gets a `StreamPump`, unless something other than steps processes
its chunks. Whatever needs waiting, and every failure, is left to `run`, a coroutine, which goes on where these have stopped: with
the steps of `pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from tornado_gate.admission.estimates import begin_charge
from tornado_gate.errors import GateError
from tornado_gate.http import upstream
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.pipeline import metering, pipeline
from tornado_gate.pipeline.attempts import end_failed, make_deadlines, note_begun
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.own_links import MARK
from tornado_gate.pipeline.pipeline import PreparedAnswer
from tornado_gate.pipeline.plans import Plan
from tornado_gate.pipeline.request_cache import RequestCache
from tornado_gate.pipeline.stream_pump import StreamPump
from tornado_gate.streams import stages
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.timer_wheel import TimerWheel, get_wheel
from tornado_gate.targets import outcomes
from tornado_gate.targets.candidates import NO_NEEDS
from tornado_gate.types import (
    BufferedBody,
    Call,
    Reply,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.call import LazyExitStack


def may_begin(gate: Gate, plan: Plan, call: Call, wire: WireRequest) -> bool:
    """Return whether a request has no other steps than those of its plan, by its body and by the health of the target."""
    health, target, route, raw = gate.health, plan.target, wire.route, wire.raw
    if health.keys.suspensions or not health.circuits.is_clear(target):
        return False
    if plan.operation == "chat" and b"=" in raw and MARK in raw:
        return False
    if plan.marks and any(mark in raw for mark in plan.marks):
        return False
    if plan.inputs_at_once is not None and raw.count(b",") >= plan.inputs_at_once:
        return False
    return route.references is None or not route.references(call, wire)


class DirectAttempt:
    """The only attempt of `call`, at the target of its plan."""

    __slots__ = (
        "_begun_at",
        "_deadlines",
        "_failure",
        "_forwarded",
        "_gate",
        "_on_change",
        "_outgoing",
        "_response",
        "_slot",
        "_wheel",
        "_wire",
        "call",
        "closing",
        "plan",
        "pump",
        "reply",
    )

    def __init__(
        self,
        gate: Gate,
        plan: Plan,
        call: Call,
        wire: WireRequest,
        closing: LazyExitStack,
        on_change: Callable[[], None],
    ) -> None:
        """`closing` is that of the call.

        `on_change` is called once, after `begin` has returned True: when the upstream has answered, or will not.
        """
        self.plan = plan
        self.call = call
        self._gate = gate
        self.closing = closing
        self._wire = wire
        self._on_change: Callable[[], None] | None = on_change
        self._forwarded: VerbatimRequest | Awaitable[VerbatimRequest | None] | None = None
        self._outgoing: UpstreamRequest | Awaitable[UpstreamRequest] | None = None
        self._response: HttpResponse | None = None
        self._deadlines: Deadlines | None = None
        self.pump: StreamPump | None = None
        self.reply: Reply | None = None
        self._failure: GateError | None = None
        self._begun_at: float | None = None
        self._slot: int | None = None
        self._wheel: TimerWheel | None = None

    def begin(self) -> bool:
        """Send the request. Return False if `run` must go on immediately."""
        plan, call = self.plan, self.call
        begin_charge(call, self._wire, None)
        if not plan.is_verbatim:
            return False
        try:
            forwarded = self._forwarded = plan.wire_format.invoke_forward_request(call, self._wire)
            if type(forwarded) is not VerbatimRequest or forwarded.slow_start:
                return False
            outgoing = self._outgoing = plan.lane.invoke_translate_request(call, forwarded)
        except GateError as error:
            self._failure = error
            return False
        if type(outgoing) is not UpstreamRequest or outgoing.context is not None or not self.closing.is_empty:
            return False
        response = self._response = upstream.begin_call(call, outgoing)
        if response is None:
            return False
        call.progress.send()
        wheel = self._wheel = get_wheel()
        now = self._begun_at = wheel.loop.time()
        if response.fault is not None:
            return False
        self._slot = wheel.add(now + (plan.stream_seconds if forwarded.stream else plan.seconds), self)
        response.listener = self._on_change
        return True

    def finish(self) -> Reply | None:
        """Return the reply if the response has arrived whole, or has a `pump`. Return None if `run` must go on."""
        self._stop_waiting()
        call, forwarded, outgoing, response = self.call, self._forwarded, self._outgoing, self._response
        if self._failure is not None or response is None:
            return None
        assert isinstance(forwarded, VerbatimRequest)
        assert isinstance(outgoing, UpstreamRequest)
        try:
            if forwarded.stream and self._may_pump(forwarded):
                incoming = upstream.take_stream(call, outgoing, response)
                if incoming is not None:
                    return self._open_stream(forwarded, incoming, response)
            incoming = upstream.take_whole_response(call, outgoing, response)
            if incoming is None:
                return None
            reply = self.plan.wire_format.forward_response(call, forwarded, incoming)
        except GateError as error:
            self._failure = error
            return None
        if forwarded.issued is not None or type(reply.chunks) is not BufferedBody or not self.closing.is_empty:
            self.reply = reply
            return None
        outcomes.note_success(self._gate.health, call)
        return reply

    def _may_pump(self, forwarded: VerbatimRequest) -> bool:
        """Return whether the chunks of a stream need no wait: no wrapper sees them, and the upstream issues no objects."""
        return forwarded.issued is None and not self.plan.wire_format.is_wrapped

    def _open_stream(
        self, forwarded: VerbatimRequest, incoming: UpstreamResponse, response: HttpResponse
    ) -> Reply | None:
        """Return the reply for a stream that has begun, with its pump. Return None if its chunks have other parts than steps."""
        call, plan, reader, flow = self.call, self.plan, incoming.reader, incoming.chunks
        assert isinstance(flow, stages.Flow)
        try:
            reply = plan.wire_format.forward_response(call, forwarded, incoming)
        except GateError:
            self.closing.callback(upstream.end_answer, response, reader)
            raise
        self.reply = reply
        if reply.chunks is flow and self.closing.is_empty and reply.content_type.startswith("text/event-stream"):
            flow.add_step(metering.OutcomeStep(self._gate.health, call, plan.wire_format))
            # Not a method: it would refer to this object, which refers to the pump.
            limit = partial(make_deadlines, call, streaming=True, begun_at=self._begun_at)
            self.pump = StreamPump(flow, response, reader, limit)
            return reply
        deadlines = self._deadlines = self._make_deadlines()
        deadlines.limit_source(flow, plan.lane.as_plugin_error)
        self.closing.callback(upstream.end_answer, response, reader)
        return None

    def note_begun(self) -> None:
        """The first chunk of the stream was read."""
        note_begun(self._gate.health, self.call, None, NO_NEEDS)

    def on_timer(self) -> None:
        """The response has not begun in time. The timer wheel calls this."""
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
        if self._slot is not None and self._wheel is not None:
            self._wheel.remove(self._slot, self)
            self._slot = None

    async def run(self) -> PreparedAnswer:
        """Go on with the attempt, in a task. Raises as `pipeline.answer`."""
        self._stop_waiting()
        try:
            answer = await (self._run() if self.pump is None else self._read_on(self.pump))
        except BaseException as error:
            self._failure = None
            await end_failed(self._gate.health, self.call, error)
            raise
        if self.pump is None or not self.pump.begun:
            note_begun(self._gate.health, answer.call, None, NO_NEEDS)
        return answer

    async def _read_on(self, pump: StreamPump) -> PreparedAnswer:
        """Go on with a stream that its pump has left."""
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
        gate, call, plan, forwarded, outgoing = self._gate, self.call, self.plan, self._forwarded, self._outgoing
        if self._response is None:
            once = RequestCache(self._wire, plan.wire_format, gate)
            if forwarded is not None and not isinstance(forwarded, VerbatimRequest):
                forwarded = await forwarded
            if forwarded is None:
                return await pipeline.run_common_lane(gate, call, once, plan.provider)
            return await pipeline.run_verbatim_lane(gate, call, once, plan.lane, forwarded, outgoing)
        assert isinstance(forwarded, VerbatimRequest)
        assert isinstance(outgoing, UpstreamRequest)
        deadlines = self._deadlines or self._make_deadlines()
        if self.reply is not None:
            reply = await pipeline.finish_forwarding(gate, call, plan.wire_format, forwarded, self.reply, deadlines)
            return PreparedAnswer(call, reply)
        ending = plan.lane.end_call(call, outgoing, self._response)
        incoming = await deadlines.wait_for_first_event(ending)
        return PreparedAnswer(
            call,
            await pipeline.forward_response(gate, call, plan.wire_format, plan.lane, forwarded, incoming, deadlines),
        )

    def _make_deadlines(self) -> Deadlines:
        is_streamed = isinstance(self._forwarded, VerbatimRequest) and self._forwarded.stream
        return make_deadlines(self.call, streaming=is_streamed, begun_at=self._begun_at)
