"""One request, step by step. Read this module first; docs/architecture.md has a diagram of the same steps.

This module knows hooks and the vocabulary, but no wire format, no vendor and no HTTP server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from functools import partial

from tornado_gate.admission.estimates import (
    Estimate,
    begin_charge,
    estimate_prompt_tokens,
    estimate_request,
    estimate_wire_tokens,
    get_counted_body,
)
from tornado_gate.errors import GateError, RequestError, UpstreamRefused
from tornado_gate.pipeline import (
    auth,
    embedding_batches,
    metering,
    server_tool_parts,
    signatures,
    token_counts,
    whole_answers,
)
from tornado_gate.pipeline.attempts import (
    call_provider,
    check_response,
    make_deadlines,
    translate_response,
    try_targets,
)
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.model_names import resolve_model_name
from tornado_gate.pipeline.own_links import inline_own_links
from tornado_gate.pipeline.plans import Others
from tornado_gate.pipeline.request_cache import RequestCache
from tornado_gate.pipeline.snapshot import Snapshot
from tornado_gate.plugins.lanes import FormatLane, ProviderLane
from tornado_gate.streams import stages
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.events import read_single_event
from tornado_gate.targets import affinity, outcomes, upstream_objects
from tornado_gate.targets.candidates import NO_NEEDS, Needs
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.table import TargetTable
from tornado_gate.telemetry.redaction import redact_error
from tornado_gate.types import (
    BufferedBody,
    Call,
    EmbeddingRequest,
    EmbeddingResult,
    Operation,
    Reply,
    Request,
    SpeechRequest,
    StoredObjectRequest,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace


class PreparedAnswer(Value, frozen=True):
    """A reply whose first chunk has been read. `call` is the call at that time, with its target and losses."""

    call: Call
    reply: Reply


async def answer(gate: Gate, snapshot: Snapshot, call: Call, wire: WireRequest) -> PreparedAnswer:
    """Answer one request for a model.

    Step 1 finds the model, step 2 tries its targets, and steps 3 to 6 run at a target (`try_target`).

    Raises GateError, which the handler renders as the error body of the caller's format.
    """
    targets = snapshot.targets
    caller = call.caller
    call = targets.for_model(call, resolve_model_name(snapshot.config.defaults, wire, caller))
    call.progress.request_model(call.model)
    operations = auth.filter_operations(caller, wire.route.operations)
    once = RequestCache(wire, snapshot.formats[call.format], gate)
    if token_counts.must_estimate(targets, call):
        return await _answer_estimate(gate, call, once)
    needs = await find_needs(targets, call, operations, once)
    estimate = None
    if (gate.admission.is_active or caller.bounds) and gate.admission.needs_estimate(call):
        estimate = await estimate_usage(gate, call, operations, once)
    return await try_targets(gate, snapshot, call, operations, partial(try_target, gate, once), needs, estimate)


async def answer_elsewhere(gate: Gate, call: Call, wire: WireRequest, others: Others) -> PreparedAnswer:
    """Answer a request like `answer`, after its first target has failed."""
    once = RequestCache(wire, others.snapshot.formats[call.format], gate)
    ask = partial(try_target, gate, once)
    return await try_targets(gate, others.snapshot, call, others.operations, ask, others=others)


async def find_needs(targets: TargetTable, call: Call, operations: tuple[Operation, ...], once: RequestCache) -> Needs:
    """Return the request's needs for its target: objects at an upstream, the issuer of its signatures, cache affinity."""
    wire = once.wire
    references = upstream_objects.list_references(call, wire)
    access = await upstream_objects.find_access(call, wire, references) if references else None
    issuer = ""
    marks = wire.route.signature_marks
    if marks and targets.has_choice(call.model, operations) and await once.contains(call, marks):
        issuer = await _find_issuer(call, once)
    session = affinity.find_session(targets.models, call, wire) if targets.has_affinity else None
    if access is None and session is None and not issuer:
        return NO_NEEDS
    return Needs(session, access, issuer)


