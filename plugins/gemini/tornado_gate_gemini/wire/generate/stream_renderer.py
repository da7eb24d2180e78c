"""Common stream events as chunks, each a complete response object: the server half. Pure.

Text is sent immediately, a function call when its arguments are complete. The last chunk has all finish reasons and the usage,
so that a client that stops there has received everything.

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
    VendorPart,
)
from tornado_gate.types.value import State, field
from tornado_gate_gemini.wire.generate.grounding import GroundingWriter
from tornado_gate_gemini.wire.generate.json_values import render_signature
from tornado_gate_gemini.wire.generate.logprobs import render_logprobs
from tornado_gate_gemini.wire.generate.response import (
    CHOICE_EXTRA,
    MALFORMED_MESSAGE,
    TOP_EXTRA,
    is_malformed,
    render_said,
    select_known_extra,
)
from tornado_gate_gemini.wire.generate.server_tools import render_code_parts
from tornado_gate_gemini.wire.generate.usage import MALFORMED_CALL, find_block_reason, render_finish, render_usage

_UNKNOWN_AUDIO_TYPE = "application/octet-stream"


def render_stream(
    events: AsyncIterator[StreamEvent], *, id: str, model: str, include_thoughts: bool = False, cites: bool = True
) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a stream. Raises the error of a StreamError. `id` is used when the upstream sends none.

    With `cites` texts are kept for the segments of citations; without it, the last chunk only has their sources.
    """
    renderer = _GenerateStreamRenderer(id, model, include_thoughts, cites)
    return stages.add_step(events, _RenderGenerateChunksStep(renderer))


class _RenderGenerateChunksStep(stages.Step[StreamEvent, dict[str, Any]]):
    __slots__ = ("_writer",)

    takes_large = True

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


class _SourceState(State):
    """The sources of a choice, and the bytes of its texts so far."""

    writer: GroundingWriter = field(default_factory=GroundingWriter)
    base: int = 0


class _GenerateStreamRenderer(State):
    id: str
    model: str
    include_thoughts: bool
    cites: bool
    _extra: dict[str, Any] = field(default_factory=dict)
    _usage: Usage | None = None
    _parts: dict[int, _GeneratePartState] = field(default_factory=dict)
    _finishes: dict[int, Finish] = field(default_factory=dict)
    _malformed: set[int] = field(default_factory=set)
    _thought: set[int] = field(default_factory=set)
    _sources: dict[int, _SourceState] = field(default_factory=dict)
    _refusals: dict[int, list[str]] = field(default_factory=dict)
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
        refusal = "".join(self._refusals.get(finish.choice, ()))
        sources = self._sources.get(finish.choice)
        candidate: dict[str, Any] = {
            "content": {"role": "model", "parts": [{"text": ""}]},
            **render_finish(finish.reason, finish.raw, refusal or finish.explanation, bool(refusal)),
            "index": finish.choice,
            **(sources.writer.render() if sources is not None else {}),
        }
        if finish.choice in self._malformed:
            candidate |= {"finishReason": MALFORMED_CALL, "finishMessage": MALFORMED_MESSAGE}
        return candidate | select_known_extra(finish.extra, *CHOICE_EXTRA)

    def _render_envelope(self) -> dict[str, Any]:
        return {"modelVersion": self.model, "responseId": self.id, **self._extra}

    def _render_chunk(self, choice: int, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
        self._spoken = True
        candidate = {"content": {"role": "model", "parts": list(parts)}, "index": choice, **more}
        return {"candidates": [candidate], **self._render_envelope()}

    def _write_delta(self, part: _GeneratePartState, event: PartDelta) -> dict[str, Any] | None:
        start, data = part.start, event.data
        if isinstance(data, bytes):
            media_type = start.media_type or _UNKNOWN_AUDIO_TYPE
            blob = {"mimeType": media_type, "data": base64.b64encode(data).decode()}
            return self._render_chunk(start.choice, {"inlineData": blob}) if data else None
        if start.kind == "tool_call" or (self.cites and start.kind == "text"):
            part.pieces.append(data)
        elif start.kind == "refusal":
            self._refusals.setdefault(start.choice, []).append(data)
        if start.kind in ("text", "refusal") and event.logprobs:
            more = {"logprobsResult": render_logprobs(event.logprobs)}
            return self._render_chunk(start.choice, {"text": data}, **more)
        if start.kind in ("text", "refusal") and data:
            return self._render_chunk(start.choice, {"text": data})
        if start.kind == "thinking" and data and self.include_thoughts:
            return self._render_chunk(start.choice, {"text": data, "thought": True})
        return None

    def _write_end(self, part: _GeneratePartState, event: PartEnd) -> dict[str, Any] | None:
        start = part.start
        if start.kind == "tool_call":
            return self._write_call(part, event)
        if start.part is not None:
            return self._write_whole(start)
        if start.kind == "text" and (part.pieces or event.citations):
            self._take_citations(part, event)
        if (signature := render_signature(event.signature)) is not None:
            if start.kind == "text":
                return self._render_chunk(start.choice, {"text": "", "thoughtSignature": signature})
            if start.kind == "thinking" and self.include_thoughts and not start.redacted:
                return self._render_chunk(start.choice, {"text": "", "thought": True, "thoughtSignature": signature})
        return None

    def _get_sources(self, choice: int) -> _SourceState:
        return self._sources.setdefault(choice, _SourceState())

    def _take_citations(self, part: _GeneratePartState, event: PartEnd) -> None:
        sources, text = self._get_sources(part.start.choice), "".join(part.pieces)
        sources.writer.add_citations(event.citations, text, sources.base)
        sources.base += len(text.encode("utf-8", "surrogatepass"))

    def _write_whole(self, start: PartStart) -> dict[str, Any] | None:
        """The chunk of a part without deltas; two parts for the code and the output of another format."""
        assert start.part is not None, "the caller has looked"
        values: list[dict[str, Any]] = []
        if isinstance(start.part, VendorPart):
            if start.part.server is not None:
                self._get_sources(start.choice).writer.add_use(start.part.server)
            values = render_code_parts(start.part)
        if not values and (value := render_said(start.part)) is not None:
            values = [value]
        return self._render_chunk(start.choice, *values) if values else None

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
