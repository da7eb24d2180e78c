"""A realtime session begins: the model is found, and a provider connected, while HTTP can still say what is wrong."""

from __future__ import annotations

from functools import partial

from tornado_gate.errors import NotAllowed
from tornado_gate.gateway import auth
from tornado_gate.gateway.attempts import try_targets
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.realtime.inner_models import add_inner_models
from tornado_gate.realtime.sessions import ClientSecretClaims, ClientSecrets
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.types import (
    Call,
    Caller,
    ClientSecret,
    ClientSecretRequest,
    RealtimeAdapter,
    Socket,
    Target,
    Timeouts,
)
from tornado_gate.types.call import LazyExitStack
from tornado_gate.types.value import replace

OPERATION = "realtime"


async def connect(gate: Gate, snapshot: Snapshot, call: Call, side: RealtimeAdapter) -> tuple[Call, Socket]:
    """The call with its target, and the provider's end. Raises the GateError that answers the handshake.

    Targets are tried in order of preference, as for any request; what was opened is closed by ``call.closing``.
    """
    closing = LazyExitStack()  # of the attempts alone
    attempts = replace(call, closing=closing)
    connected = await try_targets(gate, snapshot, attempts, (OPERATION,), partial(_open, gate, snapshot, side))
    call.closing.push_async_exit(closing)  # not earlier: a caller who leaves meanwhile has had `call.closing` closed
    return connected


async def _open(
    gate: Gate, snapshot: Snapshot, side: RealtimeAdapter, call: Call, provider: ConfiguredProvider
) -> tuple[Call, Socket]:
    call = add_inner_models(gate, snapshot, call)
    lane = provider.usable_lane
    deadlines = Deadlines(_limit_handshake(call.target), call.target.provider, streaming=False)
    outgoing = await deadlines.wait_for_first_event(lane.translate_request(call, side.request))
    return call, await deadlines.wait_for_first_event(lane.open_socket(call, outgoing))


def _limit_handshake(target: Target) -> Timeouts:
    return replace(target.timeouts, total=min(target.timeouts.total, target.timeouts.first_event))


async def make_client_secret(
    secrets: ClientSecrets, snapshot: Snapshot, call: Call, request: ClientSecretRequest
) -> ClientSecret:
    """A short-lived key of the caller's for one model. Raises UnknownModel, NotAllowed, UnsupportedOperation."""
    auth.filter_operations(call.caller, (OPERATION,))
    snapshot.select_targets(replace(call, model=request.model, operation=OPERATION), (OPERATION,))
    if not call.key_digest:
        raise NotAllowed("A client secret cannot make another one; use an API key.")
    return await secrets.make(request, call.key_digest)


async def authenticate_secret(gate: Gate, secrets: ClientSecrets, value: str) -> tuple[Caller, ClientSecretClaims]:
    """Who a client secret was made for, and for what. Raises AuthenticationFailed."""
    held = await secrets.find(value)
    if held is None:
        raise auth.unknown_key_error()
    return await gate.authenticate_digest(held.key_digest), held
