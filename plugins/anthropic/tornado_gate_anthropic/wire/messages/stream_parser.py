"""Upstream stream events as common stream events: the client half, lenient. Pure.

A block of a type without a common equivalent becomes one `VendorPart` when it is complete. Unknown event and delta types
are ignored. Usage is cumulative: later values replace earlier ones. Usage is not reported before the first block, so that
an error event in place of that block still becomes an error response with its own status.

Source: anthropic-python 2.11, types/raw_message_stream_event.py and lib/streaming/_messages.py (`accumulate_event`).
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.streams import stages
from tornado_gate.types import (
    Finish,
    PartDelta,
    PartEnd,
    PartKind,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    UsageReport,
)
from tornado_gate.types.value import State, field
from tornado_gate_anthropic.wire.messages.citations import parse_citations
from tornado_gate_anthropic.wire.messages.errors import find_error
from tornado_gate_anthropic.wire.messages.ids import make_id, parse_id
from tornado_gate_anthropic.wire.messages.json_values import drop_null, dump_compact, read_string, select_unknown
from tornado_gate_anthropic.wire.messages.parts import parse_signature, select_call_extra
from tornado_gate_anthropic.wire.messages.response import FINISH_EXTRA, TOP_EXTRA, read_explanation, select_known_extra
from tornado_gate_anthropic.wire.messages.server_tools import parse_vendor_block
from tornado_gate_anthropic.wire.messages.usage import parse_stop_reason, parse_usage

_PART_KINDS: Final[Mapping[str, PartKind]] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "tool_call",
}
_TEXT_DELTAS: Final[Mapping[str, tuple[str, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
}
"""By delta type: the member that holds the text, and the type of the blocks that it belongs to."""


def parse_stream(frames: AsyncIterator[Any]) -> AsyncIterator[StreamEvent]:
    """Common stream events. `frames` is the parsed data of each upstream event, as from `sse.read_json_frames`.

    Raises UpstreamError for data that is not an event. A truncated stream ends without a Finish, which the core reports as
    an error.
    """
    return stages.add_step(frames, _MessagesStreamParser())


class _BlockState(State):
    """An open block. `part` is -1 for a block that is emitted as a whole; `pieces` collects its text.

    `told` is True after a delta with text.
    """

    type: str
    part: int
    value: dict[str, Any]
    signature: str = ""
    told: bool = False
    pieces: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)


class _MessagesStreamParser(stages.Step[Any, StreamEvent]):
    """State of one stream."""

    takes_large = True

    def __init__(self) -> None:
        self.finished = False
        self._started = False
        self._calls_tools = False
        self._stop: dict[str, Any] | None = None
        self._usage: dict[str, Any] = {}
        self._untold_usage = False
        self._blocks: dict[int, _BlockState] = {}
        self._next_part = itertools.count().__next__

    def take(self, items: list[Any], out: list[StreamEvent]) -> bool:
        for frame in items:
            if (delta := self.continue_text(frame)) is not None:
                out.append(delta)
                continue
            if (error := find_error(frame)) is not None:
                out.append(StreamError(error=error))
                return True
            if not isinstance(frame, dict):
                raise UpstreamError(
                    "The upstream sent a stream event that is not a JSON object.",
                    advice="Check the provider's base_url.",
                )
            out.extend(self.read(frame))  # yields one event at a time, so that events before an error are kept
            if self.finished:
                return True
        return False

    def end(self, out: list[StreamEvent]) -> None:
        out.extend(self.finish())

    def continue_text(self, frame: Any) -> PartDelta | None:
        """The event for a delta that only adds text to an open block (the most frequent case).

        None for any other event, which the caller passes to `read`.
        """
        if not isinstance(frame, dict) or frame.get("type") != "content_block_delta":
            return None
        delta, block = frame.get("delta"), self._blocks.get(_get_index(frame))
        if block is None or not isinstance(delta, dict):
            return None
        name, block_type = _TEXT_DELTAS.get(read_string(delta.get("type")), ("", ""))
        text = delta.get(name)
        if block.type != block_type or not isinstance(text, str) or not text:
            return None
        block.told = True
        return PartDelta(index=block.part, data=text)

    def read(self, frame: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """The common events for one upstream event."""
        match frame.get("type"):
            case "content_block_delta":
                yield from self._read_delta(_get_index(frame), frame.get("delta"))
            case "content_block_start":
                yield from self._start_block(_get_index(frame), frame.get("content_block"))
            case "content_block_stop":
                yield from self._end_block(_get_index(frame))
            case "message_start":
                message = frame.get("message")
                yield from self._start_response(message if isinstance(message, dict) else {})
            case "message_delta":
                yield from self._read_message_delta(frame)
            case "message_stop":
                if not self._started:
                    raise UpstreamError(
                        "The upstream sent the end of a response before its beginning. Retry the request."
                    )
                self._stop = self._stop or {}
                yield from self.finish()

    def finish(self) -> Iterator[StreamEvent]:
        """The events at the end of the stream; none without a stop reason, because the stream was truncated."""
        if self._stop is None:
            return
        self.finished = True
        yield from self._end_all_blocks()
        yield from self._report_usage()
        raw = read_string(self._stop.get("stop_reason"))
        yield Finish(
            reason=parse_stop_reason(raw, self._calls_tools),
            raw=raw,
            stop_sequence=read_string(self._stop.get("stop_sequence")) or None,
            explanation=read_explanation(self._stop),
            extra=select_known_extra(self._stop, *FINISH_EXTRA, *TOP_EXTRA),
        )

    def _start_response(self, message: Mapping[str, Any]) -> Iterator[StreamEvent]:
        if self._started:
            return
        self._started = True
        self._note_usage(message.get("usage"))
        known = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage", *FINISH_EXTRA)
        yield ResponseStart(
            model=read_string(message.get("model")),
            id=read_string(message.get("id")) or None,
            extra=drop_null(select_unknown(message, *known)),
        )

    def _note_usage(self, usage: Any) -> None:
        if isinstance(usage, dict) and (reported := drop_null(usage)):
            self._usage |= reported
            self._untold_usage = True

    def _report_usage(self) -> Iterator[StreamEvent]:
        usage = parse_usage(self._usage) if self._untold_usage else None
        self._untold_usage = False
        if usage is not None:
            yield from self._start_response({})
            yield UsageReport(usage=usage)

    def _read_message_delta(self, frame: Mapping[str, Any]) -> Iterator[StreamEvent]:
        delta = frame.get("delta")
        reported = drop_null(delta) if isinstance(delta, dict) else {}
        self._note_usage(frame.get("usage"))
        if reported.get("stop_reason") or self._stop is not None:
            yield from self._start_response({})
            self._stop = (self._stop or {}) | reported
            yield from self._end_all_blocks()
            yield from self._report_usage()

    def _start_block(self, index: int, value: Any) -> Iterator[StreamEvent]:
        yield from self._start_response({})
        yield from self._report_usage()
        yield from self._end_block(index)
        block = drop_null(value) if isinstance(value, dict) else {}
        kind = _PART_KINDS.get(read_string(block.get("type")))
        if kind is None:
            self._blocks[index] = _BlockState(read_string(block.get("type")), -1, block)
            return
        part = self._next_part()
        opened = self._blocks[index] = _BlockState(block["type"], part, block)
        opened.signature = read_string(block.get("data" if opened.type == "redacted_thinking" else "signature"))
        if isinstance(block.get("citations"), list):
            opened.citations += block["citations"]
        yield self._make_part_start(part, kind, block)
        if text := read_string(block.get(opened.type)):  # the member has the name of the type: "text" or "thinking"
            yield PartDelta(index=part, data=text)

    def _make_part_start(self, part: int, kind: PartKind, block: Mapping[str, Any]) -> PartStart:
        if kind != "tool_call":
            extra = select_unknown(block, "type", "text", "thinking", "signature", "data", "citations")
            return PartStart(index=part, kind=kind, redacted=block["type"] == "redacted_thinking", extra=extra)
        self._calls_tools = True
        return PartStart(
            index=part,
            kind=kind,
            id=parse_id(read_string(block.get("id"))) or make_id(),
            name=read_string(block.get("name")),
            extra=select_call_extra(block),
        )

    def _read_delta(self, index: int, value: Any) -> Iterator[StreamEvent]:
        delta: Mapping[str, Any] = value if isinstance(value, dict) else {}
        kind = read_string(delta.get("type"))
        text_name, block_type = _TEXT_DELTAS.get(kind, ("", ""))
        block = self._blocks.get(index)
        if block is None and block_type in ("text", "thinking"):  # some upstreams omit content_block_start
            yield from self._start_block(index, {"type": block_type})
            block = self._blocks[index]
        if block is None:
            return
        if text := read_string(delta.get(text_name)):
            block.told = True
            if block.part < 0:
                block.pieces.append(text)
            elif block.type == block_type:
                yield PartDelta(index=block.part, data=text)
        elif kind == "signature_delta":
            block.signature = read_string(delta.get("signature"))
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))

    def _end_block(self, index: int) -> Iterator[StreamEvent]:
        block = self._blocks.pop(index, None)
        if block is None or not block.type:
            return
        if block.part < 0:
            yield from self._parse_whole_block(block)
            return
        if block.type == "tool_use" and not block.told:
            arguments = block.value.get("input")
            yield PartDelta(index=block.part, data=dump_compact(arguments if isinstance(arguments, dict) else {}))
        citations = parse_citations(block.citations) if block.citations else ()
        yield PartEnd(index=block.part, signature=parse_signature(block.signature), citations=citations)

    def _parse_whole_block(self, block: _BlockState) -> Iterator[StreamEvent]:
        """Emit a block as one `VendorPart`. The input of a server tool comes in deltas."""
        part = self._next_part()
        value = block.value
        if block.pieces:
            try:
                value = {**value, "input": orjson.loads("".join(block.pieces))}
            except orjson.JSONDecodeError as error:
                raise UpstreamError(
                    "The upstream sent a server tool call whose input is not JSON. Retry the request."
                ) from error
        yield PartStart(index=part, kind="vendor", part=parse_vendor_block(value))
        yield PartEnd(index=part)

    def _end_all_blocks(self) -> Iterator[StreamEvent]:
        for index in sorted(self._blocks):
            yield from self._end_block(index)


def _get_index(frame: Mapping[str, Any]) -> int:
    index = frame.get("index")
    return index if isinstance(index, int) else 0
