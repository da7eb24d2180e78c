"""One request, stop by stop. Read this first: docs/architecture.md draws the same way.

Knows hooks and the vocabulary; no wire format, no vendor, no HTTP server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TypeVar

from tornado_gate import continuity, stream
from tornado_gate.deadlines import Deadlines
from tornado_gate.errors import GateError, InvalidField, PluginError, Unavailable
from tornado_gate.gate import Gate
from tornado_gate.plugins import FormatLane, Lane, ProviderLane
from tornado_gate.snapshot import ProviderInUse, Snapshot
from tornado_gate.types import (
    Call,
    Finish,
    ModelList,
    Reply,
    Request,
    StreamEvent,
    Target,
    UsageReport,
    WireRequest,
)
from tornado_gate.watchdog import Blocked

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply whose first chunk is there, and the call as it was when it came: target and losses are known."""

    call: Call
    reply: Reply


async def answer(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> Answer:
    """Answer one request. Raises GateError, which the handler puts into the caller's envelope."""
    wire_format = snapshot.formats[call.format]
    if wire.route.model == "none":
        return await _answer_ourselves(snapshot, call, wire, wire_format)
    call = replace(call, model=asked_model(snapshot, wire))
    targets = snapshot.targets(call)
    once = _Once(call, wire, wire_format)
    gate.health.request_began()
    failure: GateError | None = None
    for target, provider in targets:
        if not gate.health.allows(circuit_name(target)):
            continue
        if failure is not None and not gate.health.may_retry():
            break
        call.meter.attempts += 1
        try:
            return await _attempt(gate, replace(call, target=target, losses=[]), provider, once)
        except GateError as error:
            if not error.retryable:
                raise
            failure = error
    raise failure or Unavailable(f"Every target of the model '{call.model}' is out of order; try again in a while.")


def asked_model(snapshot: Snapshot, wire: WireRequest) -> str:
    """The model that the caller named, or the operation's default. Raises InvalidField when there is neither."""
    if wire.route.model == "path":
        return wire.path_arguments["model"]
    model = wire.json.get("model")
    if model is None:
        model = snapshot.config.defaults.get(wire.route.operation)
        if model is None:
            raise InvalidField("model", "'model' is missing.", code="missing_required_parameter")
    if not isinstance(model, str) or not model:
        raise InvalidField("model", "'model' must be a string that names a model.")
    return model


class _Once:
    """The common request, made when the first target needs it and kept for the next, with what was lost in making it."""

    def __init__(self, call: Call, wire: WireRequest, wire_format: FormatLane) -> None:
        self.wire = wire
        self.wire_format = wire_format
        self._call = replace(call, losses=[])
        self._request: Request | None = None

    async def request(self, call: Call) -> Request:
        """Also names the losses to `call`."""
        if self._request is None:
            self._request = await self.wire_format.translate_request(self._call, self.wire)
        call.losses.extend(self._call.losses)
        return self._request


async def _attempt(gate: Gate, call: Call, provider: ProviderInUse, once: _Once) -> Answer:
    """Ask one target. What it opened is closed when it fails, and belongs to the caller's `closing` when it does not."""
    name = circuit_name(call.target)
    async with AsyncExitStack() as closing:
        attempt = replace(call, closing=closing, pool=gate.pool(provider))
        try:
            reply = await _ask(attempt, provider, once)
        except GateError as error:
            _note_failure(gate, call, error)
            raise
        except BaseException:
            gate.health.released(name)
            raise
        gate.health.succeeded(name)
        call.closing.push_async_exit(closing.pop_all())
        return Answer(replace(attempt, closing=call.closing), reply)


async def _ask(call: Call, provider: ProviderInUse, once: _Once) -> Reply:
    """Stops 3 to 6: one of the two lanes, up to the first chunk of the reply."""
    if await _goes_verbatim(call, provider, once):
        return await _verbatim_lane(call, once.wire_format, provider.working, once.wire)
    request = await continuity.restored(call, await once.request(call), signatures=provider.capabilities.signatures)
    return await _common_lane(call, once.wire_format, provider, request)


async def _goes_verbatim(call: Call, provider: ProviderInUse, once: _Once) -> bool:
    """Both ends speak the same wire format; and no signature of another provider, which would be refused, is in the body."""
    if not once.wire_format.forwards or once.wire.route.wire_format not in provider.capabilities.speaks:
        return False
    if not provider.capabilities.signatures or b"ignature" not in once.wire.raw:
        return True
    return not await continuity.foreign(call, await once.request(replace(call, losses=[])))


async def _verbatim_lane(call: Call, wire_format: FormatLane, provider: ProviderLane, wire: WireRequest) -> Reply:
    """Both ends speak the same wire format: nothing is taken apart."""
    request = await wire_format.forward_request(call, wire)
    outgoing = await provider.translate_request(call, request)
    deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=request.stream)
    incoming = await deadlines.first(provider.call_upstream(call, outgoing))
    chunks = _blamed(provider, deadlines.between(incoming.chunks))
    reply = wire_format.forward_response(call, request, replace(incoming, chunks=chunks))
    return await deadlines.first(_with_first_chunk(wire_format, reply))


