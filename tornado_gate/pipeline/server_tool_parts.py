"""Storage of an upstream's parts about its own tools. The same upstream gets them back in later turns.

A search, with its encrypted results, is content of the vendor's own format. A caller of another format gets an item or a block
instead, whose id contains the id of the tool use. The caller sends it back in the next turn. So the core stores the vendor's
parts for each account by this id. If the next request goes to the same provider entry and has the tool, the stored parts replace
the caller's part. With ``responses: {store: never}`` the core stores no parts. A part that combines a call and its result is
never stored, because vendors look it up by its id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from tornado_gate.streams.stages import Pause, Step, add_step
from tornado_gate.types import (
    Call,
    ChatRequest,
    Finish,
    Message,
    Part,
    PartStart,
    Request,
    StreamEvent,
    VendorPart,
    VendorTool,
)
from tornado_gate.types.value import replace

STORED_SECONDS = 24 * 3600.0


def _make_key(identity: str) -> str:
    return f"server-tool:{identity}"


def has_server_tools(request: Request) -> bool:
    """Return whether a request has a tool that several vendors run."""
    return isinstance(request, ChatRequest) and bool(request.tools and _list_kinds(request))


def record_parts(call: Call, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """Yield `events` unchanged. Store the parts about server tools before the last event."""
    return events if call.responses.store == "never" else add_step(events, _RecordedParts(call))


def _list_kinds(request: ChatRequest) -> set[str]:
    return {tool.server.kind for tool in request.tools if isinstance(tool, VendorTool) and tool.server is not None}


class _RecordedParts(Step[StreamEvent, StreamEvent]):
    __slots__ = ("_call", "_parts")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._parts: dict[str, list[Mapping[str, Any]]] = {}
        """The values of the parts of each use, by its id."""

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> Pause | None:
        for index, event in enumerate(items):
            if isinstance(event, PartStart) and isinstance(event.part, VendorPart):
                self._note(event.part)
            elif isinstance(event, Finish) and self._parts:
                out += items[:index]
                return Pause(items[index:], self._store)
        out += items
        return None

    def _note(self, part: VendorPart) -> None:
        if part.server is not None and part.server.step != "whole" and part.value:
            self._parts.setdefault(part.server.id, []).append(part.value)

    async def _store(self) -> None:
        issuer, parts = self._call.target.provider, self._parts
        self._parts = {}
        values = {_make_key(use): {"issuer": issuer, "parts": use_parts} for use, use_parts in parts.items()}
        await self._call.memory.put_many(values, STORED_SECONDS)


async def restore_parts(call: Call, request: Request) -> Request:
    """Return `request` with the stored parts of this target. They replace the parts that the gateway made from them."""
    if not isinstance(request, ChatRequest):
        return request
    kinds = _list_kinds(request)
    names = [
        _make_key(part.server.id)
        for message in request.messages
        for part in message.parts
        if isinstance(part, VendorPart) and part.server is not None and part.server.kind in kinds
    ]
    known = await call.memory.find_many(names) if names else {}
    own = {name: value["parts"] for name, value in known.items() if value["issuer"] == call.target.provider}
    if not own:
        return request
    return replace(request, messages=tuple(_restore_message(message, own) for message in request.messages))


def _restore_message(message: Message, own: Mapping[str, Any]) -> Message:
    return replace(message, parts=tuple(_restore_part(part, own) for part in message.parts))


def _restore_part(part: Part, own: Mapping[str, Any]) -> Part:
    """Return the part with the stored values. A result part gets no values, because the call's values include the result."""
    if (
        not isinstance(part, VendorPart)
        or part.server is None
        or (own_parts := own.get(_make_key(part.server.id))) is None
    ):
        return part
    return replace(part, restored=() if part.server.step == "result" else tuple(own_parts))