async def _find_issuer(call: Call, once: RequestCache) -> str:
    """Return the provider entry that issued the signatures of the request, or "" if none or several did."""
    try:
        request = await once.request(call.replace(losses=[]))
    except RequestError:
        return ""
    return await signatures.find_issuer(call, request)


async def _answer_estimate(gate: Gate, call: Call, once: RequestCache) -> PreparedAnswer:
    """Answer a token count without an upstream."""
    request = await once.request(call)
    body = getattr(request, "counted", None) or get_counted_body(once.wire)
    if once.needs_thread:
        tokens = await gate.worker.run(call.caller.account, estimate_prompt_tokens, body)
    else:
        tokens = estimate_prompt_tokens(body)
    return PreparedAnswer(call, token_counts.reply_with_estimate(call, once.wire_format, request, tokens))


async def estimate_usage(gate: Gate, call: Call, operations: tuple[Operation, ...], once: RequestCache) -> Estimate:
    """Return the estimated usage of the request, for its limits."""
    if once.needs_thread:
        prompt = await gate.worker.run(call.caller.account, estimate_wire_tokens, once.wire)
    else:
        prompt = estimate_wire_tokens(once.wire)
    once.prompt_tokens = prompt
    return estimate_request(operations[0], once.wire.route, once.wire.json, prompt)


async def try_target(gate: Gate, once: RequestCache, call: Call, provider: ConfiguredProvider) -> PreparedAnswer:
    """Run steps 3 to 6 at one target, in one of the two lanes, until the first chunk of the reply is read."""
    begin_charge(call, once.wire, once.prompt_tokens)
    verbatim = await prepare_verbatim_request(call, provider, once)
    if verbatim is not None:
        return await run_verbatim_lane(gate, call, once, provider.usable_lane, verbatim)
    return await run_common_lane(gate, call, once, provider)


async def run_verbatim_lane(
    gate: Gate,
    call: Call,
    once: RequestCache,
    lane: ProviderLane,
    request: VerbatimRequest,
    outgoing: UpstreamRequest | Awaitable[UpstreamRequest] | None = None,
) -> PreparedAnswer:
    """Run steps 4 to 6 in the verbatim lane. `outgoing` is the result of step 4, if that step has already run."""
    if outgoing is None:
        outgoing = once.invoke_hook(lane, lane.invoke_translate_request, call, request)
    if not isinstance(outgoing, UpstreamRequest):
        outgoing = await outgoing
    deadlines = make_deadlines(call, streaming=request.stream, slow_start=request.slow_start)
    call.progress.send()
    incoming = await deadlines.wait_for_first_event(lane.call_upstream(call, outgoing))
    reply = forward_response(call, once.wire_format, lane, request, incoming, deadlines)
    if request.issued is None and isinstance(reply.chunks, BufferedBody):
        outcomes.note_success(gate.health, call)
    else:
        reply = await finish_forwarding(gate, call, once.wire_format, request, reply, deadlines)
    return PreparedAnswer(call, reply)


async def run_common_lane(
    gate: Gate, call: Call, once: RequestCache, provider: ConfiguredProvider, request: Request | None = None
) -> PreparedAnswer:
    """Run steps 3 to 6 in the common lane. `request` is the result of step 3, if that step has already run."""
    if request is None:
        request = await once.request(call)
    try:
        return PreparedAnswer(call, await _complete_and_run(gate, call, once, provider, request))
    except (AttributeError, LookupError, TypeError, ValueError):
        once.wire_format.check_request(request)
        raise