async def _common_lane(call: Call, wire_format: FormatLane, used: ProviderInUse, request: Request) -> Reply:
    """Through the common vocabulary."""
    provider = used.working
    outgoing = await provider.translate_request(call, request)
    streaming = bool(getattr(request, "stream", False))
    deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=streaming)
    incoming = await deadlines.first(provider.call_upstream(call, outgoing))
    incoming = replace(incoming, chunks=deadlines.alive(incoming.chunks))
    events = deadlines.between(provider.translate_response(call, request, incoming))
    events = stream.checked(_blamed(provider, events), provider.fault)
    if used.capabilities.signatures:
        events = continuity.recorded(call, events)
    reply = wire_format.translate_response(call, request, _noted(call, events))
    return await deadlines.first(_with_first_chunk(wire_format, reply))


async def _answer_ourselves(snapshot: Snapshot, call: Call, wire: WireRequest, wire_format: FormatLane) -> Answer:
    """No model, no provider: the core has the model list, and the format what it has stored for the caller."""
    request = await wire_format.answer_itself(call, wire)
    if isinstance(request, Reply):
        return Answer(call, await _with_first_chunk(wire_format, request))
    if request.model is None:
        models = ModelList(models=snapshot.list_models(call.caller))
    else:
        models = ModelList(models=(snapshot.get_model(request.model, call.caller),), single=True)
    reply = wire_format.translate_response(call, request, stream.aiter_events(iter([models])))
    return Answer(call, await _with_first_chunk(wire_format, reply))


async def _with_first_chunk(wire_format: FormatLane, reply: Reply) -> Reply:
    """`reply` with its first chunk read: from here on the status line may go out."""
    chunks = _blamed(wire_format, reply.chunks)
    try:
        first = await anext(chunks)
    except StopAsyncIteration:
        raise wire_format.broken("the reply has no chunk") from None
    return replace(reply, chunks=_put_back(first, chunks))


async def _put_back(first: T, rest: AsyncIterator[T]) -> AsyncIterator[T]:
    try:
        yield first
        async for item in rest:
            yield item
    finally:
        await stream.close(rest)


async def _blamed(lane: Lane, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """`items` of a plugin: what it raises that is no GateError becomes a PluginError with its name."""
    try:
        async for item in items:
            yield item
    except (GateError, asyncio.CancelledError):
        raise
    except (Exception, Blocked) as error:
        raise lane.fault(error, "its answer") from error
    finally:
        await stream.close(items)


async def _noted(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """Usage and finish reason go to the meter in passing."""
    try:
        async for event in events:
            if isinstance(event, UsageReport):
                call.meter.usage = event.usage
            elif isinstance(event, Finish):
                call.meter.finish_reason = event.reason
            yield event
    finally:
        await stream.close(events)


def circuit_name(target: Target) -> tuple[str, str, str]:
    """What a circuit is for. A wildcard's many names share one."""
    return (target.provider, target.model, "" if "*" in target.model else target.upstream_model)


def _note_failure(gate: Gate, call: Call, error: GateError) -> None:
    name, target = circuit_name(call.target), call.target
    if error.retryable and error.status != 429:
        gate.health.failed(name, gate.snapshot.config.circuits)
    else:
        gate.health.released(name)
    if error.type != "invalid_request_error" or error.code == "upstream_refused":
        gate.metrics.upstream_error(target.provider, error.code)
    if not isinstance(error, PluginError):
        fields = {"request_id": call.id, "provider": target.provider, "model": target.model, "status": error.status}
        log.info("target failed: %s", error.code, extra={"fields": fields})
