"""Our events as the events of a stream: the server half. Pure.

The format has one open block at a time, with indexes that count up from 0. A part that begins while another is open waits:
what it says is kept, and goes out when the open one has ended. ``message_start`` waits for the first event that says
something, so that it has the usage of the prompt where the upstream tells it early; ``message_delta`` for the last,
because others tell it late.

Source: anthropic-python 2.11, types/raw_*_event.py and types/raw_content_block_delta.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tornado_gate import stream
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
from tornado_gate.wire.anthropic_messages.blocks import render_call, render_signature
from tornado_gate.wire.anthropic_messages.response import (
    FINISH_EXTRA,
    TOP_EXTRA,
    answer_id,
    known_extra,
    render_answer_block,
)
from tornado_gate.wire.anthropic_messages.usage import render_delta_usage, render_stop_reason, render_usage

Event = dict[str, Any]

_CALL_EXTRA: Final = ("caller", "toolset_name")


async def render_stream(events: AsyncIterator[StreamEvent], *, id: str, model: str) -> AsyncIterator[Event]:
    """The data of each event, whose ``type`` is also its name. Raises the error of a StreamError.

    `id` is used where the upstream gave none in this format's shape. Raises UpstreamError for an answer that the
    model could not finish.
    """
    writer = _Writer(id, model)
    try:
        async for event in events:
            for value in writer.write(event):
                yield value
    finally:
        await stream.close(events)
    for value in writer.end():
        yield value


@dataclass(slots=True)
class _Part:
    """A part that is open or waits. `waiting` are its events that have not been written yet."""

    start: PartStart
    waiting: list[PartStart | PartDelta | PartEnd] = field(default_factory=list)
    ended: bool = False
    block_open: bool = False
    pieces: list[str] = field(default_factory=list)
    """Text of a part that can only be written when it is whole."""


class _Writer:
    def __init__(self, id: str, model: str) -> None:
        self._id = id
        self._model = model
        self._started = False
        self._usage: UsageReport | None = None
        self._finish: Finish | None = None
        self._start_extra: dict[str, Any] = {}
        self._next_index = 0
        self._parts: dict[int, _Part] = {}
        self._queue: deque[_Part] = deque()  # the first is the one that may be written

    def write(self, event: StreamEvent) -> Iterator[Event]:
        """The events of one of ours. There is one choice: what belongs to another is passed over."""
        match event:
            case ResponseStart():
                self._id = answer_id(event.id, self._id)
                self._start_extra = known_extra(event.extra, *TOP_EXTRA)
            case UsageReport():
                self._usage = event
                yield from self._start_message()
            case PartStart(choice=0):
                yield from self._start_message()
                part = self._parts[event.index] = _Part(event)
                self._queue.append(part)
                yield from self._take(part, event)
            case PartDelta() | PartEnd() if (part_of := self._parts.get(event.index)) is not None:
                yield from self._take(part_of, event)
            case Finish(choice=0):
                self._finish = event
                yield from self._start_message()
            case StreamError(error=error):
                raise error

    def end(self) -> Iterator[Event]:
        """The last two events. Raises UpstreamError for an answer that the model could not finish."""
        finish = self._finish or Finish(reason="error")
        usage = self._usage.usage if self._usage is not None else None
        delta = {
            "stop_reason": render_stop_reason(finish.reason, finish.raw, finish.stop_sequence),
            "stop_sequence": finish.stop_sequence,
            **known_extra(finish.extra, *FINISH_EXTRA, "container"),
        }
        yield from self._start_message()
        yield {"type": "message_delta", "delta": delta, "usage": render_delta_usage(usage)}
        yield {"type": "message_stop"}

    def _start_message(self) -> Iterator[Event]:
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
            "usage": render_usage(self._usage.usage if self._usage is not None else None),
            **self._start_extra,
        }
        yield {"type": "message_start", "message": message}

    def _take(self, part: _Part, event: PartStart | PartDelta | PartEnd) -> Iterator[Event]:
        """Write an event of a part, or keep it while another part is open."""
        part.ended = part.ended or isinstance(event, PartEnd)
        if part is not self._queue[0]:
            part.waiting.append(event)
            return
        yield from self._write(part, event)
        while self._queue and self._queue[0].ended:
            del self._parts[self._queue.popleft().start.index]
            if self._queue:
                for kept in self._queue[0].waiting:
                    yield from self._write(self._queue[0], kept)
                self._queue[0].waiting.clear()

    def _write(self, part: _Part, event: PartStart | PartDelta | PartEnd) -> Iterator[Event]:
        match event:
            case PartStart(part=None):
                if _comes_in_pieces(event) and event.kind == "tool_call":
                    call = ToolCall(id=event.id, name=event.name, arguments="", extra=event.extra)
                    yield self._open(part, render_call(call) | known_extra(event.extra, *_CALL_EXTRA))
            case PartDelta():
                yield from self._write_delta(part, event)
            case PartEnd():
                yield from self._write_end(part, event)

    def _write_delta(self, part: _Part, event: PartDelta) -> Iterator[Event]:
        start = part.start
        text = event.transcript if start.kind == "audio" else event.data
        if not text or not isinstance(text, str) or start.part is not None:
            return
        if not _comes_in_pieces(start):
            part.pieces.append(text)
        elif start.kind == "tool_call":
            yield self._delta({"type": "input_json_delta", "partial_json": text})
        elif start.kind == "thinking":
            yield from self._open_thinking(part)
            yield self._delta({"type": "thinking_delta", "thinking": text})
        else:
            if not part.block_open:
                yield self._open(part, {"type": "text", "text": ""})
            yield self._delta({"type": "text_delta", "text": text})

    def _write_end(self, part: _Part, event: PartEnd) -> Iterator[Event]:
        start = part.start
        if not _comes_in_pieces(start):
            block = _whole_block(part, event)
            if block is not None:
                yield self._open(part, block)
        elif start.kind == "thinking" and event.signature is not None:
            yield from self._open_thinking(part)
            yield self._delta({"type": "signature_delta", "signature": render_signature(event.signature)})
        elif part.block_open and start.kind == "text":
            citations = {**start.extra, **event.extra}.get("citations")
            for citation in citations if isinstance(citations, list) else ():
                yield self._delta({"type": "citations_delta", "citation": citation})
        if part.block_open:
            yield {"type": "content_block_stop", "index": self._next_index - 1}

    def _open(self, part: _Part, block: dict[str, Any]) -> Event:
        part.block_open = True
        self._next_index += 1
        return {"type": "content_block_start", "index": self._next_index - 1, "content_block": block}

    def _open_thinking(self, part: _Part) -> Iterator[Event]:
        if not part.block_open:
            yield self._open(part, {"type": "thinking", "thinking": "", "signature": ""})

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._next_index - 1, "delta": delta}


def _comes_in_pieces(start: PartStart) -> bool:
    """Whether a part can be written as it comes; the others need their end, or came whole."""
    if start.part is not None or start.redacted:
        return False
    return start.kind in ("text", "refusal", "thinking", "audio") or (
        start.kind == "tool_call" and start.tool_kind == "function"
    )


def _whole_block(part: _Part, end: PartEnd) -> dict[str, Any] | None:
    start = part.start
    if start.part is not None:
        return render_answer_block(start.part)
    if start.redacted:
        return {"type": "redacted_thinking", "data": render_signature(end.signature)} if end.signature else None
    call = ToolCall(id=start.id, name=start.name, arguments="".join(part.pieces), kind=start.tool_kind)
    return render_answer_block(call)
