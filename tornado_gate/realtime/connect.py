"""The connection of a realtime session to a provider before the upgrade, so that errors are HTTP responses; client secrets."""

from __future__ import annotations

from functools import partial

from tornado_gate.errors import NotAllowed
from tornado_gate.pipeline import auth
from tornado_gate.pipeline.attempts import try_targets
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.realtime.client_secrets import ClientSecretClaims, ClientSecrets
from tornado_gate.realtime.inner_models import add_inner_models
from tornado_gate.realtime.sessions import OPERATION
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.outcomes import note_success
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


async def connect(gate: Gate, snapshot: Snapshot, call: Call, side: RealtimeAdapter) -> tuple[Call, Socket]:
    """Connect to a provider. Return the call with its target, and the provider's socket. Raises the last target's GateError.

    Targets are tried in order, as for other requests. ``call.closing`` closes the resources that were opened.
    """
    closing = LazyExitStack()  # used for the attempts only
    attempts = replace(call, closing=closing)
    connected = await try_targets(gate, snapshot, attempts, (OPERATION,), partial(_open, gate, snapshot, side))
    note_success(gate.health, connected[0])
    call.closing.push_async_exit(closing)  # only now: `call.closing` is closed if the caller has disconnected
    return connected


async def _open(
    gate: Gate, snapshot: Snapshot, side: RealtimeAdapter, call: Call, provider: ConfiguredProvider
) -> tuple[Call, Socket]:
    call = add_inner_models(gate, snapshot, call)
    lane = provider.usable_lane
    deadlines = Deadlines(_limit_handshake(call.target), call.target.provider, streaming=False, slow_start=True)
    outgoing = await deadlines.wait_for_first_event(lane.translate_request(call, side.request))
    return call, await deadlines.wait_for_first_event(lane.open_socket(call, outgoing))


def _limit_handshake(target: Target) -> Timeouts:
    return replace(target.timeouts, total=min(target.timeouts.total, target.timeouts.first_event))


async def make_client_secret(
    secrets: ClientSecrets, snapshot: Snapshot, call: Call, request: ClientSecretRequest
) -> ClientSecret:
    """Create a short-lived key for one model from the caller's key. Raises GateError."""
    auth.filter_operations(call.caller, (OPERATION,))
    snapshot.targets.select_targets(replace(call, model=request.model, operation=OPERATION), (OPERATION,))
    if not call.key_digest:
        raise NotAllowed("A client secret cannot create another client secret. Use an API key.")
    return await secrets.make(request, call.caller.account, call.key_digest)


async def authenticate_secret(gate: Gate, secrets: ClientSecrets, value: str) -> tuple[Caller, ClientSecretClaims]:
    """Return the caller whose key created a client secret, and the claims of the secret. Raises AuthenticationFailed."""
    held = await secrets.find_claims(value)
    if held is None:
        raise auth.unknown_key_error()
    return await gate.callers.authenticate_digest(held.key_digest), held
