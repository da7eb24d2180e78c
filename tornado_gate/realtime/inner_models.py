"""Other models of the gateway, for a provider that is made of them: asked as its caller could, in the common vocabulary."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from tornado_gate.errors import GateError, Unavailable
from tornado_gate.gateway.circuits import circuit_name
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.provider_call import asked
from tornado_gate.gateway.snapshot import ProviderInUse, Snapshot
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import close
from tornado_gate.types import Call, Meter, Request, StreamEvent, Usage, UsageReport
from tornado_gate.types.value import replace


class InnerModels:
    """What `call.inner` is. The caller's key must be allowed to use the models, and what they take is counted against it."""

    def __init__(self, gate: Gate, snapshot: Snapshot, call: Call) -> None:
        self._gate = gate
        self._snapshot = snapshot
        self._call = call

    async def ask(self, model: str, operation: str, request: Request) -> AsyncIterator[StreamEvent]:
        """The events of an answer. Raises the GateError that a caller of `model` would get; targets are tried in order."""
        call = replace(self._call, model=model, operation=operation, losses=[], meter=Meter(), strict=False)
        self._call.meter.charged = True
        failure: GateError | None = None
        for target, provider in self._snapshot.targets(call, (operation,)):
            name = circuit_name(target)
            if not self._gate.health.allows(name):
                continue
            spoken = False
            try:
                async for event in self._events(replace(call, target=target), provider, request):
                    if not spoken:
                        spoken = True
                        self._gate.health.succeeded(name)
                    yield event
                return
            except GateError as error:
                if spoken:
                    raise
                if not error.retryable:
                    self._gate.health.released(name)
                    raise
                self._gate.note_failure(name, error)
                failure = error
            except BaseException:
                if not spoken:
                    self._gate.health.released(name)
                raise
        raise failure or Unavailable(f"Every target of the model '{model}' is out of order; try again in a while.")

    async def _events(self, call: Call, provider: ProviderInUse, request: Request) -> AsyncIterator[StreamEvent]:
        streaming = bool(getattr(request, "stream", False))
        async with AsyncExitStack() as closing:
            call = replace(call, closing=closing, pool=self._gate.pool(provider))
            deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=streaming)
            events = await asked(call, provider.working, request, deadlines)
            usage: Usage | None = None
            try:
                async for event in events:
                    usage = event.usage if isinstance(event, UsageReport) else getattr(event, "usage", None) or usage
                    yield event
            finally:
                await close(events)
                if usage is not None and usage.total_tokens:
                    self._gate.limits.spent(call.caller, usage.total_tokens)


def with_inner(gate: Gate, snapshot: Snapshot, call: Call) -> Call:
    """The call, from which other models of the gateway can be asked."""
    return replace(call, inner=InnerModels(gate, snapshot, call))
