"""Render stream events as the chunks of a stream: the server half. No I/O.

The first delta of a choice has its role. The indexes of tool calls in a choice are 0, 1, 2, …; id, type and name are only in
a call's first delta. Thinking is rendered as ``reasoning_content``.

Source: openai-python 3.52, types/chat/chat_completion_chunk.py.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any

import orjson

from tornado_gate.streams import sse, stages
from tornado_gate.streams.text_runs import RUN_LENGTH, find_texts, frame_texts, has_logprobs
from tornado_gate.types import (
    Data,
    Finish,
    Image,
    Link,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    ToolCall,
    Usage,
    UsageReport,
)
from tornado_gate.types.value import State, field
from tornado_gate_openai.wire.chat.citations import render_annotations
from tornado_gate_openai.wire.chat.legacy_functions import LEGACY_CALL
from tornado_gate_openai.wire.chat.parts import WIRE_FORMAT, drop_none, render_part
from tornado_gate_openai.wire.chat.response import TOP_EXTRA, make_response_id, render_call, select_known_extra
from tornado_gate_openai.wire.chat.usage import render_finish_reason, render_usage

_DELTA_NAMES = {"text": "content", "refusal": "refusal", "thinking": "reasoning_content"}


def render_stream(
    events: AsyncIterator[StreamEvent],
    *,
    id: str,
    model: str,
    created: int,
    include_usage: bool,
    cites: bool = True,
) -> AsyncIterator[dict[str, Any]]:
    """Yield the chunks of a stream, without the final ``[DONE]``. Raises the error of a StreamError.

    `id` and `created` (Unix seconds) are used if the upstream sends no id with this format's prefix and no time. With
    `include_usage` the last chunk has usage and no choice, and every other chunk has ``usage: null``. `cites`: see
    `ChatStreamRenderer`.
    """
    renderer = ChatStreamRenderer(id, model, created, include_usage, cites)
    return stages.add_step(events, _RenderChatChunksStep(renderer))


class _RenderChatChunksStep(stages.Step[StreamEvent, dict[str, Any]]):
    __slots__ = ("_writer",)

    takes_large = True

    def __init__(self, writer: ChatStreamRenderer) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[dict[str, Any]]) -> None:
        for event in items:
            if (chunk := self._writer.write(event)) is not None:
                out.append(chunk)

    def end(self, out: list[dict[str, Any]]) -> None:
        out += self._writer.render_last()


class _ChoiceState(State):
    """The state of one choice: whether its role and a refusal were sent, and how many tool calls and characters of texts."""

    number: int
    role_sent: bool = False
    refused: bool = False
    calls: int = 0
    length: int = 0


class _ChatPartState(State):
    """The state of one part; `call` is its index among the choice's tool calls, `length` the characters of a text so far."""

    start: PartStart
    choice: _ChoiceState
    call: int = 0
    length: int = 0


