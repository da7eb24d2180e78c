"""Calls to other models of the gateway in the common vocabulary, for a provider that is composed of several models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from tornado_gate.gateway.attempts import call_provider, try_targets
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import close
from tornado_gate.types import Call, Meter, Request, StreamEvent, Usage, UsageReport
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
            call = replace(
                self._call, model=model, operation=operation, losses=[], meter=Meter(), strict=False, closing=closing
            )
            first, rest = await try_targets(
                self._gate, self._snapshot, call, (operation,), partial(_begin_events, request)
            )
            usage = _find_usage(first)
            try:
                yield first
                async for event in rest:
                    usage = _find_usage(event) or usage
                    yield event
            finally:
                await close(rest)
                if usage is not None and usage.total_tokens:
                    self._gate.limits.count_tokens(call.caller, usage.total_tokens)


async def _begin_events(
    request: Request, call: Call, provider: ConfiguredProvider
) -> tuple[StreamEvent, AsyncIterator[StreamEvent]]:
    """Call one target. Returns its first event and the rest; an error before the first event allows another target."""
    streaming = bool(getattr(request, "stream", False))
    deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=streaming)
    events = await call_provider(call, provider.usable_lane, request, deadlines)
    try:
        return await anext(events), events
    except BaseException:
        await close(events)
        raise


def _find_usage(event: StreamEvent) -> Usage | None:
    return event.usage if isinstance(event, UsageReport) else getattr(event, "usage", None)


def add_inner_models(gate: Gate, snapshot: Snapshot, call: Call) -> Call:
    """The call with `inner`, through which a provider calls other models of the gateway."""
    return replace(call, inner=InnerModels(gate, snapshot, call))
