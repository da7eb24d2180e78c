"""Measures passing responses for metrics, logs and limits: usage, finish reason, images, produced text, late errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tornado_gate.errors import ContractError, GateError
from tornado_gate.pipeline.gate import Gate
from tornado_gate.plugins.lanes import FormatLane
from tornado_gate.streams import stages
from tornado_gate.targets import outcomes
from tornado_gate.types import (
    Call,
    EmbeddingResult,
    Finish,
    Image,
    ImageResult,
    Meter,
    ModerationResult,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    SpeechEnd,
    StreamError,
    StreamEvent,
    TranscriptionResult,
    UsageReport,
)

METERED_EVENTS = (EmbeddingResult, ImageResult, ModerationResult, SpeechEnd, TranscriptionResult)
"""Events that end a response and carry its usage."""
_UNMETERED_EVENTS = frozenset({PartDelta, PartEnd})
"""Most events: nothing of them is noted."""


class MeterStep(stages.Step[StreamEvent, StreamEvent]):
    """Records passing events in the meter."""

    __slots__ = ("_meter",)

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        meter = self._meter
        for event in items:
            if type(event) not in _UNMETERED_EVENTS:
                _note_event(meter, event)
        if meter.measures_text:  # only then is an estimate needed
            texts = [event.data for event in items if type(event) is PartDelta and type(event.data) is str]
            meter.produced_frames += len(texts)
            meter.produced_bytes += sum(map(len, texts))
        out += items


def _note_event(meter: Meter, event: StreamEvent) -> None:
    if isinstance(event, UsageReport):
        meter.usage = event.usage
    elif isinstance(event, Finish):
        meter.finish_reason = event.reason
    elif isinstance(event, PartStart):
        meter.images += isinstance(event.part, Image)
    elif isinstance(event, ResponseStart):
        meter.service_tier = _read_tier(event.extra)
    elif isinstance(event, StreamError):
        meter.late_error = event.error
    elif isinstance(event, METERED_EVENTS):
        if event.usage is not None:
            meter.usage = event.usage
        if isinstance(event, ImageResult):
            meter.images += len(event.images)
            meter.size, meter.quality = event.size or "", event.quality or ""
        elif isinstance(event, TranscriptionResult):
            meter.seconds = event.duration or 0.0


def _read_tier(body: Mapping[str, Any]) -> str:
    """The service tier that an upstream reports beside its usage, or ""."""
    tier = body.get("service_tier")
    return tier if isinstance(tier, str) else ""


class CheckedChunks(stages.Attributed[bytes]):
    """Checks that the chunks of a reply are bytes, and attributes exceptions to the format."""

    __slots__ = ()

    def __init__(self, wire_format: FormatLane) -> None:
        super().__init__(wire_format.as_plugin_error)

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        for chunk in items:
            if type(chunk) is not bytes:
                raise ContractError(f"Reply.chunks yielded {type(chunk).__name__}; allowed: bytes")
        out += items


class OutcomeStep(CheckedChunks):
    """The last step of a reply's chunks: notes the outcome of the response.

    An error before the first chunk is noted where the next target is tried.
    """

    __slots__ = ("_begun", "_call", "_gate")

    def __init__(self, gate: Gate, call: Call, wire_format: FormatLane) -> None:
        super().__init__(wire_format)
        self._gate = gate
        self._call = call
        self._begun = False

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        super().take(items, out)
        self._begun = True

    def end(self, out: list[bytes]) -> None:
        outcomes.note_end(self._gate, self._call, self._call.meter.late_error)

    def fail(self, error: GateError) -> GateError:
        if self._begun:
            outcomes.note_end(self._gate, self._call, error)
        return error