async def _complete_and_run(
    gate: Gate, call: Call, once: RequestCache, provider: ConfiguredProvider, request: Request
) -> Reply:
    """Run the common lane with the gateway's own additions to a request."""
    if await once.may_have_own_links(call):
        request = await inline_own_links(call, request)
    if signatures.may_have_signatures(request):
        request = await signatures.restore_signatures(call, request, signatures=provider.capabilities.signatures)
    if server_tool_parts.has_server_tools(request):
        request = await server_tool_parts.restore_parts(call, request)
    return await _run_common_lane(gate, call, once, provider, request)


async def prepare_verbatim_request(
    call: Call, provider: ConfiguredProvider, once: RequestCache
) -> VerbatimRequest | None:
    """Return the request for the verbatim lane, or None if it needs the common lane. Even equal formats may need it."""
    wire, used, wire_format = once.wire, provider.capabilities, once.wire_format
    if not wire_format.forwards or wire.route.wire_format not in used.speaks or call.operation != wire.route.operation:
        return None
    if call.operation == "chat" and await once.may_have_own_links(call):
        return None
    if used.inputs_at_once is not None and await _exceeds_inputs_at_once(call, used.inputs_at_once, once):
        return None
    if used.signatures and await _has_foreign_signatures(call, once):
        return None
    result = once.invoke_hook(wire_format, wire_format.invoke_forward_request, call, wire)
    return result if result is None or isinstance(result, VerbatimRequest) else await result


async def _has_foreign_signatures(call: Call, once: RequestCache) -> bool:
    """Return whether the body contains another provider's signature, which this provider would reject."""
    marks = once.wire.route.signature_marks
    if not marks or not await once.contains(call, marks):
        return False
    try:
        request = await once.request(call.replace(losses=[]))
    except RequestError:  # `forward_request` decides: the upstream may know parts that cannot be translated
        return False
    return bool(await signatures.has_foreign_signatures(call, request))


async def _exceeds_inputs_at_once(call: Call, most: int, once: RequestCache) -> bool:
    """Return whether there are more inputs than the upstream accepts together. A body with fewer commas is not parsed."""
    if call.operation != "embeddings" or once.wire.raw.count(b",") < most:
        return False
    request = await once.request(call.replace(losses=[]))
    return isinstance(request, EmbeddingRequest) and len(request.inputs) > most


def forward_response(
    call: Call,
    wire_format: FormatLane,
    provider: ProviderLane,
    request: VerbatimRequest | StoredObjectRequest,
    incoming: UpstreamResponse,
    deadlines: Deadlines,
) -> Reply:
    """Run step 6 in the verbatim lane: forward the response unparsed, because both sides use the same wire format."""
    if isinstance(incoming.chunks, BufferedBody):
        deadlines.stop()
    else:
        incoming = incoming.replace(chunks=deadlines.limit_gaps(incoming.chunks, provider.as_plugin_error))
    return wire_format.forward_response(call, request, incoming)


async def finish_forwarding(
    gate: Gate,
    call: Call,
    wire_format: FormatLane,
    request: VerbatimRequest | StoredObjectRequest,
    reply: Reply,
    deadlines: Deadlines,
) -> Reply:
    """Finish step 6: record the objects that the upstream has issued, and read the first chunk of the reply."""
    if request.issued is not None:
        reply = reply.replace(await upstream_objects.record_issued(call, request.issued, reply.chunks))
    if isinstance(reply.chunks, BufferedBody):
        outcomes.note_success(gate.health, call)
        return reply
    last = metering.OutcomeStep(gate.health, call, wire_format)
    return await deadlines.wait_for_first_event(_read_first_chunk(reply, wire_format, last))


