"""Explains or checks a request without sending it: the targets and why, the upstream request with secrets masked, and losses.

Addresses of upstreams are shown to administrators only: they may be internal.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from tornado_gate.gateway import auth, server_tool_parts, signatures, token_counts, upstream_objects
from tornado_gate.gateway.attempts import choose_target
from tornado_gate.gateway.body_budget import SMALL_BYTES
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.pipeline import RequestCache, prepare_verbatim_request
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.telemetry.redaction import MASK
from tornado_gate.types import Call, Target, UpstreamRequest, WireRequest
from tornado_gate.types.value import Value, replace

_SHOWN_HEADERS = re.compile(r"content-type|accept|accept-encoding|[a-z]+-(?:version|beta)", re.IGNORECASE)
"""Headers that contain no secret: content types, and versions of a vendor's API."""


class _Attempt(Value, frozen=True):
    """The target that would be tried first, of `targets`; `call` has the model and the operation."""

    call: Call
    target: Target
    provider: ConfiguredProvider
    targets: tuple[Target, ...]


async def check_request(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> Call:
    """Check a request without sending it. Returns the call with its target and its losses.

    Raises the GateError that its caller would get before the upstream is called.
    """
    attempt = await _find_attempt(
        gate, snapshot, snapshot.for_model(call, snapshot.resolve_model_name(wire, call.caller)), wire
    )
    call = replace(attempt.call, target=attempt.target, losses=[])
    call.meter.model, call.meter.target = call.model, call.target
    await _translate(call, RequestCache(wire, snapshot.formats[call.format], gate), attempt.provider)
    return call


async def _find_attempt(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> _Attempt:
    operations = auth.filter_operations(call.caller, wire.route.operations)
    targets = snapshot.select_targets(call, operations)
    if references := upstream_objects.list_references(call, wire):
        targets = (await upstream_objects.find_access(call, wire, references)).select_targets(targets)
    target, provider = choose_target(gate, call, targets)
    call = replace(call, operation=target.first_supported_operation(operations))
    return _Attempt(call, target, provider, tuple(found for found, _ in targets))


async def _translate(call: Call, once: RequestCache, provider: ConfiguredProvider) -> tuple[UpstreamRequest, bool]:
    """The upstream request, and whether it is forwarded verbatim; the losses are added to `call`."""
    verbatim = await prepare_verbatim_request(call, provider, once)
    if verbatim is not None:
        return await once.run_hook(provider.usable_lane.invoke_translate_request, call, verbatim), True
    request = await once.request(call)
    request = await signatures.restore_signatures(call, request, signatures=provider.capabilities.signatures)
    if server_tool_parts.has_server_tools(request):
        request = await server_tool_parts.restore_parts(call, request)
    return await once.run_hook(provider.usable_lane.invoke_translate_request, call, request), False


async def explain(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> dict[str, Any]:
    """The explanation of `wire` as JSON values. Raises the GateError that its caller would get before the upstream is called."""
    wire_format = snapshot.formats[call.format]
    if wire.route.model == "none":
        return {"operation": call.operation, "format": call.format, "answered_by": "the gateway itself"}
    call = snapshot.for_model(call, snapshot.resolve_model_name(wire, call.caller))
    auth.filter_operations(call.caller, wire.route.operations)
    if token_counts.must_estimate(snapshot, call):
        by = "the gateway itself, with an estimate: no target of the model counts tokens"
        return {"operation": call.operation, "format": call.format, "model": call.model, "answered_by": by}
    attempt = await _find_attempt(gate, snapshot, call, wire)
    call = attempt.call
    return {
        **_describe_choice(gate, call, attempt.targets),
        **await _explain_attempt(call, RequestCache(wire, wire_format, gate), attempt.target, attempt.provider),
        "limits": await gate.admission.describe_limits(snapshot, call, attempt.target),
    }


async def explain_choice(gate: Gate, snapshot: Snapshot, call: Call) -> dict[str, Any]:
    """As `explain`, without a body: which target a request for the model and operation of `call` gets now, and why.

    Raises the GateError that its caller would get before the body is looked at.
    """
    operations = auth.filter_operations(call.caller, (call.operation,))
    call = snapshot.for_model(call, call.model)
    targets = snapshot.select_targets(call, operations)
    target, _ = choose_target(gate, call, targets)
    return {
        **_describe_choice(gate, call, tuple(found for found, _ in targets)),
        "target": {"provider": target.provider, "model": target.upstream_model},
        "limits": await gate.admission.describe_limits(snapshot, call, target),
    }


def _describe_choice(gate: Gate, call: Call, targets: tuple[Target, ...]) -> dict[str, Any]:
    return {
        "operation": call.operation,
        "format": call.format,
        "model": call.model,
        "entry": targets[0].model,
        "targets": [_describe_target(gate, call, candidate) for candidate in targets],
        "why": "the first target whose circuit is closed, in a random order by weight, then fallback models",
    }


def _describe_target(gate: Gate, call: Call, target: Target) -> dict[str, Any]:
    circuit = gate.health.find(target)
    state = "closed" if circuit is None else circuit.state(call.caller.account, gate.health.clock())
    return {"provider": target.provider, "model": target.upstream_model, "entry": target.model, "circuit": state}


async def _explain_attempt(
    call: Call, once: RequestCache, target: Target, provider: ConfiguredProvider
) -> dict[str, Any]:
    call = replace(call, target=target, losses=[])
    outgoing, verbatim = await _translate(call, once, provider)
    return {
        "target": {"provider": target.provider, "model": target.upstream_model},
        "lane": "verbatim" if verbatim else "translated",
        "upstream": _describe_request(
            outgoing, target, with_address=auth.is_administrator(call.caller), with_body=not once.is_large
        ),
        "losses": call.losses,
    }


def _describe_request(
    outgoing: UpstreamRequest, target: Target, *, with_address: bool, with_body: bool
) -> dict[str, Any] | None:
    """The upstream request with its secrets masked; None for a provider that sends none. A large body is not shown."""
    if not outgoing.url:
        return None
    headers = {name: value if _SHOWN_HEADERS.fullmatch(name) else MASK for name, value in outgoing.headers.items()}
    body: Any = outgoing.json
    if not with_body:
        body = f"not shown, because the request's body is longer than {SMALL_BYTES} bytes"
    elif isinstance(outgoing.body, bytes):
        try:
            body = orjson.loads(outgoing.body)
        except orjson.JSONDecodeError:
            body = f"{len(outgoing.body)} bytes"
    elif outgoing.body is not None:
        body = f"a form of {outgoing.body.length} bytes"
    described = {"method": outgoing.method, "headers": headers, "body": body}
    if with_address:
        described["url"] = outgoing.url.replace(target.api_key, MASK) if target.api_key else outgoing.url
    return described
