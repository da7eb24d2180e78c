"""Explanations and checks of requests that are not sent.

An explanation shows the targets and the reasons for them, the upstream request with its secrets masked, and the losses. Only
administrators of the whole gateway see the addresses of upstreams, because these may be internal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.admission.estimates import Estimate
from tornado_gate.codec.secret_words import MASK, mask_address
from tornado_gate.errors import RateLimited
from tornado_gate.pipeline import auth, server_tool_parts, signatures, token_counts
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.pipeline import estimate_usage, find_needs, prepare_verbatim_request
from tornado_gate.pipeline.request_cache import RequestCache
from tornado_gate.pipeline.reviews import review_alone
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.targets import outcomes
from tornado_gate.targets.candidates import NO_NEEDS, Candidates, Needs, make_unavailable, select_candidates
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.table import Candidate
from tornado_gate.types import Call, Charge, Target, UpstreamRequest, WireRequest
from tornado_gate.types.value import Value, replace

_SHOWN_HEADERS = re.compile(r"content-type|accept|accept-encoding|[a-z]+-(?:version|beta)", re.IGNORECASE)
"""Headers that contain no secret: content types, and versions of a vendor's API."""


class _Choice(Value, frozen=True):
    """The target that a request is sent to first. `refusal` is the error of the limits that refuse the request, else None."""

    target: Target
    provider: ConfiguredProvider
    is_last_resort: bool
    refusal: RateLimited | None = None


class _Attempt(Value, frozen=True):
    """The chosen target among `targets`, and the reason for it. `call` has the model and the operation."""

    call: Call
    choice: _Choice
    targets: tuple[Target, ...]
    why: str


