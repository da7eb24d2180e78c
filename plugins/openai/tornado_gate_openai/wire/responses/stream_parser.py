"""Convert the events of a stream to common stream events: the client half, which is lenient. No I/O.

Missing deltas are taken from the ``done`` events, and missing items from ``response.completed``. Events of an unknown type
are ignored.

Source: openai-python 3.52, types/responses/response_stream_event.py and the types it imports.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

from tornado_gate.errors import UpstreamError
from tornado_gate.streams import stages
from tornado_gate.types import (
    Finish,
    Part,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    Refusal,
    ResponseStart,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    UsageReport,
)
from tornado_gate.types.value import State, field, replace
from tornado_gate_openai.wire.responses.errors import find_error
from tornado_gate_openai.wire.responses.message_parser import parse_call, parse_reasoning
from tornado_gate_openai.wire.responses.response import (
    parse_answered_part,
    parse_item,
    read_created_at,
    read_string,
    select_top_extra,
)
from tornado_gate_openai.wire.responses.usage import parse_reason, parse_usage

_END_EVENTS: Final = ("response.completed", "response.incomplete")
_CALL_TYPES: Final = ("function_call", "custom_tool_call")
_TEXT_DELTAS: Final[Mapping[str, PartKind]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
}
_THINKING_DELTAS: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_CALL_DELTAS: Final = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")


def parse_stream(frames: AsyncIterator[Any]) -> AsyncIterator[StreamEvent]:
    """Return the common events of a stream. `frames` are the parsed events from `sse.read_json_frames`.

    Raises UpstreamError for an event that is not an object. If the stream breaks off, there is no `Finish` event, and the
    core reports an error.
    """
    return stages.add_step(frames, _ResponsesStreamParser())


class _OpenItemPart(State):
    """An open part. `pieces` are its deltas so far."""

    index: int
    kind: PartKind
    pieces: list[str] = field(default_factory=list)


class _ItemState(State):
    """The state of one output item: its open parts by content index, the closed indexes, and whether it is done."""

    parts: dict[int, _OpenItemPart] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    summaries: int = 0
    done: bool = False


class _ResponsesStreamParser(stages.Step[Any, StreamEvent]):
    """The parser state of one stream."""

    takes_large = True

    def __init__(self) -> None:
        self._finished = False
        self._started = False
        self._calls = False
        self._next_part = 0
        self._items: dict[int, _ItemState] = {}

    def take(self, items: list[Any], out: list[StreamEvent]) -> bool:
        for frame in items:
            if not isinstance(frame, Mapping):
                raise UpstreamError("The upstream sent a stream event that is not an object. Retry the request.")
            kind = read_string(frame.get("type"))
            failing = kind in ("error", "response.failed", "")
            if failing and (error := find_error(frame)) is not None:
                out.append(StreamError(error=error))
                return True
            out.extend(self._read(kind, frame))
            if self._finished:
                return True
        return False

    def _read(self, kind: str, frame: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the common events of one upstream event."""
        response = frame.get("response")
        if isinstance(response, Mapping) and not self._started:
            yield self._start_response(response)
        if kind in _END_EVENTS:
            yield from self._finish_response(response if isinstance(response, Mapping) else {})
            return
        index = frame.get("output_index")
        if not isinstance(index, int):
            return
        if not self._started:
            yield self._start_response({})
        item = self._items.setdefault(index, _ItemState())
        if not item.done:
            yield from self._read_item(item, kind, frame)

    def _start_response(self, response: Mapping[str, Any]) -> ResponseStart:
        self._started = True
        return ResponseStart(
            model=read_string(response.get("model")),
            id=read_string(response.get("id")) or None,
            created=read_created_at(response),
            extra=select_top_extra(response),
        )

    def _read_item(self, item: _ItemState, kind: str, frame: Mapping[str, Any]) -> Iterator[StreamEvent]:
        delta = read_string(frame.get("delta"))
        number = frame.get("content_index")
        number = number if isinstance(number, int) else 0
        whole = frame.get("item")
        if kind in _TEXT_DELTAS:
            yield from self._append_text(item, number, _TEXT_DELTAS[kind], delta, _read_logprobs(frame))
        elif kind in _THINKING_DELTAS:
            yield from self._append_thinking(item, frame, delta)
        elif kind in _CALL_DELTAS and (part := item.parts.get(0)) is not None:
            yield from _append_delta(part, delta)
        elif kind == "response.content_part.done" and isinstance(frame.get("part"), Mapping):
            yield from self._close_content(item, number, parse_answered_part(frame["part"]))
        elif kind == "response.output_item.added" and isinstance(whole, Mapping) and whole.get("type") in _CALL_TYPES:
            yield from self._start_call(item, parse_call(whole))
        elif kind == "response.output_item.done" and isinstance(whole, Mapping):
            yield from self._close_item(item, whole)

    def _open_part(self, item: _ItemState, number: int, start: PartStart) -> Iterator[StreamEvent]:
        item.parts[number] = _OpenItemPart(self._next_part, start.kind)
        yield replace(start, index=self._next_part)
        self._next_part += 1

    def _append_text(
        self,
        item: _ItemState,
        number: int,
        kind: PartKind,
        text: str,
        logprobs: tuple[Mapping[str, Any], ...] | None = None,
    ) -> Iterator[StreamEvent]:
        if number in item.closed:
            return
        if number not in item.parts:
            yield from self._open_part(item, number, PartStart(index=0, kind=kind))
        yield from _append_delta(item.parts[number], text, logprobs)

    def _append_thinking(self, item: _ItemState, frame: Mapping[str, Any], text: str) -> Iterator[StreamEvent]:
        """Yield the events of a summary or reasoning delta; the parts of a summary become paragraphs of one text."""
        summary = frame.get("summary_index")
        if isinstance(summary, int) and summary > item.summaries:
            item.summaries = summary
            text = "\n\n" + text
        yield from self._append_text(item, 0, "thinking", text)

    def _start_call(self, item: _ItemState, call: ToolCall) -> Iterator[StreamEvent]:
        if 0 in item.parts:
            return
        self._calls = True
        start = PartStart(index=0, kind="tool_call", id=call.id, name=call.name, tool_kind=call.kind, extra=call.extra)
        yield from self._open_part(item, 0, start)

    def _close_content(self, item: _ItemState, number: int, part: Part) -> Iterator[StreamEvent]:
        if number in item.closed:
            return
        if isinstance(part, (Text, Refusal)):
            kind: PartKind = "text" if isinstance(part, Text) else "refusal"
            yield from self._append_text(item, number, kind, "")
            yield from _make_up(item.parts[number], part.text)
            citations = part.citations if isinstance(part, Text) else ()
            yield PartEnd(index=item.parts.pop(number).index, citations=citations, extra=part.extra)
        item.closed.add(number)

    def _close_item(self, item: _ItemState, whole: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events that close an item, with the content that its deltas did not contain."""
        kind = whole.get("type")
        if kind == "message":
            for number, part in enumerate(parse_item(whole)):
                yield from self._close_content(item, number, part)
        elif kind in _CALL_TYPES:
            call = parse_call(whole)
            yield from self._start_call(item, call)
            yield from _make_up(item.parts[0], call.arguments)
        elif kind == "reasoning":
            yield from self._close_reasoning(item, parse_reasoning(whole))
        else:
            for part in parse_item(whole):
                yield from self._open_part(item, 0, PartStart(index=0, kind="vendor", part=part))
        yield from _close_all(item)
        item.done = True

    def _close_reasoning(self, item: _ItemState, thinking: Thinking) -> Iterator[StreamEvent]:
        if 0 not in item.parts:
            if not thinking.text and thinking.signature is None:
                return
            yield from self._open_part(item, 0, PartStart(index=0, kind="thinking", redacted=thinking.redacted))
        part = item.parts.pop(0)
        yield from _make_up(part, thinking.text)
        yield PartEnd(index=part.index, signature=thinking.signature, extra=thinking.extra)

    def _finish_response(self, response: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if not self._started:
            yield self._start_response(response)
        output = response.get("output")
        for index, whole in enumerate(output if isinstance(output, list) else ()):
            item = self._items.setdefault(index, _ItemState())
            if not item.done and isinstance(whole, Mapping):
                yield from self._close_item(item, whole)
        for item in self._items.values():
            yield from _close_all(item)
        if (usage := parse_usage(response.get("usage"))) is not None:
            yield UsageReport(usage=usage)
        reason, raw = parse_reason(response, self._calls)
        yield Finish(reason=reason, raw=raw)
        self._finished = True


def _append_delta(
    part: _OpenItemPart, text: str, logprobs: tuple[Mapping[str, Any], ...] | None = None
) -> Iterator[StreamEvent]:
    if text or logprobs:
        part.pieces.append(text)
        yield PartDelta(index=part.index, data=text, logprobs=logprobs)


def _make_up(part: _OpenItemPart, whole: str) -> Iterator[StreamEvent]:
    """Yield a delta with the remaining text of `whole` if the previous deltas are only its beginning."""
    text = "".join(part.pieces)
    if whole.startswith(text):
        yield from _append_delta(part, whole[len(text) :])


def _close_all(item: _ItemState) -> Iterator[StreamEvent]:
    for part in item.parts.values():
        yield PartEnd(index=part.index)
    item.parts.clear()


def _read_logprobs(frame: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...] | None:
    logprobs = frame.get("logprobs")
    return tuple(logprobs) if isinstance(logprobs, list) and logprobs else None
