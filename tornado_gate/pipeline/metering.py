"""Measurement of responses for metrics, logs and limits: usage, finish reason, images, produced text, late errors."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from tornado_gate.errors import ContractError, GateError
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import stages
from tornado_gate.streams.text_runs import RUN_LENGTH, find_texts
from tornado_gate.targets import outcomes
from tornado_gate.targets.health import TargetHealth
from tornado_gate.types import (
    Call,
    ChatResult,
    EmbeddingResult,
    Finish,
    Image,
    ImageResult,
    Meter,
    ModerationResult,
    PartDelta,
    PartEnd,
    PartStart,
    Refusal,
    ResponseStart,
    SpeechEnd,
    StreamError,
    StreamEvent,
    Text,
    Thinking,
    ToolCall,
    TranscriptionResult,
    UsageReport,
)

METERED_EVENTS = (EmbeddingResult, ImageResult, ModerationResult, SpeechEnd, TranscriptionResult)
"""Events that end a response and carry its usage."""


_TEXTS = (Refusal, Text, Thinking, ToolCall)
"""The parts that are deltas of text in a stream."""


class MeterStep(stages.Step[StreamEvent, StreamEvent]):
    """A step that records each event in the meter."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        if len(items) < RUN_LENGTH:
            self._record_each(items)
        else:
            for kind, run in groupby(items, type):
                events: list[Any] = [*run]
                if kind is PartDelta and (found := find_texts(events)) is not None:
                    self._add_texts(found[1])
                else:
                    self._record_each(events)
        out += items

    def _record_each(self, items: list[StreamEvent]) -> None:
        meter = self._meter
        for event in items:
            if type(event) is PartDelta:
                if type(event.data) is str:
                    self._add_texts([event.data])
            elif type(event) is not PartEnd:
                record_event(meter, event)

    def _add_texts(self, texts: list[str]) -> None:
        if self._meter.measures_text:  # an estimate is needed only in this case
            self._meter.add_text(len(texts), sum(map(len, texts)))


def record_result(meter: Meter, result: ChatResult) -> None:
    """Record a whole chat response with the same result as its events."""
    meter.record_tier(result.extra.get("service_tier"))
    meter.record_usage(result.usage)
    for choice in result.choices:
        meter.record_finish(choice.reason)
        if meter.measures_text:
            texts = [
                part.arguments if isinstance(part, ToolCall) else part.text
                for part in choice.parts
                if isinstance(part, _TEXTS)
            ]
            meter.add_text(len(texts), sum(map(len, texts)))
        for part in choice.parts:
            if type(part) is Image:
                meter.add_images(1)


def record_event(meter: Meter, event: StreamEvent) -> None:
    """Record an event other than a PartDelta."""
    if isinstance(event, UsageReport):
        meter.record_usage(event.usage)
    elif isinstance(event, Finish):
        meter.record_finish(event.reason)
    elif isinstance(event, PartStart):
        meter.add_images(isinstance(event.part, Image))
    elif isinstance(event, ResponseStart):
        meter.record_tier(event.extra.get("service_tier"))
    elif isinstance(event, StreamError):
        meter.record_late_error(event.error)
    elif isinstance(event, METERED_EVENTS):
        meter.record_usage(event.usage)
        if isinstance(event, ImageResult):
            meter.add_images(len(event.images))
            meter.record_variant(event.size or "", event.quality or "")
        elif isinstance(event, TranscriptionResult):
            meter.record_seconds(event.duration)


class CheckedChunks(stages.Attributed[bytes]):
    """A step that checks that the chunks of a reply are bytes. It attributes exceptions to the format."""

    __slots__ = ()

    def __init__(self, wire_format: FormatLane) -> None:
        super().__init__(wire_format.as_plugin_error)

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        for chunk in items:
            if type(chunk) is not bytes:
                raise make_chunk_error(chunk)
        out += items


def make_chunk_error(chunk: object) -> ContractError:
    """Return the error for a chunk of a reply that is not bytes."""
    return ContractError(f"Reply.chunks yielded {type(chunk).__name__}; allowed: bytes")


class OutcomeStep(CheckedChunks):
    """The last step of a reply's chunks, which notes the outcome of the response.

    The code that tries the next target notes an error before the first chunk.
    """

    __slots__ = ("_begun", "_call", "_health")

    def __init__(self, health: TargetHealth, call: Call, wire_format: FormatLane) -> None:
        super().__init__(wire_format)
        self._health = health
        self._call = call
        self._begun = False

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        for chunk in items:
            if type(chunk) is not bytes:
                raise make_chunk_error(chunk)
        out += items
        self._begun = True

    def end(self, out: list[bytes]) -> None:
        outcomes.note_end(self._health, self._call, self._call.meter.late_error)

    def fail(self, error: GateError) -> GateError:
        if self._begun:
            outcomes.note_end(self._health, self._call, error)
        return error