async def check_request(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> Call:
    """Check a request without sending it. Return the call with its target and its losses.

    Raises the GateError that the caller gets before the upstream is called.
    """
    unreviewed: Sequence[str] = ()
    if snapshot.guards.lanes:
        wire, unreviewed = await review_alone(gate, snapshot, call, wire)
    call = snapshot.targets.for_model(call, resolve_model_name(snapshot.config.defaults, wire, call.caller))
    once = RequestCache(wire, snapshot.formats[call.format], gate)
    attempt = await _find_attempt(gate, snapshot, call, once)
    call = replace(attempt.call, target=attempt.choice.target, losses=[])
    call.progress.explain(call.model, call.target)
    await _translate(call, once, attempt.choice.provider)
    call.losses.extend(unreviewed)
    return call


async def _find_attempt(gate: Gate, snapshot: Snapshot, call: Call, once: RequestCache) -> _Attempt:
    operations = auth.filter_operations(call.caller, once.wire.route.operations)
    needs = await find_needs(snapshot.targets, call, operations, once)
    targets = select_candidates(gate.health, snapshot.targets, call, operations, needs)
    estimate = None
    if gate.admission.needs_estimate(call):
        estimate = await estimate_usage(gate, call, operations, once)
    choice = await _choose(gate, snapshot, call, targets, needs, estimate)
    call = replace(call, operation=choice.target.first_supported_operation(operations))
    why = _explain_order(snapshot, call, targets, needs, is_last_resort=choice.is_last_resort)
    return _Attempt(call, choice, tuple(target for target, _ in targets), why)


async def _choose(
    gate: Gate,
    snapshot: Snapshot,
    call: Call,
    targets: Sequence[Candidate],
    needs: Needs = NO_NEEDS,
    estimate: Estimate | None = None,
) -> _Choice:
    """Return the target that a request is sent to first, or the first target with the error of the limits that refuse it.

    A target that has reached its own limits is skipped. Nothing is reserved. Raises Unavailable.
    """
    admission, first, refusal = gate.admission.make_trial(), None, None
    while (choice := _find_first(gate, snapshot, call, targets, needs)) is not None:
        first, target = first or choice, choice.target
        try:
            refused = await admission.enter(snapshot.prices, replace(call, charge=Charge()), target, estimate)
        except RateLimited as error:  # another target does not help
            return replace(first, refusal=error)
        if refused is None:
            return choice
        refusal = refusal or refused
        targets = [other for other in targets if (other[0].place, other[0].model) != (target.place, target.model)]
    if first is None:
        raise make_unavailable(gate.health, call, targets)
    return replace(first, refusal=refusal)


def _find_first(
    gate: Gate, snapshot: Snapshot, call: Call, targets: Sequence[Candidate], needs: Needs
) -> _Choice | None:
    """Return the target that a request tries first, None if every circuit is open and another request probes."""
    candidates = Candidates(gate.health, snapshot.targets, call.caller.account, targets, needs)
    candidate, is_last_resort = candidates.peek(), False
    if candidate is None:
        candidate, is_last_resort = candidates.find_last_resort(), True
    return None if candidate is None else _Choice(*candidate, is_last_resort)


def _describe_refusal(refusal: RateLimited | None) -> dict[str, Any]:
    """Return the error that the caller would receive, as a part of an explanation."""
    if refusal is None:
        return {}
    return {"refused": {"status": refusal.status, "code": refusal.code, "message": refusal.message}}


_STRATEGIES = {
    "weighted": "in a random order by weight",
    "latency": "the one with the shortest time to the first event first",
    "least_busy": "the less busy one of two first, by weight",
    "cost": "the cheapest known price first",
}


def _explain_order(
    snapshot: Snapshot, call: Call, targets: Sequence[Candidate], needs: Needs = NO_NEEDS, *, is_last_resort: bool
) -> str:
    """Return in words why the first target comes first."""
    if is_last_resort:
        return "every circuit is open: the target that is due first, one request at a time"
    parts = ["the first target whose circuit is closed and of which a key is not at rest"]
    if needs.keepers or (needs.access is not None and needs.access.copied):
        parts.append("those that keep what the request names or has signatures of first")
    entry = snapshot.targets.models.find_model(call.model)
    if needs.session is not None:
        parts.append(f"in the order of the conversation (cache affinity by {needs.session.source})")
    elif entry is not None:
        parts.append(_STRATEGIES[entry.entry.strategy])
    parts.append("then fallback models")
    return ", ".join(parts)


async def _translate(call: Call, once: RequestCache, provider: ConfiguredProvider) -> tuple[UpstreamRequest, bool]:
    """Return the upstream request, and whether it is forwarded verbatim. Add the losses to `call`."""
    verbatim = await prepare_verbatim_request(call, provider, once)
    if verbatim is not None:
        return await once.run_hook(provider.usable_lane.invoke_translate_request, call, verbatim), True
    request = await once.request(call)
    request = await signatures.restore_signatures(call, request, signatures=provider.capabilities.signatures)
    if server_tool_parts.has_server_tools(request):
        request = await server_tool_parts.restore_parts(call, request)
    return await once.run_hook(provider.usable_lane.invoke_translate_request, call, request), False


async def explain(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> dict[str, Any]:
    """Return the explanation of `wire` as JSON values. `refused` is the error of limits that refuse the request now.

    Raises any other GateError that the caller gets before the upstream call.
    """
    wire_format = snapshot.formats[call.format]
    if wire.route.model == "none":
        return {"operation": call.operation, "format": call.format, "answered_by": "the gateway itself"}
    unreviewed: Sequence[str] = ()
    if snapshot.guards.lanes:
        wire, unreviewed = await review_alone(gate, snapshot, call, wire)
    call = snapshot.targets.for_model(call, resolve_model_name(snapshot.config.defaults, wire, call.caller))
    auth.filter_operations(call.caller, wire.route.operations)
    if token_counts.must_estimate(snapshot.targets, call):
        by = "the gateway itself, with an estimate: no target of the model counts tokens"
        return {"operation": call.operation, "format": call.format, "model": call.model, "answered_by": by}
    once = RequestCache(wire, wire_format, gate)
    attempt = await _find_attempt(gate, snapshot, call, once)
    call, choice = attempt.call, attempt.choice
    explained = await _explain_attempt(gate, call, once, choice.target, choice.provider)
    explained["losses"] += unreviewed
    return {
        **_describe_refusal(choice.refusal),
        **_describe_choice(gate, snapshot, call, attempt.targets, attempt.why),
        **explained,
        "limits": await gate.admission.describe_limits(call, choice.target),
    }


async def explain_choice(gate: Gate, snapshot: Snapshot, call: Call) -> dict[str, Any]:
    """Return which target a request for the model and operation of `call` gets now, and why. No body is needed.

    `refused` is the error of limits that refuse the request now. Raises any other GateError before the body is read.
    """
    operations = auth.filter_operations(call.caller, (call.operation,))
    call = snapshot.targets.for_model(call, call.model)
    targets = snapshot.targets.select_targets(call, operations)
    choice = await _choose(gate, snapshot, call, targets)
    why = _explain_order(snapshot, call, targets, is_last_resort=choice.is_last_resort)
    return {
        **_describe_refusal(choice.refusal),
        **_describe_choice(gate, snapshot, call, tuple(target for target, _ in targets), why),
        "target": _name_target(gate, choice.target),
        "limits": await gate.admission.describe_limits(call, choice.target),
    }


def _describe_choice(
    gate: Gate, snapshot: Snapshot, call: Call, targets: tuple[Target, ...], why: str
) -> dict[str, Any]:
    model = snapshot.targets.models.find_model(call.model)
    return {
        "operation": call.operation,
        "format": call.format,
        "model": call.model,
        "entry": targets[0].model,
        "strategy": model.entry.strategy if model is not None else "weighted",
        "targets": [_describe_target(gate, snapshot, call, candidate) for candidate in targets],
        "why": why,
    }


def _describe_target(gate: Gate, snapshot: Snapshot, call: Call, target: Target) -> dict[str, Any]:
    circuit, now = gate.health.circuits.find_circuit(target), gate.health.circuits.clock()
    state = "closed" if circuit is None else circuit.state(call.caller.account, now)
    described: dict[str, Any] = {
        "provider": target.provider,
        "model": target.upstream_model,
        "entry": target.model,
        "circuit": "open" if target.provider in gate.health.circuits.down else state,
    }
    keys = snapshot.targets.providers[target.provider].keys
    if keys:
        waits = [gate.health.keys.get_wait(target, key.fingerprint, now) for key in keys]
        described["keys"] = [
            {"key": key.number, "rests_seconds": round(wait, 1)} for key, wait in zip(keys, waits, strict=True)
        ]
    if target.model in snapshot.targets.measured:
        load = snapshot.targets.loads.find_load(target)
        described["in_flight"] = load.in_flight
        described["first_event_seconds"] = None if load.latency is None else round(load.latency, 4)
    return described


def _name_target(gate: Gate, target: Target) -> dict[str, Any]:
    named: dict[str, Any] = {"provider": target.provider, "model": target.upstream_model}
    return named | {"key": int(outcomes.describe_key(gate.health, target))} if target.key else named


async def _explain_attempt(
    gate: Gate, call: Call, once: RequestCache, target: Target, provider: ConfiguredProvider
) -> dict[str, Any]:
    call = replace(call, target=target, losses=[])
    outgoing, verbatim = await _translate(call, once, provider)
    return {
        "target": _name_target(gate, target),
        "lane": "verbatim" if verbatim else "translated",
        "upstream": _describe_request(
            outgoing, target, with_address=auth.is_unlimited_administrator(call.caller), with_body=not once.is_large
        ),
        "losses": call.losses,
    }


def _describe_request(
    outgoing: UpstreamRequest, target: Target, *, with_address: bool, with_body: bool
) -> dict[str, Any] | None:
    """Return the upstream request with its secrets masked, or None if the provider sends none. Omit a large body."""
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
        url = outgoing.url.replace(target.api_key, MASK) if target.api_key else outgoing.url
        described["url"] = mask_address(url)
    return described
