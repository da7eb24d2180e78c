"""Selects and tries targets, for every operation, and sends one request to one provider.

Targets are tried in the order of the snapshot: by weight, then those of fallback models. A target whose circuit is open is
skipped. A request tries the next target as long as one is left; it does not try a failed target again.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from tornado_gate.errors import GateError, Unavailable
from tornado_gate.gateway import outcomes
from tornado_gate.gateway.estimates import Estimate
from tornado_gate.gateway.gate import Gate
from tornado_gate.gateway.snapshot import ConfiguredProvider, Snapshot
from tornado_gate.gateway.upstream_objects import ObjectAccess
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import check_events
from tornado_gate.telemetry.redaction import redact_error
from tornado_gate.types import BufferedBody, Call, Operation, Request, StreamEvent, Target, UpstreamRequest
from tornado_gate.types.value import replace

SLOW_START_OPERATIONS = frozenset({"images", "image_edits", "transcription"})
"""Operations that send nothing until the work is done, streamed or not."""

Result = TypeVar("Result")
Candidate = tuple[Target, ConfiguredProvider]


async def try_targets(
    gate: Gate,
    snapshot: Snapshot,
    call: Call,
    operations: tuple[Operation, ...],
    ask: Callable[[Call, ConfiguredProvider], Awaitable[Result]],
    access: ObjectAccess | None = None,
    estimate: Estimate | None = None,
) -> Result:
    """The result of `ask` for the first target of ``call.model`` at which it succeeds.

    `ask` gets the call with the target, its pool and its operation. If it raises a retryable GateError, the next target is
    tried; any other exception ends the request. When `ask` fails, ``call.closing`` is closed, so it may hold nothing else.
    When it succeeds, the response has begun: whoever reads it to its end notes the outcome (`gateway/outcomes.py`).
    `access` limits the targets to those that may get the request. `estimate` is what the request may use, for its bounds
    (`gateway/admission.py`); a target whose own bounds are reached is skipped.
    Raises what it and `Snapshot.select_targets` raise, the failure of the last target, or Unavailable when every circuit is open.
    """
    targets = snapshot.select_targets(call, operations)
    if access is not None:
        targets = access.select_targets(targets)
    is_bounded = gate.admission.is_active or bool(call.caller.bounds)
    health, account = gate.health, call.caller.account
    failure: GateError | None = None
    for target, provider in targets:
        circuit = health.find(target)
        if circuit is not None and not circuit.allows(account, health.clock()):
            continue
        if is_bounded and (refusal := await gate.admission.enter(snapshot, call, target, estimate)) is not None:
            failure = failure or refusal
            continue
        attempt = _begin_attempt(gate, call, target, provider, operations)
        try:
            result = await ask(attempt, provider)
        except BaseException as error:
            if isinstance(error, GateError):
                redact_error(target, error)
            outcomes.note_failure(gate, attempt, error)
            attempt.meter.late_error = None  # it may be this error, which refers to the meter by its traceback
            await attempt.closing.aclose()
            if is_bounded:
                gate.admission.note_failure(call, error)
            if not isinstance(error, GateError) or not error.retryable:
                raise
            failure = error
        else:
            if not attempt.meter.error_code:
                outcomes.note_start(gate, attempt)
            return result
    try:
        raise failure or _no_target(gate, call, targets)
    finally:
        del failure  # its traceback holds this frame


def _begin_attempt(
    gate: Gate, call: Call, target: Target, provider: ConfiguredProvider, operations: tuple[Operation, ...]
) -> Call:
    meter = call.meter
    meter.attempts += 1
    meter.target = target
    operation = target.first_supported_operation(operations)
    return replace(call, target=target, operation=operation, losses=[], pool=gate.pool(provider))


def choose_target(gate: Gate, call: Call, targets: Sequence[Candidate]) -> Candidate:
    """The target that `try_targets` would try first. Sends and counts nothing and changes no circuit.

    For video tasks, which start later, and for `_explain`, which sends nothing. Raises Unavailable when every circuit is open.
    """
    now = gate.health.clock()
    for target, provider in targets:
        circuit = gate.health.find(target)
        if circuit is None or circuit.would_allow(call.caller.account, now):
            return target, provider
    raise _no_target(gate, call, targets)


def _no_target(gate: Gate, call: Call, targets: Sequence[Candidate]) -> Unavailable:
    now = gate.health.clock()
    circuits = (gate.health.find(target) for target, _ in targets)
    waits = (circuit.wait_seconds(call.caller.account, now) for circuit in circuits if circuit is not None)
    seconds = max(1, math.ceil(min(waits, default=0.0)))
    message = f"All targets of model '{call.model}' are unavailable. Retry after {seconds} s."
    return Unavailable(message, headers={"Retry-After": str(seconds)})


def make_deadlines(call: Call, *, streaming: bool, slow_start: bool = False) -> Deadlines:
    """The time limits of one attempt at the target of `call`. `streaming`: the caller has requested a stream.

    `slow_start`: the upstream sends nothing until the work is done, also if the operation is not one that always does so.
    """
    slow_start = slow_start or call.operation in SLOW_START_OPERATIONS
    deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=streaming, slow_start=slow_start)
    call.meter.ends_at = deadlines.ends_at
    return deadlines


async def call_provider(
    call: Call, provider: ProviderLane, request: Request, deadlines: Deadlines, outgoing: UpstreamRequest | None = None
) -> AsyncIterator[StreamEvent]:
    """Call the provider and return the events of its response, with event order and time limits checked.

    `outgoing` is the translated `request`; without it the request is translated here.
    """
    if outgoing is None:
        outgoing = await provider.translate_request(call, request)
    incoming = await deadlines.wait_for_first_event(provider.call_upstream(call, outgoing))
    if not isinstance(incoming.chunks, BufferedBody):
        incoming = incoming.replace(chunks=deadlines.extend_gap_on_chunks(incoming.chunks))
    events = deadlines.limit_gaps(provider.translate_response(call, request, incoming), provider.as_plugin_error)
    return check_events(events, provider.record_exception, partial(redact_error, call.target))
