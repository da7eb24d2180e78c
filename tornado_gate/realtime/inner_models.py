"""Calls to other models of the gateway in the common vocabulary, for a provider that is composed of several models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from tornado_gate.errors import GateError
from tornado_gate.gateway.attempts import call_provider, make_deadlines, try_targets
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.metering import MeterStep
from tornado_gate.gateway.outcomes import note_end
from tornado_gate.gateway.rate_limits import estimate_prompt_tokens
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.streams.events import close
from tornado_gate.streams.stages import add_step
from tornado_gate.types import Call, ChatRequest, Meter, Request, StreamEvent, Text
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import replace


class InnerModels:
    """The value of `call.inner`. The caller's key must allow the models, and their usage counts towards its limits."""

    def __init__(self, gate: Gate, snapshot: Snapshot, call: Call) -> None:
        self._gate = gate
        self._snapshot = snapshot
        self._call = call

    async def ask(self, model: str, operation: str, request: Request) -> AsyncIterator[StreamEvent]:
        """Call `model` and yield the events of its response. Tries targets in order; raises the GateError of the last one."""
        self._call.meter.charged = True
        async with LazyExitStack() as closing:
            meter = Meter()
            if isinstance(request, ChatRequest):
                texts = [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
                meter.estimate_prompt = partial(estimate_prompt_tokens, texts)
            call = replace(
                self._call, model=model, operation=operation, losses=[], meter=meter, strict=False, closing=closing
            )
            call, first, rest = await try_targets(
                self._gate, self._snapshot, call, (operation,), partial(_begin_events, request)
            )
            try:
                yield first
                async for event in rest:
                    yield event
                note_end(self._gate, call, call.meter.late_error)
            except GateError as error:
                note_end(self._gate, call, error)
                raise
            finally:
                await close(rest)
                self._gate.limits.charge(call.caller, call.meter)


async def _begin_events(
    request: Request, call: Call, provider: ConfiguredProvider
) -> tuple[Call, StreamEvent, AsyncIterator[StreamEvent]]:
    """Call one target. Returns the call, its first event and the rest; an error before that allows another target."""
    deadlines = make_deadlines(call, streaming=bool(getattr(request, "stream", False)))
    provider.usable_lane.check_unseen_request(call)
    events = add_step(await call_provider(call, provider.usable_lane, request, deadlines), MeterStep(call.meter))
    try:
        return call, await anext(events), events
    except BaseException:
        await close(events)
        raise


def add_inner_models(gate: Gate, snapshot: Snapshot, call: Call) -> Call:
    """The call with `inner`, through which a provider calls other models of the gateway."""
    return replace(call, inner=InnerModels(gate, snapshot, call))
