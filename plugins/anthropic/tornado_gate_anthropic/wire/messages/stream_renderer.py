"""Common stream events as Anthropic stream events: the server half. Pure.

The format has one open block at a time, with consecutive indexes from 0. The events of a part that starts while another is
open are queued until that one ends. ``message_start`` is delayed until the first event after ResponseStart, so that it
contains the prompt's usage when the upstream reports it early; ``message_delta`` is sent last, because other upstreams
report usage late.

Source: anthropic-python 2.11, types/raw_*_event.py and types/raw_content_block_delta.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any, Final

import orjson

from tornado_gate.streams import sse, stages
from tornado_gate.streams.text_runs import RUN_LENGTH, find_texts, frame_texts
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    ToolCall,
    UsageReport,
)
from tornado_gate.types.value import State, field
from tornado_gate_anthropic.wire.messages.citations import render_citations
from tornado_gate_anthropic.wire.messages.json_values import dump_compact
from tornado_gate_anthropic.wire.messages.parts import render_call, render_signature
from tornado_gate_anthropic.wire.messages.response import (
    FINISH_EXTRA,
    TOP_EXTRA,
    complete_block,
    make_response_id,
    render_answer_blocks,
    select_known_extra,
)
from tornado_gate_anthropic.wire.messages.server_tools import count_uses
from tornado_gate_anthropic.wire.messages.usage import (
    add_server_tool_uses,
    render_delta_usage,
    render_stop,
    render_usage,
)

Event = dict[str, Any]

_CALL_EXTRA: Final = ("caller", "toolset_name")
_TEXT_DELTAS: Final = {
    "text": ("text_delta", "text"),
    "refusal": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_call": ("input_json_delta", "partial_json"),
}
"""By part kind, for parts whose deltas are text: the delta type, and its member that holds the text."""


def render_stream(events: AsyncIterator[StreamEvent], *, id: str, model: str) -> AsyncIterator[Event]:
    """The data of each event; ``type`` is also the event name. Raises the error of a StreamError.

    `id` is used when the upstream's id does not have this format's prefix. Raises UpstreamError for a finish reason of
    "error".
    """
    return stages.add_step(events, _RenderMessagesEventsStep(MessagesStreamRenderer(id, model)))


class _RenderMessagesEventsStep(stages.Step[StreamEvent, Event]):
    __slots__ = ("_writer",)

    takes_large = True

    def __init__(self, writer: MessagesStreamRenderer) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[Event]) -> None:
        for event in items:
            out += self._writer.write(event)

    def end(self, out: list[Event]) -> None:
        out += self._writer.end()


class _MessagesPartState(State):
    """A part that is open or queued. `waiting` holds its events that are not written yet."""

    start: PartStart
    in_pieces: bool
    waiting: list[PartStart | PartDelta | PartEnd] = field(default_factory=list)
    ended: bool = False
    block_open: bool = False
    pieces: list[str] = field(default_factory=list)
    """Collected text of a part that is written as a whole."""


class MessagesStreamRenderer:
    """The renderer of one response stream. `id` and `model` are the parameters of `render_stream`."""

    def __init__(self, id: str, model: str) -> None:
        self._id = id
        self._model = model
        self._started = False
        self._usage: UsageReport | None = None
        self._finish: Finish | None = None
        self._start_extra: dict[str, Any] = {}
        self._next_index = 0
        self._parts: dict[int, _MessagesPartState] = {}
        self._queue: deque[_MessagesPartState] = deque()  # only the first part may be written
        self._written: list[Event] = []
        self._goes_on = -1  # index of the open part whose deltas are text only, else -1
        self._uses: list[dict[str, int]] = []  # the counted uses of server tools
        self._refusal: list[str] = []
        self._frame = (b"", b"")  # bytes before and after the text in its delta frames

    def append_frames(self, events: Sequence[StreamEvent], out: list[bytes]) -> None:
        """Append the server-sent events for `events` to `out`.

        Raises as `write` does; frames before the error are in `out`.
        """
        if len(events) < RUN_LENGTH:
            self._append_each(events, out)
            return
        for kind, run in groupby(events, type):
            together: list[Any] = [*run]
            if kind is PartDelta and together[0].index != self._goes_on:
                self._append_each(together[:1], out)  # it may open the block
                del together[0]
            if kind is PartDelta and (found := find_texts(together)) is not None and found[0] == self._goes_on:
                out.append(frame_texts(found[1], *self._frame))
            else:
                self._append_each(together, out)

    def _append_each(self, events: Iterable[StreamEvent], out: list[bytes]) -> None:
        for event in events:
            if type(event) is PartDelta and event.index == self._goes_on and (text := event.data) and type(text) is str:
                before, after = self._frame
                out.append(before + orjson.dumps(text) + after)
            else:
                out += map(render_frame, self.write(event))

    def write(self, event: StreamEvent) -> list[Event]:
        """The wire events for one common event. Events of choices other than 0 are ignored.

        Raises the error of a StreamError.
        """
        written: list[Event] = []
        self._written = written
        match event:
            case PartDelta() if (part := self._parts.get(event.index)) is not None:
                if part is self._queue[0]:
                    self._write_delta(part, event)
                else:
                    part.waiting.append(event)
            case PartStart(choice=0):
                self._start_message()
                part = self._parts[event.index] = _MessagesPartState(event, _is_streamed(event))
                self._queue.append(part)
                self._take_event(part, event)
            case PartEnd() if (part := self._parts.get(event.index)) is not None:
                part.ended = True
                self._take_event(part, event)
            case ResponseStart():
                self._id = make_response_id(event.id, self._id)
                self._start_extra = select_known_extra(event.extra, *TOP_EXTRA)
            case UsageReport():
                self._usage = event
                self._start_message()
            case Finish(choice=0):
                self._finish = event
                self._start_message()
            case StreamError(error=error):
                raise error
        return written

    def end(self) -> list[Event]:
        """The last two wire events. Raises UpstreamError when the finish reason is "error" or missing."""
        written: list[Event] = []
        self._written = written
        finish = self._finish or Finish(reason="error")
        usage = self._usage.usage if self._usage is not None else None
        refusal = "".join(self._refusal)
        delta = {
            **render_stop(
                finish.reason, finish.raw, finish.stop_sequence, refusal or finish.explanation, bool(refusal)
            ),
            "container": None,
            **select_known_extra(finish.extra, *FINISH_EXTRA, "container"),
        }
        self._start_message()
        counts = add_server_tool_uses(render_delta_usage(usage), self._uses)
        written.append({"type": "message_delta", "delta": delta, "usage": counts})
        written.append({"type": "message_stop"})
        return written

    def _start_message(self) -> None:
        if self._started:
            return
        self._started = True
        message = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "container": None,
            "usage": render_usage(self._usage.usage if self._usage is not None else None),
            **self._start_extra,
        }
        self._written.append({"type": "message_start", "message": message})

    def _take_event(self, part: _MessagesPartState, event: PartStart | PartEnd) -> None:
        """Write the start or end of a part, or queue it while another part is open."""
        if part is not self._queue[0]:
            part.waiting.append(event)
            return
        self._write_event(part, event)
        while self._queue and self._queue[0].ended:
            del self._parts[self._queue.popleft().start.index]
            if self._queue:
                for kept in self._queue[0].waiting:
                    self._write_event(self._queue[0], kept)
                self._queue[0].waiting.clear()

    def _write_event(self, part: _MessagesPartState, event: PartStart | PartDelta | PartEnd) -> None:
        match event:
            case PartStart(kind="tool_call") if part.in_pieces:
                call = ToolCall(id=event.id, name=event.name, arguments="", extra=event.extra)
                self._open_block(
                    part, complete_block(render_call(call)) | select_known_extra(event.extra, *_CALL_EXTRA)
                )
            case PartDelta():
                self._write_delta(part, event)
            case PartEnd():
                self._write_end(part, event)

    def _write_delta(self, part: _MessagesPartState, event: PartDelta) -> None:
        start = part.start
        text = event.transcript if start.kind == "audio" else event.data
        if not text or not isinstance(text, str) or start.part is not None:
            return
        if not part.in_pieces:
            part.pieces.append(text)
        else:
            if start.kind == "thinking":
                self._open_thinking(part)
            elif not part.block_open:
                self._open_block(part, complete_block({"type": "text", "text": ""}))
            if start.kind == "refusal":
                self._refusal.append(text)
            kind, member = _TEXT_DELTAS.get(start.kind, _TEXT_DELTAS["text"])
            self._render_delta({"type": kind, member: text})

    def _write_end(self, part: _MessagesPartState, event: PartEnd) -> None:
        start = part.start
        if not part.in_pieces:
            self._write_whole(part, event)
        elif start.kind == "thinking" and event.signature is not None:
            self._open_thinking(part)
            self._render_delta({"type": "signature_delta", "signature": render_signature(event.signature)})
        elif event.citations and start.kind == "text":
            if not part.block_open:
                self._open_block(part, complete_block({"type": "text", "text": ""}))
            for citation in render_citations(event.citations):
                self._render_delta({"type": "citations_delta", "citation": citation})
        if part.block_open:
            self._close_block()

    def _write_whole(self, part: _MessagesPartState, event: PartEnd) -> None:
        """Write the blocks of a part that is not streamed, and leave the last one open."""
        self._uses.append(count_uses(part.start.part))
        for block in _render_whole_blocks(part, event):
            if part.block_open:
                self._close_block()
            if block["type"] == "server_tool_use":  # as the vendor: clients read the input from deltas
                self._open_block(part, {**block, "input": {}})
                self._render_delta({"type": "input_json_delta", "partial_json": dump_compact(block.get("input") or {})})
            else:
                self._open_block(part, block)

    def _close_block(self) -> None:
        self._goes_on = -1
        self._written.append({"type": "content_block_stop", "index": self._next_index - 1})

    def _open_block(self, part: _MessagesPartState, block: dict[str, Any]) -> None:
        part.block_open = True
        self._next_index += 1
        self._written.append({"type": "content_block_start", "index": self._next_index - 1, "content_block": block})
        if part.in_pieces and part.start.kind in _TEXT_DELTAS and part.start.kind != "refusal":
            kind, member = _TEXT_DELTAS[part.start.kind]
            before, _, after = render_frame(self._make_delta_event({"type": kind, member: ""})).rpartition(b'""')
            self._goes_on, self._frame = part.start.index, (before, after)

    def _open_thinking(self, part: _MessagesPartState) -> None:
        if not part.block_open:
            self._open_block(part, {"type": "thinking", "thinking": "", "signature": ""})

    def _render_delta(self, delta: dict[str, Any]) -> None:
        self._written.append(self._make_delta_event(delta))

    def _make_delta_event(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._next_index - 1, "delta": delta}


def render_frame(event: Event) -> bytes:
    """The bytes of one server-sent event."""
    return sse.render_json(event, event["type"])


def _is_streamed(start: PartStart) -> bool:
    """Return whether a part is written delta by delta; other parts are written when they end."""
    if start.part is not None or start.redacted:
        return False
    return start.kind in ("text", "refusal", "thinking", "audio") or (
        start.kind == "tool_call" and start.tool_kind == "function"
    )


def _render_whole_blocks(part: _MessagesPartState, end: PartEnd) -> list[dict[str, Any]]:
    start = part.start
    if start.part is not None:
        return render_answer_blocks(start.part)
    if start.redacted:
        return [{"type": "redacted_thinking", "data": render_signature(end.signature)}] if end.signature else []
    call = ToolCall(id=start.id, name=start.name, arguments="".join(part.pieces), kind=start.tool_kind)
    return render_answer_blocks(call)
