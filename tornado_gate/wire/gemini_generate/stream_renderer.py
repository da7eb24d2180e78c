"""Common stream events as chunks, each a complete response object: the server half. Pure.

Text is sent at once, a function call when its arguments are complete. The last chunk has all finish reasons and the usage, so
that a client that stops there has received everything.

Source: google-genai 3.4, types.GenerateContentResponse; models.py (generate_content_stream).
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

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
    Usage,
    UsageReport,
)
from tornado_gate.types.value import State, field
from tornado_gate.wire.gemini_generate.json_values import render_signature
from tornado_gate.wire.gemini_generate.logprobs import render_logprobs
from tornado_gate.wire.gemini_generate.response import (
    CHOICE_EXTRA,
    MALFORMED_MESSAGE,
    TOP_EXTRA,
    is_malformed,
    render_said,
    select_known_extra,
)
from tornado_gate.wire.gemini_generate.usage import (
    MALFORMED_CALL,
    find_block_reason,
    render_finish_reason,
    render_usage,
)

_UNKNOWN_AUDIO_TYPE = "application/octet-stream"


def render_stream(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, include_thoughts: bool = False
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream. Raises the error of a StreamError. `id` is used when the upstream sends none."""
    return stages.add_step(events, _RenderGenerateChunksStep(_GenerateStreamRenderer(id, model, include_thoughts)))


class _RenderGenerateChunksStep(stages.Step[StreamEvent, dict[str, Any]]):
    __slots__ = ("_writer",)

    def __init__(self, writer: _GenerateStreamRenderer) -> None:
        self._writer = writer

    def take(self, items: list[StreamEvent], out: list[dict[str, Any]]) -> None:
        write = self._writer.write
        for event in items:
            if (chunk := write(event)) is not None:
                out.append(chunk)

    def end(self, out: list[dict[str, Any]]) -> None:
        out.append(self._writer.render_last())


class _GeneratePartState(State):
    start: PartStart
    pieces: list[str] = field(default_factory=list)


class _GenerateStreamRenderer(State):
    id: str
    model: str
    include_thoughts: bool
    _extra: dict[str, Any] = field(default_factory=dict)
    _usage: Usage | None = None
    _parts: dict[int, _GeneratePartState] = field(default_factory=dict)
    _finishes: dict[int, Finish] = field(default_factory=dict)
    _malformed: set[int] = field(default_factory=set)
    _thought: set[int] = field(default_factory=set)
    _spoken: bool = False

    def write(self, event: StreamEvent) -> dict[str, Any] | None:
        """The chunk of one event; None when the event has no output. Raises the error of a StreamError."""
        match event:
            case PartDelta(index=index):
                return self._write_delta(self._parts[index], event)
            case PartStart():
                self._parts[event.index] = _GeneratePartState(event)
                if event.kind == "thinking":
                    self._thought.add(event.choice)
            case PartEnd(index=index):
                return self._write_end(self._parts.pop(index), event)
            case Finish():
                self._finishes[event.choice] = event
            case UsageReport(usage=usage):
                self._usage = usage
            case ResponseStart():
                self.id = event.id or self.id
                self._extra = select_known_extra(event.extra, *TOP_EXTRA)
            case StreamError(error=error):
                raise error
        return None

    def render_last(self) -> dict[str, Any]:
        """The last chunk, with the finish reason of every candidate."""
        chunk: dict[str, Any] = {}
        if self._spoken or not find_block_reason(self._extra):
            chunk["candidates"] = [self._render_finish(finish) for _, finish in sorted(self._finishes.items())]
        if self._usage is not None:
            chunk["usageMetadata"] = render_usage(self._usage)
        return {**chunk, **self._render_envelope()}

    def _render_finish(self, finish: Finish) -> dict[str, Any]:
        candidate: dict[str, Any] = {
            "content": {"role": "model", "parts": [{"text": ""}]},
            "finishReason": render_finish_reason(finish.reason, finish.raw),
            "index": finish.choice,
        }
        if finish.choice in self._malformed:
            candidate |= {"finishReason": MALFORMED_CALL, "finishMessage": MALFORMED_MESSAGE}
        return candidate | select_known_extra(finish.extra, *CHOICE_EXTRA)

    def _render_envelope(self) -> dict[str, Any]:
        return {"modelVersion": self.model, "responseId": self.id, **self._extra}

    def _render_chunk(self, choice: int, part: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._spoken = True
        candidate = {"content": {"role": "model", "parts": [part]}, "index": choice, **more}
        return {"candidates": [candidate], **self._render_envelope()}

    def _write_delta(self, part: _GeneratePartState, event: PartDelta) -> dict[str, Any] | None:
        start = part.start
        if isinstance(event.data, bytes):
            if event.data:
                blob = {
                    "mimeType": start.media_type or _UNKNOWN_AUDIO_TYPE,
                    "data": base64.b64encode(event.data).decode(),
                }
                return self._render_chunk(start.choice, {"inlineData": blob})
        elif start.kind == "tool_call":
            part.pieces.append(event.data)
        elif start.kind in ("text", "refusal") and event.logprobs:
            more = {"logprobsResult": render_logprobs(event.logprobs)}
            return self._render_chunk(start.choice, {"text": event.data}, **more)
        elif start.kind in ("text", "refusal") and event.data:
            return self._render_chunk(start.choice, {"text": event.data})
        elif start.kind == "thinking" and event.data and self.include_thoughts:
            return self._render_chunk(start.choice, {"text": event.data, "thought": True})
        return None

    def _write_end(self, part: _GeneratePartState, event: PartEnd) -> dict[str, Any] | None:
        start = part.start
        if start.kind == "tool_call":
            return self._write_call(part, event)
        if start.part is not None:
            value = render_said(start.part)
            return None if value is None else self._render_chunk(start.choice, value)
        if (signature := render_signature(event.signature)) is not None:
            if start.kind == "text":
                return self._render_chunk(start.choice, {"text": "", "thoughtSignature": signature})
            if start.kind == "thinking" and self.include_thoughts and not start.redacted:
                return self._render_chunk(start.choice, {"text": "", "thought": True, "thoughtSignature": signature})
        return None

    def _write_call(self, part: _GeneratePartState, event: PartEnd) -> dict[str, Any] | None:
        start = part.start
        call = ToolCall(
            id=start.id,
            name=start.name,
            arguments="".join(part.pieces),
            kind=start.tool_kind,
            signature=event.signature,
        )
        value = render_said(call, after_thinking=start.choice in self._thought)
        if value is not None and not is_malformed(call):
            return self._render_chunk(start.choice, value)
        self._malformed.add(start.choice)
        return None
