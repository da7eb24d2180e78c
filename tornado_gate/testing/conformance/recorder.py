"""A wrapper around the plugin under test, which records the arguments and results of its hooks."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tornado_gate.hookspecs import provider_impl
from tornado_gate.streams import stages
from tornado_gate.testing.conformance.examples import Example
from tornado_gate.types import Call, Request, StreamEvent, VerbatimRequest, VideoOperation
from tornado_gate.types.value import State, field, replace


class RecordedCall(State):
    """One call of a provider: its request, and the events of its response, in the order of their arrival."""

    call: Call
    request: Request
    events: list[StreamEvent] = field(default_factory=list)
    translated: bool = False
    """Whether the response was translated."""

    @property
    def lane(self) -> str:
        return "verbatim" if isinstance(self.request, VerbatimRequest) else "common"


POLL_SECONDS = 0.01


class Recorder:
    """The recorded plugin. Only the pauses between polls of a video change. `calls` are the calls since the last
    `clear`. `example` is the request that the caller sends.
    """

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self.example: Example | None = None

    @provider_impl(wrapper=True, tryfirst=True)
    def translate_request(self, call: Call, request: Request) -> Generator[None, Any, Any]:
        self.calls.append(RecordedCall(call, request))
        return (yield)

    @provider_impl(wrapper=True, tryfirst=True)
    def translate_response(self, call: Call, request: Request) -> Generator[None, Any, Any]:
        events = yield
        record = RecordedCall(call, request, translated=True)
        for known in self.calls:
            if known.call.id == call.id and known.request is request and not known.translated:
                record = known
        record.translated = True
        if record not in self.calls:
            self.calls.append(record)
        if not hasattr(events, "__aiter__"):
            return events  # the core reports the fault
        return stages.add_step(events, _RecordEvents(record.events))

    def clear(self, example: Example | None) -> None:
        self.calls, self.example = [], example


class _RecordEvents(stages.Step[StreamEvent, StreamEvent]):
    __slots__ = ("_events",)

    def __init__(self, events: list[StreamEvent]) -> None:
        self._events = events

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> None:
        self._events += items
        out += [replace(item, poll_after=POLL_SECONDS) if isinstance(item, VideoOperation) else item for item in items]