async def _run_common_lane(
    gate: Gate, call: Call, once: RequestCache, used: ConfiguredProvider, request: Request
) -> Reply:
    """Translate the request and the response through the common vocabulary."""
    wire_format = once.wire_format
    if isinstance(request, SpeechRequest):
        call.meter.record_characters(len(request.text))
    most = used.capabilities.inputs_at_once
    if isinstance(request, EmbeddingRequest) and most is not None and len(request.inputs) > most:
        deadlines = Deadlines(call.target.timeouts, call.target.provider, streaming=False, slow_start=True)
        events = _call_in_batches(call, used.usable_lane, embedding_batches.split(request, most))
        return await finish_events(gate, call, wire_format, used, request, events, deadlines)
    deadlines = make_deadlines(call, streaming=bool(getattr(request, "stream", False)))
    provider = used.usable_lane
    outgoing = await once.run_hook(provider.invoke_translate_request, call, request)
    call.progress.send()
    incoming = await deadlines.wait_for_first_event(provider.call_upstream(call, outgoing))
    return await finish_common_lane(gate, call, wire_format, used, request, incoming, deadlines)


async def run_translated(
    gate: Gate,
    call: Call,
    wire_format: FormatLane,
    used: ConfiguredProvider,
    request: Request,
    outgoing: UpstreamRequest | Awaitable[UpstreamRequest],
) -> PreparedAnswer:
    """Run steps 5 and 6 in the common lane. `outgoing` is the result of step 4 for `request`."""
    if not isinstance(outgoing, UpstreamRequest):
        outgoing = await outgoing
    deadlines = make_deadlines(call, streaming=bool(getattr(request, "stream", False)))
    call.progress.send()
    incoming = await deadlines.wait_for_first_event(used.usable_lane.call_upstream(call, outgoing))
    return PreparedAnswer(call, await finish_common_lane(gate, call, wire_format, used, request, incoming, deadlines))


async def finish_common_lane(
    gate: Gate,
    call: Call,
    wire_format: FormatLane,
    used: ConfiguredProvider,
    request: Request,
    incoming: UpstreamResponse,
    deadlines: Deadlines,
) -> Reply:
    """Translate the response. Return when the first chunk of the reply is read."""
    provider = used.usable_lane
    events = translate_response(call, provider, request, incoming, deadlines)
    reply = whole_answers.make_reply(gate, call, wire_format, used, request, events)
    if reply is None:
        events = check_response(call, provider, request, events, deadlines)
        return await finish_events(gate, call, wire_format, used, request, events, deadlines)
    if isinstance(reply.chunks, BufferedBody):
        deadlines.stop()
        return reply
    return await finish_reply(gate, call, wire_format, reply, deadlines)


async def finish_events(
    gate: Gate,
    call: Call,
    wire_format: FormatLane,
    used: ConfiguredProvider,
    request: Request,
    events: AsyncIterator[StreamEvent],
    deadlines: Deadlines,
) -> Reply:
    """Run step 6 of the common lane for the `events` of `check_response`. Return when the first chunk is read."""
    reply = translate_events(call, wire_format, used, request, events)
    return await finish_reply(gate, call, wire_format, reply, deadlines)


def translate_events(
    call: Call,
    wire_format: FormatLane,
    used: ConfiguredProvider,
    request: Request,
    events: AsyncIterator[StreamEvent],
) -> Reply:
    """Return the unread reply for the `events` of `check_response`: they are recorded, measured, and translated."""
    if used.capabilities.signatures:
        events = signatures.record_signatures(
            call, events, unsigned=used.capabilities.needs_unsigned_thinking(call.target.upstream_model)
        )
    if server_tool_parts.has_server_tools(request):
        events = server_tool_parts.record_parts(call, events)
    return wire_format.translate_response(call, request, stages.add_step(events, metering.MeterStep(call.meter)))


async def finish_reply(gate: Gate, call: Call, wire_format: FormatLane, reply: Reply, deadlines: Deadlines) -> Reply:
    """Read the first chunk of a reply of the common lane."""
    if reply.collected:
        deadlines.expect_whole()
    last = metering.OutcomeStep(gate.health, call, wire_format)
    return await deadlines.wait_for_first_event(_read_first_chunk(reply, wire_format, last))


