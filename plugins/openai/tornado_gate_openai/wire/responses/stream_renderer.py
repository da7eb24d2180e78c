"""Render common stream events as the events of a stream: the server half. No I/O.

``sequence_number`` counts from 0. An item gets the next ``output_index`` and an id when it starts and keeps both; adjacent
texts and refusals are the content of one message. Parts that overlap in the common events become items that overlap.

Source: openai-python 3.52, types/responses/response_stream_event.py and lib/streaming/responses.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import Any

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.http.upstream_errors import response_failed
from tornado_gate.streams import stages
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    ServerToolUse,
    StreamError,
    StreamEvent,
    ToolCall,
    UsageReport,
    VendorPart,
)
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire.responses import errors
from tornado_gate_openai.wire.responses.output_items import (
    ItemIdMaker,
    call_item,
    call_prefix,
    render_logprob,
    render_message_item,
    render_reasoning_item,
    render_refusal_content,
    render_text_content,
    render_whole_item,
)
from tornado_gate_openai.wire.responses.parts import WIRE_FORMAT
from tornado_gate_openai.wire.responses.response import get_completion_time, render_skeleton, select_top_extra
from tornado_gate_openai.wire.responses.server_tools import (
    CALL_TYPES,
    RUNNING,
    ServerToolCalls,
    make_item_id,
    render_item,
)
from tornado_gate_openai.wire.responses.usage import render_status, render_usage

Event = dict[str, Any]
_CONTENT_KINDS = ("text", "refusal", "audio")


def render_stream(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, created: int, asked: Mapping[str, Any]
) -> AsyncIterator[Event]:
    """Yield the events of a stream; each is a frame named like its ``type``. `asked` is the request body.

    The stream ends with ``response.completed`` or ``response.incomplete``, or with ``error`` and ``response.failed``. Raises
    the error of a StreamError that comes before the first rendered event.
    """
    return stages.add_step(
        events,
        _RenderResponsesEventsStep(
            ResponsesStreamRenderer(
                render_skeleton(id=id, model=model, created=created, asked=asked), asked.get("include") or ()
            )
        ),
    )


class _RenderResponsesEventsStep(stages.Step[StreamEvent, Event]):
    __slots__ = ("_writer",)

    takes_large = True

    def __init__(self, writer: ResponsesStreamRenderer) -> None:
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


class _MessageState(State):
    """The state of an open message item: its content, with None for open parts, and the number of open parts."""

    id: str
    place: int
    content: list[Event | None] = field(default_factory=list)
    open: int = 0


class _ResponsesPartState(State):
    """The state of an open part: its item's id and output index, its content index, and its deltas so far."""

    start: PartStart
    id: str
    place: int
    number: int = 0
    message: _MessageState | None = None
    pieces: list[str] = field(default_factory=list)
    logprobs: list[Mapping[str, Any]] = field(default_factory=list)

    def join_pieces(self) -> str:
        """Return all of the text so far, as one piece."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def get_position(self) -> Event:
        """Return the members of an event that locate the part."""
        where: Event = {"item_id": self.id, "output_index": self.place}
        return where | ({"content_index": self.number} if self.message is not None else {})


class ResponsesStreamRenderer:
    """The renderer of one stream. `begun` is True after the first rendered event."""

    def __init__(self, response: Event, include: Collection[str]) -> None:
        self.begun = False
        self._include = include
        self._response = response
        self._ids = ItemIdMaker(response["id"])
        self._number = 0
        self._places = 0
        self._output: dict[int, Event] = {}
        self._message: _MessageState | None = None
        self._parts: dict[int, _ResponsesPartState] = {}
        self._finish: Finish | None = None
        self._refused = False
        self._server_calls = ServerToolCalls()

    def write(self, event: StreamEvent) -> Iterator[Event]:
        """Yield the events for one common event. Events of a second choice are ignored."""
        if not self.begun and not isinstance(event, ResponseStart):
            yield from self._start_response()
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
                if event.explanation and not self._refused:
                    yield from self._write_refusal(event.explanation)
            case ResponseStart():
                self._response["created_at"] = event.created or self._response["created_at"]
                self._response |= select_top_extra(event.extra)

    def end(self) -> Iterator[Event]:
        """Yield the events that end a stream. Without a finish reason, or with reason "error", it ends as failed."""
        if self._finish is None:
            yield from self.fail(
                UpstreamError("The upstream's response ended before it was complete. Retry the request.")
            )
            return
        status, details = render_status(self._finish.reason)
        if status == "failed":
            yield from self.fail(response_failed(self._finish.raw))
            return
        for index, use in self._server_calls.drain():
            yield from self._end_server_call(index, use)
        yield from self._close_message("completed" if status == "completed" else "incomplete")
        self._response |= {
            "status": status,
            "completed_at": get_completion_time(status),
            "incomplete_details": details,
            "output": self._list_items(),
        }
        yield self._make_event(f"response.{status}", response=self._response)

    def fail(self, error: GateError) -> Iterator[Event]:
        """Yield the events that end a failed stream."""
        if not self.begun:
            yield from self._start_response()
        yield errors.render_event(error, self._take_sequence_number())
        response = errors.make_failed_response(self._response | {"output": self._list_items()}, error)
        yield self._make_event("response.failed", response=response)

    def _list_items(self) -> list[Event]:
        return [self._output[index] for index in sorted(self._output)]

    def _take_sequence_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _make_event(self, kind: str, **members: Any) -> Event:
        return {"type": kind, "sequence_number": self._take_sequence_number(), **members}

    def _start_response(self) -> Iterator[Event]:
        self.begun = True
        yield self._make_event("response.created", response=dict(self._response))
        yield self._make_event("response.in_progress", response=dict(self._response))

    def _take_place(self) -> int:
        self._places += 1
        return self._places - 1

    def _make_added_event(self, index: int, item: Event) -> Event:
        return self._make_event("response.output_item.added", output_index=index, item=item)

    def _make_done_event(self, index: int, item: Event) -> Event:
        self._output[index] = item
        return self._make_event("response.output_item.done", output_index=index, item=item)

    def _write_start(self, start: PartStart) -> Iterator[Event]:
        if start.kind in _CONTENT_KINDS and start.part is None:
            yield from self._start_content(start)
            return
        if self._message is not None and not self._message.open:
            yield from self._close_message("completed")
        if isinstance(start.part, VendorPart) and start.part.server and start.part.wire_format != WIRE_FORMAT:
            yield from self._write_server_tool(start.part.server)
        elif start.part is not None:
            item = render_whole_item(self._ids, start.part)
            if item is not None:
                index = self._take_place()
                yield self._make_added_event(index, item)
                yield self._make_done_event(index, item)
        elif start.kind == "thinking":
            yield from self._start_thinking(start)
        elif start.kind == "tool_call":
            part = self._open_item(start, call_prefix(start.tool_kind))
            yield self._make_added_event(part.place, call_item(part.id, _make_tool_call(part), "in_progress"))

    def _write_refusal(self, text: str) -> Iterator[Event]:
        """Yield the events of a refusal that the upstream only explained beside the response."""
        yield from self._start_content(PartStart(index=-1, kind="refusal"))
        part = self._parts.pop(-1)
        yield from self._write_delta(part, PartDelta(index=-1, data=text))
        yield from self._end_content(part, PartEnd(index=-1))

    def _write_server_tool(self, use: ServerToolUse) -> Iterator[Event]:
        """Yield the events of a server tool of another format: its item ends with the result."""
        if use.step == "result":
            if (finished := self._server_calls.finish(use)) is not None:
                yield from self._end_server_call(*finished)
            return
        kind, prefix = CALL_TYPES[use.kind]
        index, item_id = self._take_place(), make_item_id(self._ids.make(prefix), use)
        where: Event = {"item_id": item_id, "output_index": index}
        yield self._make_added_event(index, render_item(item_id, use, self._include, "in_progress"))
        yield self._make_event(f"response.{kind}.in_progress", **where)
        if use.kind == "code_execution":
            yield self._make_event("response.code_interpreter_call_code.delta", **where, delta=use.code)
            yield self._make_event("response.code_interpreter_call_code.done", **where, code=use.code)
        yield self._make_event(f"response.{kind}.{RUNNING[kind]}", **where)
        if use.step == "call":
            self._server_calls.start(use, where)
        else:
            yield from self._end_server_call(where, use)

    def _end_server_call(self, where: Event, use: ServerToolUse) -> Iterator[Event]:
        item = render_item(where["item_id"], use, self._include)
        yield self._make_event(f"response.{item['type']}.completed", **where)
        yield self._make_done_event(where["output_index"], item)

    def _open_item(self, start: PartStart, prefix: str) -> _ResponsesPartState:
        part = self._parts[start.index] = _ResponsesPartState(start, self._ids.make(prefix), self._take_place())
        return part

    def _start_thinking(self, start: PartStart) -> Iterator[Event]:
        part = self._open_item(start, "rs")
        yield self._make_added_event(part.place, render_reasoning_item(part.id, None))
        if not start.redacted:
            summary = {"type": "summary_text", "text": ""}
            yield self._make_event(
                "response.reasoning_summary_part.added", **part.get_position(), summary_index=0, part=summary
            )

    def _start_content(self, start: PartStart) -> Iterator[Event]:
        message = self._message
        if message is None or message.place != self._places - 1:
            if message is not None and not message.open:
                yield from self._close_message("completed")
            message = self._message = _MessageState(self._ids.make("msg"), self._take_place())
            yield self._make_added_event(message.place, render_message_item(message.id, "in_progress", []))
        part = _ResponsesPartState(start, message.id, message.place, len(message.content), message)
        self._parts[start.index] = part
        message.content.append(None)
        message.open += 1
        self._refused = self._refused or start.kind == "refusal"
        empty = render_refusal_content("") if start.kind == "refusal" else render_text_content("")
        yield self._make_event("response.content_part.added", **part.get_position(), part=empty)

    def _write_delta(self, part: _ResponsesPartState, event: PartDelta) -> Iterator[Event]:
        text = event.transcript if part.start.kind == "audio" else event.data
        if not isinstance(text, str) or not (text or event.logprobs):
            return
        part.pieces.append(text)
        match part.start.kind:
            case "text" | "audio":
                logprobs = [render_logprob(entry) for entry in event.logprobs or ()]
                part.logprobs += logprobs
                yield self._make_event(
                    "response.output_text.delta", **part.get_position(), delta=text, logprobs=logprobs
                )
            case "refusal":
                yield self._make_event("response.refusal.delta", **part.get_position(), delta=text)
            case "thinking":
                yield self._make_event(
                    "response.reasoning_summary_text.delta", **part.get_position(), summary_index=0, delta=text
                )
            case "tool_call":
                yield self._make_event(
                    f"response.{_get_argument_names(part)[0]}.delta", **part.get_position(), delta=text
                )

    def _write_end(self, part: _ResponsesPartState, end: PartEnd) -> Iterator[Event]:
        match part.start.kind:
            case "thinking":
                yield from self._end_thinking(part, end)
            case "tool_call":
                words, member = _get_argument_names(part)
                call = _make_tool_call(part, end)
                yield self._make_event(
                    f"response.{words}.done", **part.get_position(), **{member: call.arguments}, name=call.name
                )
                yield self._make_done_event(part.place, call_item(part.id, call, "completed"))
            case _:
                yield from self._end_content(part, end)

    def _end_thinking(self, part: _ResponsesPartState, end: PartEnd) -> Iterator[Event]:
        text = None if part.start.redacted and not part.pieces else part.join_pieces()
        if text is not None:
            done = {"type": "summary_text", "text": text}
            yield self._make_event(
                "response.reasoning_summary_text.done", **part.get_position(), summary_index=0, text=text
            )
            yield self._make_event(
                "response.reasoning_summary_part.done", **part.get_position(), summary_index=0, part=done
            )
        yield self._make_done_event(part.place, render_reasoning_item(part.id, text, end.signature))

    def _end_content(self, part: _ResponsesPartState, end: PartEnd) -> Iterator[Event]:
        message = part.message
        assert message is not None, "content parts belong to a message"
        text = part.join_pieces()
        if part.start.kind == "refusal":
            content = render_refusal_content(text)
            yield self._make_event("response.refusal.done", **part.get_position(), refusal=text)
        else:
            content = render_text_content(text, end.citations, part.logprobs)
            for number, annotation in enumerate(content["annotations"]):
                added = {"annotation_index": number, "annotation": annotation}
                yield self._make_event("response.output_text.annotation.added", **part.get_position(), **added)
            yield self._make_event(
                "response.output_text.done", **part.get_position(), text=text, logprobs=content["logprobs"]
            )
        yield self._make_event("response.content_part.done", **part.get_position(), part=content)
        message.content[part.number] = content
        message.open -= 1
        if not message.open and message is not self._message:
            yield self._make_message_done_event(message, "completed")
        elif not message.open and message.place != self._places - 1:
            yield from self._close_message("completed")

    def _close_message(self, status: str) -> Iterator[Event]:
        message, self._message = self._message, None
        if message is not None:
            yield self._make_message_done_event(message, status)

    def _make_message_done_event(self, message: _MessageState, status: str) -> Event:
        content = [value for value in message.content if value is not None]
        return self._make_done_event(message.place, render_message_item(message.id, status, content))


def _make_tool_call(part: _ResponsesPartState, end: PartEnd | None = None) -> ToolCall:
    extra = {**part.start.extra, **(end.extra if end is not None else {})}
    start = part.start
    return ToolCall(id=start.id, name=start.name, arguments=part.join_pieces(), kind=start.tool_kind, extra=extra)


def _get_argument_names(part: _ResponsesPartState) -> tuple[str, str]:
    """Return the event name and the member name for the arguments of a call."""
    if part.start.tool_kind == "custom":
        return "custom_tool_call_input", "input"
    return "function_call_arguments", "arguments"
