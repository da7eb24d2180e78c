"""A realtime session begins: the model is found, and a provider connected, while HTTP can still say what is wrong."""

from __future__ import annotations

from contextlib import AsyncExitStack

from tornado_gate.errors import GateError, NotAllowed, Unavailable
from tornado_gate.gateway import auth
from tornado_gate.gateway.circuits import circuit_name
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.snapshot import ProviderInUse, Snapshot
from tornado_gate.realtime.inner_models import with_inner
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.types import Call, ClientSecret, ClientSecretRequest, RealtimeSide, Socket, Target, Timeouts
from tornado_gate.types.value import replace

OPERATION = "realtime"


async def connect(gate: Gate, snapshot: Snapshot, call: Call, side: RealtimeSide) -> tuple[Call, Socket]:
    """The call with its target, and the provider's end. Raises the GateError that answers the handshake.

    Targets are tried in order of preference, as for any request; what was opened is closed by ``call.closing``.
    """
    targets = snapshot.targets(call, (OPERATION,))
    failure: GateError | None = None
    for target, provider in targets:
        name = circuit_name(target)
        if not gate.health.allows(name):
            continue
        call.meter.attempts += 1
        try:
            connected = await _attempt(gate, snapshot, replace(call, target=target), provider, side)
        except GateError as error:
            if not error.retryable:
                gate.health.released(name)
                raise
            gate.note_failure(name, error)
            failure = error
            continue
        except BaseException:
            gate.health.released(name)
            raise
        gate.health.succeeded(name)
        return connected
    raise failure or Unavailable(f"Every target of the model '{call.model}' is out of order; try again in a while.")


async def _attempt(
    gate: Gate, snapshot: Snapshot, call: Call, provider: ProviderInUse, side: RealtimeSide
) -> tuple[Call, Socket]:
    async with AsyncExitStack() as closing:
        attempt = with_inner(gate, snapshot, replace(call, closing=closing, pool=gate.pool(provider)))
        lane = provider.working
        deadlines = Deadlines(_handshake(call.target), call.target.provider, streaming=False)
        outgoing = await deadlines.first(lane.translate_request(attempt, side.request))
        socket = await deadlines.first(lane.open_socket(attempt, outgoing))
        call.closing.push_async_exit(closing.pop_all())
        return with_inner(gate, snapshot, replace(call, pool=attempt.pool)), socket  # `attempt` would hold its stack


def _handshake(target: Target) -> Timeouts:
    return replace(target.timeouts, total=min(target.timeouts.total, target.timeouts.first_event))


async def client_secret(gate: Gate, snapshot: Snapshot, call: Call, request: ClientSecretRequest) -> ClientSecret:
    """A short-lived key of the caller's for one model. Raises UnknownModel, NotAllowed, UnsupportedOperation."""
    auth.allowed_operations(call.caller, (OPERATION,))
    snapshot.targets(replace(call, model=request.model, operation=OPERATION), (OPERATION,))
    if not call.key_digest:
        raise NotAllowed("A client secret cannot make another one; use an API key.")
    return await gate.secrets.make(request, call.key_digest)
