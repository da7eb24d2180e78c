"""The attempts of a request: select a target, for every operation, and send the request to its provider.

`candidates.py` selects the next target and key. A request tries targets until one succeeds or none is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from tornado_gate.admission.estimates import Estimate
from tornado_gate.errors import GateError, UpstreamTimeout
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.plans import SLOW_START_OPERATIONS, Others
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import ProviderLane
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import check_events
from tornado_gate.targets import outcomes
from tornado_gate.targets.candidates import NO_NEEDS, Candidates, Needs, make_unavailable, note_place, select_candidates
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.health import TargetHealth
from tornado_gate.targets.loads import MeasuredAttempt, TargetLoads
from tornado_gate.targets.table import Candidate
from tornado_gate.telemetry.redaction import redact_error
from tornado_gate.types import (
    BufferedBody,
    Call,
    Operation,
    Request,
    StreamEvent,
    Target,
    UpstreamRequest,
    UpstreamResponse,
)
from tornado_gate.types.value import replace

Result = TypeVar("Result")


async def try_targets(
    gate: Gate,
    snapshot: Snapshot,
    call: Call,
    operations: tuple[Operation, ...],
    ask: Callable[[Call, ConfiguredProvider], Awaitable[Result]],
    needs: Needs = NO_NEEDS,
    estimate: Estimate | None = None,
    others: Others | None = None,
) -> Result:
    """Return the result of `ask` for the first target of ``call.model`` at which it succeeds.

    `ask` gets the call with the target, its pool and its operation. If it raises a retryable GateError, the next target is
    tried; any other exception ends the request. When `ask` fails, ``call.closing`` is closed, so it must contain only what
    the attempt opened. When `ask` succeeds, the response has begun. The reader of the response notes its outcome
    (`targets/outcomes.py`).
    `needs` are the requirements of the request for its target. `estimate` is the estimated usage for the request's limits
    (`admission/reservations.py`). A target that has reached its own limits is skipped. `others` are the candidates of a request
    whose first attempt has failed.
    Raises the errors of `select_candidates`, the failure of the last target, or Unavailable when every circuit is open.
    """
    health, table = gate.health, snapshot.targets
    if others is None:
        targets: Sequence[Candidate] = select_candidates(health, table, call, operations, needs)
        candidates = Candidates(health, table, call.caller.account, targets, needs)
    else:
        targets, candidates, needs = others.targets, others.candidates, others.needs
    is_bounded = gate.admission.is_active or call.caller.bounds
    try:
        # No variable has the iterator, so that it ends with the loop: until then it counts a retry.
        for target, provider in candidates if others is None else others.rest:
            if candidates.pause:
                await asyncio.sleep(candidates.pause)
            if (
                is_bounded
                and (refusal := await gate.admission.enter(snapshot.prices, call, target, estimate)) is not None
            ):
                outcomes.release_probe(health, replace(call, target=target))
                candidates.failure = candidates.failure or refusal
                continue
            attempt = _begin_attempt(gate, call, target, provider, operations)
            load = None
            if target.model in table.measured:
                load, end_load = begin_load(table.loads, target)
                attempt.closing.callback(end_load)
            try:
                if provider.entry.concurrency is not None:
                    queue = gate.target_queues.find_queue(target.provider)
                    attempt.closing.callback(await queue.enter(call.caller.account, provider.entry.concurrency))
                result = await ask(attempt, provider)
            except BaseException as error:
                await end_failed(health, attempt, error)
                if is_bounded:
                    gate.admission.note_failure(call, error)
                if not isinstance(error, GateError) or not error.retryable or call.failover is False:
                    raise
                if load is not None and isinstance(error, UpstreamTimeout):
                    load.note_latency(attempt.progress.is_streamed)
                candidates.failure = error
            else:
                note_begun(health, attempt, load, needs)
                return result
        raise candidates.failure or make_unavailable(health, call, targets)
    finally:
        candidates.failure = None  # its traceback holds this frame


def _begin_attempt(
    gate: Gate, call: Call, target: Target, provider: ConfiguredProvider, operations: tuple[Operation, ...]
) -> Call:
    call.progress.begin_attempt(target)
    operation = target.first_supported_operation(operations)
    return replace(call, target=target, operation=operation, losses=[], pool=gate.pools.get_pool(provider))


async def end_failed(health: TargetHealth, attempt: Call, error: BaseException) -> None:
    """Note the outcome of an attempt that failed before its response began, and close what the attempt opened."""
    if isinstance(error, GateError):
        redact_error(attempt.target, error)
        attempt.progress.fail_attempt(error.code)
        attempt.meter.forget()
        attempt.charge.forget_requested()
    outcomes.note_failure(health, attempt, error)
    attempt.meter.record_late_error(None)  # a late error may be this one, whose traceback refers to the meter
    await attempt.closing.aclose()


def note_begun(health: TargetHealth, attempt: Call, load: MeasuredAttempt | None, needs: Needs) -> None:
    """Note that the response of the attempt has begun."""
    if load is not None and not attempt.progress.cached:
        load.note_latency(attempt.progress.is_streamed)
    if not attempt.progress.error_code:
        outcomes.note_start(health, attempt)
    if needs.session is not None:
        note_place(health, needs.session, attempt.target)


def begin_load(loads: TargetLoads, target: Target) -> tuple[MeasuredAttempt, Callable[[], None]]:
    """Count an attempt at its target. Call the returned function once, when the attempt fails or its response ends."""
    load = loads.find_load(target)
    load.begin()
    return MeasuredAttempt(load), load.end


def make_deadlines(
    call: Call, *, streaming: bool, slow_start: bool = False, begun_at: float | None = None
) -> Deadlines:
    """Return the time limits of one attempt at the target of `call`. `streaming`: the caller has requested a stream.

    `slow_start`: the upstream sends nothing until the work is done, even for an operation outside SLOW_START_OPERATIONS.
    """
    slow_start = slow_start or call.operation in SLOW_START_OPERATIONS
    timeouts, provider = call.target.timeouts, call.target.provider
    deadlines = Deadlines(timeouts, provider, streaming=streaming, slow_start=slow_start, begun_at=begun_at)
    call.progress.limit_time(deadlines.ends_at, is_streamed=streaming)
    return deadlines


async def call_provider(
    call: Call, provider: ProviderLane, request: Request, deadlines: Deadlines, outgoing: UpstreamRequest | None = None
) -> AsyncIterator[StreamEvent]:
    """Call the provider and return the events of its response. Events and time limits are checked.

    `outgoing` is the translated `request`; without it the request is translated here.
    """
    if outgoing is None:
        outgoing = await provider.translate_request(call, request)
    call.progress.send()
    incoming = await deadlines.wait_for_first_event(provider.call_upstream(call, outgoing))
    events = translate_response(call, provider, request, incoming, deadlines)
    return check_response(call, provider, request, events, deadlines)


def translate_response(
    call: Call, provider: ProviderLane, request: Request, incoming: UpstreamResponse, deadlines: Deadlines
) -> AsyncIterator[StreamEvent]:
    """Return the provider's events without checks."""
    chunks = incoming.chunks
    if not isinstance(chunks, BufferedBody):
        limited = deadlines.extend_gap_on_chunks(chunks, incoming.reader)
        incoming = incoming if limited is chunks else incoming.replace(chunks=limited)
    return provider.translate_response(call, request, incoming)


def check_response(
    call: Call, provider: ProviderLane, request: Request, events: AsyncIterator[StreamEvent], deadlines: Deadlines
) -> AsyncIterator[StreamEvent]:
    """Return `events` with checks of their order, their fields and their time limits."""
    events = deadlines.limit_gaps(events, provider.as_plugin_error)
    return check_events(events, provider.record_wrong_event, partial(redact_error, call.target), type(request))
