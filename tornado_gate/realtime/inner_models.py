"""Calls to other models of the gateway in the common vocabulary, for a provider that is composed of several models."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Final

from tornado_gate.admission.estimates import estimate_prompt_tokens
from tornado_gate.errors import GateError
from tornado_gate.guards.decisions import review_inner_request
from tornado_gate.ledger.entries import select_headers
from tornado_gate.pipeline.attempts import call_provider, make_deadlines, try_targets
from tornado_gate.pipeline.calls import make_inner_call
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.metering import MeterStep
from tornado_gate.pipeline.observers import tell_observers
from tornado_gate.pipeline.pricing import record_usage
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.streams.events import close
from tornado_gate.streams.stages import add_step
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.outcomes import note_end
from tornado_gate.telemetry.entries import Entry, find_outcome
from tornado_gate.types import (
    Call,
    ChatRequest,
    Request,
    SpeechRequest,
    StreamEvent,
    Text,
)
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import State, field, replace

CALLER_LEFT: Final = 499


class InnerModels:
    """The value of `call.inner`. The caller's key must allow the models, and their usage counts towards its limits."""

    def __init__(self, gate: Gate, snapshot: Snapshot, call: Call) -> None:
        self._gate = gate
        self._snapshot = snapshot
        self._call = call

    async def ask(self, model: str, operation: str, request: Request) -> AsyncIterator[StreamEvent]:
        """Call `model` and yield the events of its response. Try targets in order; raise the GateError of the last one."""
        self._call.charge.count_elsewhere()
        async with LazyExitStack() as closing:
            call = make_inner_call(self._call, model, operation, closing)
            _begin_charge(call, request)
            ending = _Ending()
            try:
                async with aclosing(self._call_model(call, operation, request, ending)) as events:
                    async for event in events:
                        yield event
                ending.status = 200
            except GateError as error:
                ending.status, ending.error_code = error.status, error.code
                call.progress.note_error(error)
                raise
            finally:
                self._record(call, ending)

    async def _call_model(
        self, call: Call, operation: str, request: Request, ending: _Ending
    ) -> AsyncGenerator[StreamEvent]:
        if self._snapshot.guards.lanes:
            request = await review_inner_request(self._gate.guarding, self._snapshot.guards, self._call, call, request)
        call, first, rest = await try_targets(
            self._gate, self._snapshot, call, (operation,), partial(_begin_events, request)
        )
        ending.has_begun = True
        try:
            yield first
            async for event in rest:
                yield event
            note_end(self._gate.health, call, call.meter.late_error)
        except GateError as error:
            note_end(self._gate.health, call, error)
            raise
        finally:
            await close(rest)

    def _record(self, call: Call, ending: _Ending) -> None:
        """Add the call to the ledger: it has a separate row, with the id of the caller's request."""
        error_code = ending.error_code or call.progress.error_code
        outcome = find_outcome(ending.status, error_code)
        if not ending.status:
            outcome = "aborted"
        elif ending.has_begun and error_code:
            outcome = "broken"
        milliseconds = (time.monotonic() - ending.started) * 1000
        if call.additions.observers is not None:
            tell_observers(call, ending.status or CALLER_LEFT, error_code, outcome, milliseconds / 1000)
        record_usage(
            self._gate.admission,
            self._gate.ledger,
            Entry(
                time.time_ns() // 1000,
                call.id,
                call.caller,
                call.progress.target,
                call.model,
                call.operation,
                call.format,
                ending.status or CALLER_LEFT,
                error_code,
                outcome,
                call.meter,
                call.progress,
                call.charge,
                milliseconds,
                select_headers(call.headers),
                prices=self._snapshot.prices,
            ),
        )


class _Ending(State):
    """The end of a call. `status` 0: its caller has left."""

    status: int = 0
    error_code: str = ""
    has_begun: bool = False
    started: float = field(default_factory=time.monotonic)


def _begin_charge(call: Call, request: Request) -> None:
    """Prepare an inner call for the case that its upstream does not report what it used."""
    if isinstance(request, ChatRequest):
        texts = [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
        call.charge.expect(partial(estimate_prompt_tokens, texts), None)
        call.meter.measure_text(is_measured=True)
    elif isinstance(request, SpeechRequest):
        call.meter.record_characters(len(request.text))


async def _begin_events(
    request: Request, call: Call, provider: ConfiguredProvider
) -> tuple[Call, StreamEvent, AsyncIterator[StreamEvent]]:
    """Call one target. Return the call, its first event and the remaining ones; an earlier error allows another target."""
    deadlines = make_deadlines(call, streaming=bool(getattr(request, "stream", False)))
    provider.usable_lane.check_unseen_request(call)
    events = add_step(await call_provider(call, provider.usable_lane, request, deadlines), MeterStep(call.meter))
    try:
        return call, await anext(events), events
    except BaseException:
        await close(events)
        raise


def add_inner_models(gate: Gate, snapshot: Snapshot, call: Call) -> Call:
    """Return the call with `inner`, through which a provider calls other models of the gateway."""
    return replace(call, inner=InnerModels(gate, snapshot, call))