class ChatStreamRenderer(State):
    """The renderer of one response's chunks. Its first fields are the parameters of `render_stream`.

    With `cites` the characters of all texts are counted: the indexes of a citation count the whole content. Without it, citations
    have the indexes in their own text, which are the same in a response with one text.
    """

    id: str
    model: str
    created: int
    include_usage: bool
    cites: bool = False
    usage: Usage | None = None
    _extra: dict[str, Any] = field(default_factory=dict)
    _choices: dict[int, _ChoiceState] = field(default_factory=dict)
    _parts: dict[int, _ChatPartState] = field(default_factory=dict)
    _around: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """The bytes before and after the text of a delta frame, by the index of the open part."""

    def append_frames(self, events: Sequence[StreamEvent], out: list[bytes]) -> None:
        """Append the frames of `write` for each event to `out`. Raises the same errors, after the frames before them."""
        if len(events) < RUN_LENGTH:
            self._append_each(events, out)
            return
        for kind, run in groupby(events, type):
            together: list[Any] = [*run]
            if kind is PartDelta and together[0].index not in self._around:
                self._append_each(
                    together[:1], out
                )  # the next deltas of its part have the same frame around their texts
                del together[0]
            if (
                kind is PartDelta
                and (found := find_texts(together)) is not None
                and (around := self._around.get(found[0])) is not None
                and not has_logprobs(together)
            ):
                out.append(frame_texts(found[1], *around))
            else:
                self._append_each(together, out)

    def _append_each(self, events: Iterable[StreamEvent], out: list[bytes]) -> None:
        for event in events:
            if type(event) is PartDelta and event.data and type(event.data) is str and not event.logprobs:
                around = self._around.get(event.index)
                if around is not None:
                    out.append(around[0] + orjson.dumps(event.data) + around[1])
                    continue
            if (chunk := self.write(event)) is not None:
                out.append(sse.render_json(chunk))
                if type(event) is PartDelta and event.index not in self._around:
                    self._cache_delta_frame(event.index)

    def _cache_delta_frame(self, index: int) -> None:
        """Cache the bytes of a part's delta frame around its text, to render the next deltas without building a chunk."""
        part = self._parts[index]
        if self.cites and part.start.kind == "text":
            return
        if name := _DELTA_NAMES.get(part.start.kind):
            before, _, after = sse.render_json(self._render_chunk(part.choice, {name: ""})).rpartition(b'""')
            self._around[index] = (before, after)

    def write(self, event: StreamEvent) -> dict[str, Any] | None:
        """Return the chunk of one event, or None if the event has no chunk. Raises the error of a StreamError."""
        match event:
            case PartDelta(index=index):
                return self._write_delta(self._parts[index], event)
            case PartStart():
                return self._write_start(event)
            case PartEnd(index=index):
                self._around.pop(index, None)
                return self._write_end(self._parts.pop(index), event)
            case Finish():
                choice = self._get_choice(event.choice)
                delta = {} if choice.role_sent else {"content": ""}
                if event.explanation and not choice.refused:
                    delta["refusal"] = event.explanation
                return self._render_chunk(choice, delta, finish_reason=render_finish_reason(event.reason, event.raw))
            case UsageReport(usage=usage):
                self.usage = usage
            case ResponseStart():
                self.id = make_response_id(event.id, self.id)
                self.created = event.created or self.created
                self._extra = select_known_extra(event.extra, *TOP_EXTRA)
            case StreamError(error=error):
                raise error
        return None

    def render_last(self) -> list[dict[str, Any]]:
        """Return the chunk with usage and no choice if it is requested and the usage is known, else an empty list."""
        if not self.include_usage or self.usage is None:
            return []
        return [{**self._render_envelope(), "choices": [], "usage": render_usage(self.usage)}]

    def _render_envelope(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            **self._extra,
        }

    def _render_chunk(
        self, choice: _ChoiceState, delta: dict[str, Any], logprobs: Any = None, finish_reason: Any = None
    ) -> dict[str, Any]:
        if not choice.role_sent:
            choice.role_sent = True
            delta = {"role": "assistant", "content": None, **delta}
        entry = {"index": choice.number, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        chunk = {**self._render_envelope(), "choices": [entry]}
        if self.include_usage:
            chunk["usage"] = None
        return chunk

    def _get_choice(self, number: int) -> _ChoiceState:
        choice = self._choices.get(number)
        if choice is None:
            choice = self._choices[number] = _ChoiceState(number)
        return choice

    def _write_start(self, start: PartStart) -> dict[str, Any] | None:
        choice = self._get_choice(start.choice)
        part = self._parts[start.index] = _ChatPartState(start, choice)
        choice.refused = choice.refused or start.kind == "refusal"
        match start:
            case PartStart(kind="tool_call", extra=extra) if extra.get(LEGACY_CALL):
                return self._render_chunk(choice, {LEGACY_CALL: {"name": start.name, "arguments": ""}})
            case PartStart(kind="tool_call"):
                part.call = choice.calls
                choice.calls += 1
                call = ToolCall(id=start.id, name=start.name, arguments="", kind=start.tool_kind, extra=start.extra)
                return self._render_chunk(choice, {"tool_calls": [{"index": part.call, **render_call(call)}]})
            case PartStart(kind="audio"):
                return self._render_chunk(choice, {"audio": {"id": start.id, "transcript": ""}})
            case PartStart(part=Image(source=Data() | Link()) as image):
                return self._render_chunk(choice, {"images": [render_part(image, own=False)]})
        return None

    def _write_delta(self, part: _ChatPartState, event: PartDelta) -> dict[str, Any] | None:
        kind = part.start.kind
        if (name := _DELTA_NAMES.get(kind)) and (event.data or event.logprobs):
            logprobs: dict[str, Any] | None = None
            if event.logprobs:
                logprobs = {"content": None, "refusal": None}
                logprobs["refusal" if name == "refusal" else "content"] = list(event.logprobs)
            if self.cites and name == "content":
                part.length += len(event.data)
            return self._render_chunk(part.choice, {name: event.data}, logprobs)
        if kind == "tool_call" and event.data:
            return self._render_chunk(part.choice, _render_arguments(part, event.data))
        if kind == "audio" and (event.data or event.transcript):
            sound = event.data if isinstance(event.data, bytes) else b""
            encoded = base64.b64encode(sound).decode() or None
            return self._render_chunk(
                part.choice, {"audio": drop_none(data=encoded, transcript=event.transcript or None)}
            )
        return None

    def _write_end(self, part: _ChatPartState, event: PartEnd) -> dict[str, Any] | None:
        extra = {**part.start.extra, **event.extra}
        match part.start.kind:
            case "text":
                annotations = render_annotations(event.citations, WIRE_FORMAT, part.choice.length, part.length)
                delta: dict[str, Any] = {"annotations": annotations} if annotations else {}
                part.choice.length += part.length
            case "thinking":
                delta = select_known_extra(extra, "reasoning_details")
            case "audio":
                expiry = select_known_extra(extra, "expires_at")
                delta = {"audio": expiry} if expiry else {}
            case _:
                delta = {}
        return self._render_chunk(part.choice, delta) if delta else None


def _render_arguments(part: _ChatPartState, text: str | bytes) -> dict[str, Any]:
    if part.start.extra.get(LEGACY_CALL):
        return {LEGACY_CALL: {"arguments": text}}
    if part.start.tool_kind == "custom":
        return {"tool_calls": [{"index": part.call, "custom": {"input": text}}]}
    return {"tool_calls": [{"index": part.call, "function": {"arguments": text}}]}
