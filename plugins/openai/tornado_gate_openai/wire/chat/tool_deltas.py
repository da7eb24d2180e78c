"""Assemble tool calls from the deltas of one choice, for upstreams that use ``index`` and ``id`` differently. No I/O.

The vendor gives each call an index, and an id and name in its first delta only. Other upstreams omit the index or send index 0
for all calls. Some repeat the id in every delta, send no id, or send a whole call in one delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.types import PartDelta, PartEnd, PartStart, StreamEvent
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire.chat.parts import select_unknown_members
from tornado_gate_openai.wire.chat.response import make_call_id, read_name_and_arguments, read_string


class _ToolCallState(State):
    """A started call. `part` is -1 until its name is known, because a part cannot start without a name."""

    kind: str
    index: int | None
    part: int = -1
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    closed: bool = False

    def is_complete(self) -> bool:
        """Return whether the call is closed or its arguments are a complete JSON object."""
        if self.closed:
            return True
        text = "".join(self.pieces).strip()
        if self.kind != "function" or not text.endswith("}"):
            return False
        try:
            return isinstance(orjson.loads(text), dict)
        except orjson.JSONDecodeError:
            return False


class ToolCallDeltas:
    """The tool calls of choice `choice`. `next_part` returns the index for a new part of the stream."""

    def __init__(self, choice: int, next_part: Callable[[], int]) -> None:
        self._choice = choice
        self._next_part = next_part
        self._calls: list[_ToolCallState] = []
        self._by_id: dict[str, _ToolCallState] = {}
        self._by_index: dict[int, _ToolCallState] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, value: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events of one entry of ``tool_calls`` in a delta."""
        custom = value.get("type") == "custom" or "custom" in value
        kind, text_name = ("custom", "input") if custom else ("function", "arguments")
        inner = value.get(kind)
        inner = inner if isinstance(inner, dict) else {}
        name, text = read_name_and_arguments(inner, text_name)
        index, call_id = _get_index(value), read_string(value.get("id"))
        call = self._find_call(index, call_id, name)
        if call is None:
            yield from self.close_complete()
            call = _ToolCallState(kind, index)
            self._calls.append(call)
        self._note_members(call, call_id, name)
        call.extra |= select_unknown_members(
            {**value, kind: inner}, "id", "type", "index", inside=kind, inner=("name", text_name)
        )
        if text:
            yield from self._append_arguments(call, text)
        elif call.name and call.part < 0:
            yield self._start_call(call)

    def _find_call(self, index: int | None, call_id: str, name: str) -> _ToolCallState | None:
        """Return the call that a delta belongs to, or None if the delta starts a new call."""
        known = self._by_id.get(call_id)
        if known is not None and (index is None or known.index in (None, index)):
            return known
        call = self._by_index.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (call_id and call.id):  # the same index with another id is another call
            return None
        if name and (call.is_complete() or (index is None and call.name not in ("", name))):
            return None
        return call

    def _note_members(self, call: _ToolCallState, call_id: str, name: str) -> None:
        if call.index is not None:
            self._by_index[call.index] = call
        if call_id:
            known = self._by_id.setdefault(call_id, call)
            if call.part < 0:  # replace a duplicate id, because tool results are matched by id
                call.id = call_id if known is call else make_call_id()
        call.name = call.name or name

    def _append_arguments(self, call: _ToolCallState, text: str) -> Iterator[StreamEvent]:
        if call.closed:
            if text.strip() and text != "".join(call.pieces):
                raise UpstreamError(
                    f"The upstream sent more arguments for the completed tool call '{call.name}'. Retry the request."
                )
            return
        call.pieces.append(text)
        if call.part >= 0:
            yield PartDelta(index=call.part, data=text)
        elif call.name:
            yield self._start_call(call)
            yield PartDelta(index=call.part, data="".join(call.pieces))

    def _start_call(self, call: _ToolCallState) -> PartStart:
        call.part = self._next_part()
        call.id = call.id or make_call_id()
        extra, call.extra = call.extra, {}
        return PartStart(
            index=call.part,
            kind="tool_call",
            choice=self._choice,
            id=call.id,
            name=call.name,
            tool_kind=call.kind,
            extra=extra,
        )

    def close_complete(self) -> Iterator[StreamEvent]:
        """Close the calls whose arguments are complete, because another part starts."""
        for call in self._calls:
            if not call.closed and call.part >= 0 and call.is_complete():
                yield self._close_call(call)

    def close_all(self) -> Iterator[StreamEvent]:
        """Close every call, because the choice ends."""
        for call in self._calls:
            if call.closed:
                continue
            if call.part < 0:
                yield self._start_call(call)
                yield PartDelta(index=call.part, data="".join(call.pieces))
            yield self._close_call(call)

    def _close_call(self, call: _ToolCallState) -> PartEnd:
        call.closed = True
        return PartEnd(index=call.part, extra=call.extra)


def _get_index(value: Mapping[str, Any]) -> int | None:
    index = value.get("index")
    return index if isinstance(index, int) else None
