"""The accounts that may use an object that an upstream keeps, by its id. Independent of wire formats.

An id that an upstream issues is recorded in the memory of the account that received it, before the caller receives the last
event with it. A request may only contain recorded ids, unless ``shared_objects`` of the provider entry allows others. Any other
id is rejected as unknown. A recorded id is sent only to the provider entry that keeps the object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec

from tornado_gate.errors import NotFound
from tornado_gate.streams.stages import Pause, Step, add_step
from tornado_gate.targets.configured_provider import ConfiguredProvider
from tornado_gate.targets.object_access import ObjectAccess
from tornado_gate.types import BufferedBody, Call, IssuedObjects, KeptObject, ObjectReference, Target, WireRequest
from tornado_gate.types.upstream_objects import make_record_name

Candidate = tuple[Target, ConfiguredProvider]


def list_references(call: Call, wire: WireRequest) -> Sequence[ObjectReference]:
    """Return the ids of upstream objects in a request, as its route lists them. Most requests have no such ids."""
    list_route_references = wire.route.references
    return () if list_route_references is None else list_route_references(call, wire)


async def find_access(call: Call, wire: WireRequest, references: Sequence[ObjectReference]) -> ObjectAccess:
    """Look up the references of a request in the account's records."""
    names = [make_record_name(reference.kind, reference.id) for reference in references]
    known = await call.memory.get_many({*names, *(reference.memory_name for reference in references)} - {""})
    kept: list[tuple[ObjectReference, KeptObject]] = []
    copied: list[KeptObject] = []
    unknown: list[ObjectReference] = []
    for name, reference in zip(names, references, strict=True):
        if name in known and reference.memory_name in known:
            copied.append(msgspec.convert(known[name], KeptObject))
        elif name in known:
            kept.append((reference, msgspec.convert(known[name], KeptObject)))
        elif reference.memory_name not in known:
            unknown.append(reference)
    return ObjectAccess(wire.route.wire_format, tuple(kept), tuple(copied), tuple(unknown))


async def find_kept(call: Call, reference: ObjectReference) -> KeptObject:
    """Return the record of one object. Raises the reference's error if the account has no record."""
    record = await call.memory.get(make_record_name(reference.kind, reference.id))
    if record is None:
        raise reference.not_found()
    return msgspec.convert(record, KeptObject)


async def forget(call: Call, reference: ObjectReference) -> None:
    """Delete the record of an object that its upstream has deleted, and the format's copy."""
    await call.memory.delete(make_record_name(reference.kind, reference.id))
    if reference.memory_name:
        await call.memory.delete(reference.memory_name)


def gone_error(reference: ObjectReference) -> NotFound:
    """Return the error for an object whose provider entry is no longer in conf."""
    return NotFound(
        f"The {reference.kind} '{reference.id[:100]}' is kept by a provider that this gateway no longer has.",
        param=reference.param,
        code="provider_removed",
    )


async def record_issued(call: Call, issued: IssuedObjects, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the chunks of a response. Issued objects are recorded before the chunk that makes them due is yielded."""
    if isinstance(chunks, BufferedBody):
        await _record(call, issued)
        return chunks
    call.closing.push_async_callback(_record, call, issued)  # the caller may disconnect before the end
    return add_step(chunks, _RecordStep(call, issued))


class _RecordStep(Step[bytes, bytes]):
    __slots__ = ("_call", "_issued")

    def __init__(self, call: Call, issued: IssuedObjects) -> None:
        self._call = call
        self._issued = issued

    def take(self, items: list[bytes], out: list[bytes]) -> Pause | None:
        if self._issued.due and (self._issued.ids or self._issued.save is not None):
            return Pause(items, partial(_record, self._call, self._issued))
        out += items
        return None


async def _record(call: Call, issued: IssuedObjects) -> None:
    ids = list(issued.ids)
    if issued.save is not None:
        save, issued.save = issued.save, None
        await save()
    if not ids:
        return
    target, estimate_prompt = call.target, call.charge.estimate_prompt
    counted = await call.run(estimate_prompt) if issued.unmetered and estimate_prompt is not None else 0
    made = KeptObject(
        provider=target.provider,
        model=call.model,
        upstream_model=target.upstream_model,
        unmetered=issued.unmetered,
        key=target.key,
        counted_tokens=counted,
    )
    value = msgspec.structs.asdict(made)
    await call.memory.put_many({make_record_name(*name): value for name in ids}, call.responses.seconds)
    del issued.ids[: len(ids)]  # not earlier: a write that was cancelled is repeated at the end of the request
