"""The spans of one request: its main span, and one for each request to an upstream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Span, Status, StatusCode

from tornado_gate.errors import GateError
from tornado_gate.streams.stages import Step, add_step
from tornado_gate.types import BufferedBody, Call, RequestEnd, UpstreamRequest, UpstreamResponse, Usage
from tornado_gate_otel.attributes import describe_usage, find_response_model

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.context import Context

    from tornado_gate_otel.measurements import Measurements

LEFT = "cancelled"
"""The error.type of a span that ended because the caller has left."""


class Reserved:
    """A request to an upstream that has been translated, and the id of the span that begins when it is sent."""

    __slots__ = ("attributes", "outgoing", "span_id")

    def __init__(self, outgoing: UpstreamRequest, span_id: int, attributes: dict[str, Any]) -> None:
        self.outgoing = outgoing
        self.span_id = span_id
        self.attributes = attributes


class RequestSpan:
    """The span of a caller's request; None for work without a request, such as the later steps of a video task.

    `reserved` are the requests to upstreams that are translated and not sent, by the identity of their `outgoing`.
    `sent` has the attempt's number for each sent request: one attempt may send several, as parts of many embeddings.
    With a `logger` the request also gets a log record, whose attributes begin with `attributes`.
    """

    __slots__ = ("_attributes", "_logger", "_name", "context", "reserved", "sent", "span")

    def __init__(
        self, span: Span | None, context: Context | None, name: str, attributes: dict[str, Any], logger: Logger | None
    ) -> None:
        self._name = name
        self._attributes = attributes
        self._logger = logger
        self.span = span
        self.context = context
        self.reserved: dict[int, Reserved] = {}
        self.sent: list[int] = []

    def end(self, ended: RequestEnd) -> None:
        """Describe how the request has ended. By the conventions a refused request (4xx) is no error of the server."""
        self.reserved.clear()
        span, logger = self.span, self._logger
        if span is None or not (span.is_recording() or logger is not None):
            return
        attributes = _describe_end(ended)
        if logger is not None:
            from tornado_gate_otel.records import emit_request

            described = {**self._attributes, **attributes, "tornado_gate.seconds": ended.seconds}
            emit_request(logger, span, f"{self._name} {ended.status}", described, outcome=ended.outcome)
        span.set_attributes(attributes)
        if ended.outcome in ("failed", "broken"):
            span.set_status(Status(StatusCode.ERROR))
        span.end()


def _describe_end(ended: RequestEnd) -> dict[str, Any]:
    """Return the attributes of a request that are known at its end."""
    call, progress = ended.call, ended.call.progress
    attributes: dict[str, Any] = {
        "http.response.status_code": ended.status,
        "tornado_gate.outcome": ended.outcome,
        "tornado_gate.operation": call.operation,
        "tornado_gate.attempts": progress.attempts,
    }
    if call.model or progress.model:
        attributes["tornado_gate.model"] = call.model or progress.model
    if progress.first_event_seconds is not None:
        attributes["tornado_gate.time_to_first_chunk"] = progress.first_event_seconds
    if progress.cached is not None:
        attributes["tornado_gate.cached"] = progress.cached
    if error := _name_error(ended):
        attributes["error.type"] = error
    return attributes


def _name_error(ended: RequestEnd) -> str:
    if ended.outcome == "aborted":
        return LEFT
    return ended.error_code or (str(ended.status) if ended.status >= 400 else "")


class AttemptSpan:
    """The span of one request to an upstream. It ends when the response was read to its end, or when the attempt is
    abandoned.
    """

    __slots__ = (
        "_attempt",
        "_began_at",
        "_call",
        "_complete",
        "_ended_at",
        "_last",
        "_measurements",
        "_model",
        "_sent",
        "_span",
        "_started",
        "_target",
        "first_chunk",
    )

    def __init__(
        self, span: Span, call: Call, sent: list[int], target: dict[str, Any], measurements: Measurements | None
    ) -> None:
        self._span: Span | None = span
        self._target = target
        self._measurements = measurements
        self._call = call
        self._attempt = call.progress.attempts
        self._sent = sent
        sent.append(self._attempt)
        self._started = time.monotonic()
        self._began_at = time.time_ns()
        self._complete = False
        self._ended_at: int | None = None
        self._model = ""
        self._last = b""
        self.first_chunk: float | None = None

    def begin(self, incoming: UpstreamResponse) -> UpstreamResponse:
        """Begin to watch the chunks of a response, and return the response."""
        if isinstance(incoming.chunks, BufferedBody):
            self.note_chunks([incoming.chunks.data])
            self.note_complete()
            return incoming
        return incoming.replace(add_step(incoming.chunks, WatchStep(self)))

    def note_chunks(self, chunks: list[bytes]) -> None:
        if self.first_chunk is None:
            self.first_chunk = time.monotonic() - self._started
            self._model = find_response_model(chunks[0])
        self._last = chunks[-1]

    def note_complete(self) -> None:
        """Record that the upstream has sent the last byte."""
        self._complete = True
        self._ended_at = time.time_ns()

    def fail(self, error: BaseException) -> None:
        """Record that the upstream could not be called. The reason of a cancelled task is only known later."""
        if isinstance(error, GateError):
            self._end_span(error.code)
        elif isinstance(error, Exception):
            self._end_span(type(error).__qualname__)

    def end(self, ended: RequestEnd) -> None:
        """End the span with the caller's request."""
        self._end_span("" if ended.outcome == "complete" else _name_error(ended))

    def close(self) -> None:
        """Close the attempt before its request has ended: it has failed, or the caller has left."""
        progress = self._call.progress
        self._end_span(progress.attempt_error or progress.error_code or ("" if self._complete else LEFT))

    def _end_span(self, error: str) -> None:
        span, self._span = self._span, None
        if span is None:
            return
        meter, progress = self._call.meter, self._call.progress
        is_only = self._sent.count(self._attempt) == 1 and progress.attempts == self._attempt
        if self._measurements is not None and not progress.cached:
            self._measure(self._measurements, error, meter.usage if is_only else None)
        if not span.is_recording():
            return
        span.set_attribute("gen_ai.request.stream", progress.is_streamed)
        if progress.is_streamed and self.first_chunk is not None:
            span.set_attribute("gen_ai.response.time_to_first_chunk", self.first_chunk)
        model = self._model or find_response_model(b"", self._last)
        if model:
            span.set_attribute("gen_ai.response.model", model)
        if progress.cached:
            span.set_attribute("tornado_gate.cached", True)
        if is_only:
            span.set_attributes(describe_usage(meter.usage))
            if meter.finish_reason:
                span.set_attribute("gen_ai.response.finish_reasons", [meter.finish_reason])
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end(self._ended_at)

    def _measure(self, measurements: Measurements, error: str, usage: Usage | None) -> None:
        """Record the metrics of the request. A part of many embeddings has no usage of its own, so it counts 0 tokens."""
        ended_at = time.time_ns() if self._ended_at is None else self._ended_at
        measurements.record_duration(self._target, (ended_at - self._began_at) / 1e9, error)
        if self._call.progress.is_streamed and self.first_chunk is not None:
            measurements.record_first_chunk(self._target, self.first_chunk)
        measurements.record_usage(self._target, usage)


class WatchStep(Step[bytes, bytes]):
    """A step that records the first and the last chunk of a response."""

    __slots__ = ("_attempt",)

    def __init__(self, attempt: AttemptSpan) -> None:
        self._attempt = attempt

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        self._attempt.note_chunks(items)
        out += items

    def end(self, out: list[bytes]) -> None:
        self._attempt.note_complete()
