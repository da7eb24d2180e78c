"""The vocabulary's events to those of a stream: the server half. Pure.

``sequence_number`` counts from 0. An item has the next ``output_index`` when it begins and keeps it and its id; neighbouring
texts and refusals are the content of one message. Items whose parts overlap in the vocabulary do so here too.

Source: openai-python 3.52, types/responses/response_stream_event.py and lib/streaming/responses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import stages
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
from tornado_gate.wire.openai_responses import errors
from tornado_gate.wire.openai_responses.output_items import (
    Ids,
    call_item,
    call_prefix,
    message_item,
    reasoning_item,
    refusal_content,
    text_content,
    vendor_logprob,
    whole_item,
)
from tornado_gate.wire.openai_responses.response import skeleton, top_extra
from tornado_gate.wire.openai_responses.usage import render_status, render_usage

Event = dict[str, Any]
_CONTENT = ("text", "refusal", "audio")


def render_events(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, created: int, asked: Mapping[str, Any]
) -> AsyncIterator[Event]:
    """The events of a stream; each is a frame whose name is its ``type``. `asked` is the request's body.

    The last is ``response.completed`` or ``response.incomplete``, or ``error`` and ``response.failed``. Raises the error of
    a StreamError that comes before anything else was said.
    """
    return stages.then(events, _Events(EventWriter(skeleton(id=id, model=model, created=created, asked=asked))))


class _Events(stages.Step[StreamEvent, Event]):
    __slots__ = ("_writer",)

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[Event]) -> bool:
        writer = self._writer
        for event in items:
            if not isinstance(event, StreamError):
                out.extend(writer.write(event))
            elif writer.begun:
                out.extend(writer.fail(event.error))
                return True
            else:
                raise event.error
        return False

    def end(self, out: list[Event]) -> None:
        out.extend(self._writer.end())


class _Message(State):
    """A message item that may still grow: its content, and the parts of it that are open."""

    id: str
    place: int
    content: list[Event | None] = field(default_factory=list)
    open: int = 0


class _OpenPart(State):
    """A part that has begun: the item that it is or is in, and what was said of it."""

    start: PartStart
    id: str
    place: int
    number: int = 0
    message: _Message | None = None
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def at(self) -> Event:
        """Where it stands, for an event."""
        where: Event = {"item_id": self.id, "output_index": self.place}
        return where | ({"content_index": self.number} if self.message is not None else {})


class EventWriter:
    """Writes one stream. `begun` says that something was written."""

    def __init__(self, response: Event) -> None:
        self.begun = False
        self._response = response
        self._ids = Ids(response["id"])
        self._number = 0
        self._places = 0
        self._output: dict[int, Event] = {}
        self._message: _Message | None = None
        self._parts: dict[int, _OpenPart] = {}
        self._finish: Finish | None = None

    def write(self, event: StreamEvent) -> Iterator[Event]:
        """The events of one event of the vocabulary. What belongs to a second choice has no place here."""
        if not self.begun and not isinstance(event, ResponseStart):
            yield from self._begin()
        match event:
            case PartDelta(index=index) if index in self._parts:
                yield from self._write_delta(self._parts[index], event)
            case PartStart(choice=0):
                yield from self._write_start(event)
            case PartEnd(index=index) if index in self._parts:
                yield from self._write_end(self._parts.pop(index), event)
            case UsageReport(usage=usage):
                self._response["usage"] = render_usage(usage)
            case Finish(choice=0):
                self._finish = event
            case ResponseStart():
                self._response["created_at"] = event.created or self._response["created_at"]
                self._response |= top_extra(event.extra)

    def end(self) -> Iterator[Event]:
        """The events that end a stream which ended well. An answer that failed is told like one."""
        if self._finish is None:
            yield from self.fail(UpstreamError("The upstream's answer ended before it was complete."))
            return
        status, details = render_status(self._finish.reason)
        if status == "failed":
            yield from self.fail(UpstreamError("The model's answer failed."))
            return
        yield from self._close_message("completed" if status == "completed" else "incomplete")
        self._response |= {"status": status, "incomplete_details": details, "output": self._items()}
        yield self._event(f"response.{status}", response=self._response)

    def fail(self, error: GateError) -> Iterator[Event]:
        """The events that end a stream which failed."""
        if not self.begun:
            yield from self._begin()
        yield errors.render_event(error, self._take_number())
        response = errors.failed_response(self._response | {"output": self._items()}, error)
        yield self._event("response.failed", response=response)

    def _items(self) -> list[Event]:
        return [self._output[place] for place in sorted(self._output)]

    def _take_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _event(self, kind: str, **members: Any) -> Event:
        return {"type": kind, "sequence_number": self._take_number(), **members}

    def _begin(self) -> Iterator[Event]:
        self.begun = True
        yield self._event("response.created", response=dict(self._response))
        yield self._event("response.in_progress", response=dict(self._response))

    def _take_place(self) -> int:
        self._places += 1
        return self._places - 1

    def _added(self, place: int, item: Event) -> Event:
        return self._event("response.output_item.added", output_index=place, item=item)

    def _done(self, place: int, item: Event) -> Event:
        self._output[place] = item
        return self._event("response.output_item.done", output_index=place, item=item)

    def _write_start(self, start: PartStart) -> Iterator[Event]:
        if start.kind in _CONTENT and start.part is None:
            yield from self._start_content(start)
            return
        if self._message is not None and not self._message.open:
            yield from self._close_message("completed")
        if start.part is not None:
            item = whole_item(self._ids, start.part)
            if item is not None:
                place = self._take_place()
                yield self._added(place, item)
                yield self._done(place, item)
        elif start.kind == "thinking":
            yield from self._start_thinking(start)
        elif start.kind == "tool_call":
            part = self._open(start, call_prefix(start.tool_kind))
            yield self._added(part.place, call_item(part.id, _call(part), "in_progress"))

    def _open(self, start: PartStart, prefix: str) -> _OpenPart:
        part = self._parts[start.index] = _OpenPart(start, self._ids.make(prefix), self._take_place())
        return part

    def _start_thinking(self, start: PartStart) -> Iterator[Event]:
        part = self._open(start, "rs")
        yield self._added(part.place, reasoning_item(part.id, None))
        if not start.redacted:
            summary = {"type": "summary_text", "text": ""}
            yield self._event("response.reasoning_summary_part.added", **part.at(), summary_index=0, part=summary)

    def _start_content(self, start: PartStart) -> Iterator[Event]:
        message = self._message
        if message is None or message.place != self._places - 1:
            if message is not None and not message.open:
                yield from self._close_message("completed")
            message = self._message = _Message(self._ids.make("msg"), self._take_place())
            yield self._added(message.place, message_item(message.id, "in_progress", []))
        part = _OpenPart(start, message.id, message.place, len(message.content), message)
        self._parts[start.index] = part
        message.content.append(None)
        message.open += 1
        empty = refusal_content("") if start.kind == "refusal" else text_content("", {})
        yield self._event("response.content_part.added", **part.at(), part=empty)

    def _write_delta(self, part: _OpenPart, event: PartDelta) -> Iterator[Event]:
        text = event.transcript if part.start.kind == "audio" else event.data
        if not isinstance(text, str) or not (text or event.logprobs):
            return
        part.pieces.append(text)
        match part.start.kind:
            case "text" | "audio":
                logprobs = [vendor_logprob(entry) for entry in event.logprobs or ()]
                part.logprobs += logprobs
                yield self._event("response.output_text.delta", **part.at(), delta=text, logprobs=logprobs)
            case "refusal":
                yield self._event("response.refusal.delta", **part.at(), delta=text)
            case "thinking":
                yield self._event("response.reasoning_summary_text.delta", **part.at(), summary_index=0, delta=text)
            case "tool_call":
                yield self._event(f"response.{_argument_words(part)[0]}.delta", **part.at(), delta=text)

    def _write_end(self, part: _OpenPart, end: PartEnd) -> Iterator[Event]:
        match part.start.kind:
            case "thinking":
                yield from self._end_thinking(part, end)
            case "tool_call":
                words, member = _argument_words(part)
                call = _call(part, end)
                yield self._event(f"response.{words}.done", **part.at(), **{member: call.arguments}, name=call.name)
                yield self._done(part.place, call_item(part.id, call, "completed"))
            case _:
                yield from self._end_content(part, end)

    def _end_thinking(self, part: _OpenPart, end: PartEnd) -> Iterator[Event]:
        text = None if part.start.redacted and not part.pieces else part.text
        if text is not None:
            done = {"type": "summary_text", "text": text}
            yield self._event("response.reasoning_summary_text.done", **part.at(), summary_index=0, text=text)
            yield self._event("response.reasoning_summary_part.done", **part.at(), summary_index=0, part=done)
        yield self._done(part.place, reasoning_item(part.id, text, end.signature))

    def _end_content(self, part: _OpenPart, end: PartEnd) -> Iterator[Event]:
        message = part.message
        assert message is not None, "content is in a message"
        if part.start.kind == "refusal":
            content = refusal_content(part.text)
            yield self._event("response.refusal.done", **part.at(), refusal=part.text)
        else:
            content = text_content(part.text, {**part.start.extra, **end.extra}, part.logprobs)
            for number, annotation in enumerate(content["annotations"]):
                added = {"annotation_index": number, "annotation": annotation}
                yield self._event("response.output_text.annotation.added", **part.at(), **added)
            yield self._event("response.output_text.done", **part.at(), text=part.text, logprobs=content["logprobs"])
        yield self._event("response.content_part.done", **part.at(), part=content)
        message.content[part.number] = content
        message.open -= 1
        if not message.open and message is not self._message:
            yield self._message_done(message, "completed")
        elif not message.open and message.place != self._places - 1:
            yield from self._close_message("completed")

    def _close_message(self, status: str) -> Iterator[Event]:
        message, self._message = self._message, None
        if message is not None:
            yield self._message_done(message, status)

    def _message_done(self, message: _Message, status: str) -> Event:
        content = [value for value in message.content if value is not None]
        return self._done(message.place, message_item(message.id, status, content))


def _call(part: _OpenPart, end: PartEnd | None = None) -> ToolCall:
    extra = {**part.start.extra, **(end.extra if end is not None else {})}
    start = part.start
    return ToolCall(id=start.id, name=start.name, arguments=part.text, kind=start.tool_kind, extra=extra)


def _argument_words(part: _OpenPart) -> tuple[str, str]:
    """How events and members for the arguments of a call are named."""
    if part.start.tool_kind == "custom":
        return "custom_tool_call_input", "input"
    return "function_call_arguments", "arguments"