async def _call_in_batches(
    call: Call, provider: ProviderLane, requests: list[EmbeddingRequest]
) -> AsyncIterator[StreamEvent]:
    """Send the batches, a few at a time, and return the joined result. The first failure cancels all batches."""
    timeouts, name = call.target.timeouts, call.target.provider
    places = asyncio.Semaphore(embedding_batches.MAX_PARALLEL_REQUESTS)

    async def one(request: EmbeddingRequest) -> EmbeddingResult:
        async with places:
            deadlines = Deadlines(timeouts, name, streaming=False)
            events = await call_provider(call, provider, request, deadlines)
            return await deadlines.wait_for_first_event(read_single_event(events, EmbeddingResult))

    async def all_of_them() -> list[EmbeddingResult]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    try:
        limit = Deadlines(timeouts, name, streaming=False, slow_start=True)
        results = await limit.wait_for_first_event(all_of_them())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    yield embedding_batches.join(requests, results)


async def answer_stored_object(
    gate: Gate, snapshot: Snapshot, call: Call, wire_format: FormatLane, request: StoredObjectRequest
) -> PreparedAnswer:
    """Answer a request about one object with the upstream that keeps this object.

    Raises the error for an unknown id when the account has no record of it or the upstream no longer has the object.
    """
    reference = request.reference
    kept = await upstream_objects.find_kept(call, reference)
    provider = snapshot.targets.providers.get(kept.provider)
    if provider is None:
        raise upstream_objects.gone_error(reference)
    target = snapshot.targets.make_task_target(kept.model, kept.provider, kept.upstream_model, kept.key)
    call = call.replace(model=kept.model, target=target, pool=gate.pools.get_pool(provider))
    call.progress.count_attempt()
    call.charge.subtract(kept.counted_tokens)
    lane, request = provider.usable_lane, replace(request, unmetered=kept.unmetered)
    try:
        outgoing = await lane.translate_request(call, request)
        deadlines = make_deadlines(call, streaming=request.stream)
        call.progress.send()
        incoming = await deadlines.wait_for_first_event(lane.call_upstream(call, outgoing))
        reply = forward_response(call, wire_format, lane, request, incoming, deadlines)
        reply = await finish_forwarding(gate, call, wire_format, request, reply, deadlines)
    except BaseException as error:
        if isinstance(error, GateError):
            redact_error(target, error)
        outcomes.note_failure(gate.health, call, error)
        if isinstance(error, UpstreamRefused) and error.status == 404:
            raise reference.not_found() from error
        raise
    outcomes.note_start(gate.health, call)
    if request.method == "DELETE":
        await upstream_objects.forget(call, reference)
    return PreparedAnswer(call, reply)


async def begin_answer(call: Call, wire_format: FormatLane, reply: Reply) -> PreparedAnswer:
    """Return the answer for a reply without a provider call. Read its first chunk, so that a failure keeps its status."""
    return PreparedAnswer(call, await _read_first_chunk(reply, wire_format, metering.CheckedChunks(wire_format)))


async def _read_first_chunk(reply: Reply, wire_format: FormatLane, last: stages.Attributed[bytes]) -> Reply:
    """Return `reply` after reading its first chunk, so the status line may be sent. `last` is the last step of the chunks.

    Raises exceptions of the format as its PluginError.
    """
    return await read_first_chunk(reply, wire_format, stages.add_step(reply.chunks, last))


async def read_first_chunk(reply: Reply, wire_format: FormatLane, chunks: stages.Flow[bytes]) -> Reply:
    """Return `reply` with `chunks`, which have all steps, after reading the first chunk."""
    try:
        first = await chunks.next_batch()
    except StopAsyncIteration:
        raise wire_format.contract_error("the reply has no chunk") from None
    if chunks.is_exhausted and reply.content_type.startswith("application/json"):
        await chunks.aclose()
        return reply.replace(chunks=BufferedBody(b"".join(first)))
    chunks.put_back(first)
    return reply.replace(chunks=chunks)
