"""The state that the steps of one request share: its translation, facts about its body, and where its hooks run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tornado_gate.admission.body_budget import SMALL_BYTES
from tornado_gate.admission.body_worker import LOOP_BYTES
from tornado_gate.codec.byte_search import contains_any, contains_quickly
from tornado_gate.guards.tool_texts import check_tool_texts
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.own_links import MARK, RARE_BYTE
from tornado_gate.plugins.hook_calls import Lane
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.types import NO_TARGET, Call, Request, WireRequest

Given = TypeVar("Given")
Result = TypeVar("Result")


class RequestCache:
    """The common request and the fields that its translation dropped. It is cached for later targets.

    A route with several operations has one common request for each operation.
    Hooks that process a large body run in the gate's worker. `needs_thread`: searches and verbatim hooks run there too.
    """

    def __init__(self, wire: WireRequest, wire_format: FormatLane, gate: Gate) -> None:
        self.wire = wire
        self.wire_format = wire_format
        self.is_large = len(wire.raw) > SMALL_BYTES
        self.needs_thread = self.is_large and not (wire.quick and len(wire.raw) <= LOOP_BYTES)
        self._gate = gate
        self.prompt_tokens: int | None = None
        self._made: dict[str, tuple[Request, list[str]]] = {}
        self._may_have_own_links: bool | None = None

    async def request(self, call: Call) -> Request:
        """Return the common request for the operation of `call`, and add its losses to `call`."""
        made = self._made.get(call.operation)
        if made is None:
            alone = call.replace(target=NO_TARGET, losses=[])
            translate = self.wire_format.invoke_translate_request
            made = await self.run_hook(translate, alone, self.wire), alone.losses
            if self.is_large:
                limit = self._gate.snapshot.config.limits.body_values
                await self._gate.worker.run(call.caller.account, check_tool_texts, made[0], limit)
            self._made[call.operation] = made
        request, losses = made
        call.losses.extend(losses)
        return request

    async def contains(self, call: Call, marks: tuple[bytes, ...]) -> bool:
        """Return whether one of `marks` occurs in the body."""
        if self.needs_thread:
            return await self._gate.worker.run(call.caller.account, contains_any, self.wire.raw, marks)
        return any(mark in self.wire.raw for mark in marks)

    async def may_have_own_links(self, call: Call) -> bool:
        """Return whether the body of a chat may have an address signed by the gateway. A large body is searched once."""
        if not self.is_large:
            return b"=" in self.wire.raw and MARK in self.wire.raw  # a single byte is found much faster
        if self._may_have_own_links is None:
            may_have = contains_quickly(self.wire.raw, MARK, RARE_BYTE)
            self._may_have_own_links = await self.contains(call, (MARK,)) if may_have is None else may_have
        return self._may_have_own_links

    async def run_hook(
        self, invoke: Callable[[Call, Given], Result | Awaitable[Result]], call: Call, value: Given
    ) -> Result:
        """Return the result of a hook. `invoke`, a method of a lane, calls it: for a large body in the thread."""
        returned: Any = self._run_in_thread(invoke, call, value) if self.is_large else invoke(call, value)
        result: Result = (await returned) if inspect.iscoroutine(returned) else returned
        return result

    def invoke_hook(
        self, lane: Lane, invoke: Callable[[Call, Given], Result | Awaitable[Result]], call: Call, value: Given
    ) -> Result | Awaitable[Result]:
        """Run a hook of the verbatim lane like `run_hook`. A hook that returns its result immediately needs no coroutine.

        Wrappers may read each byte, so they always get a large body in the thread.
        """
        if self.needs_thread or (self.is_large and lane.is_wrapped):
            return self._run_in_thread(invoke, call, value)
        return invoke(call, value)

    async def _run_in_thread(
        self, invoke: Callable[[Call, Given], Result | Awaitable[Result]], call: Call, value: Given
    ) -> Result:
        returned: Any = await self._gate.worker.run(call.caller.account, invoke, call, value)
        result: Result = (await returned) if inspect.iscoroutine(returned) else returned
        return result
