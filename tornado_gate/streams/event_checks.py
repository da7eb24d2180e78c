"""The check of the events of a stream while they pass: their order, their types, and whether they fit the request. No I/O."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import groupby
from typing import Any

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import stages
from tornado_gate.streams.event_order import OrderChecker, OrderError
from tornado_gate.streams.text_runs import RUN_LENGTH, find_texts, has_logprobs
from tornado_gate.types.events import PartDelta, ResponseStart, StreamError, StreamEvent
from tornado_gate.types.media_results import SpeechStart

_HELD_EVENTS = (ResponseStart, SpeechStart)
"""Events without content, held back until the first event with content: an error before that keeps its status."""


def check_events(
    events: AsyncIterator[StreamEvent],
    blame: Callable[[OrderError, str], GateError],
    redact: Callable[[GateError], object] | None = None,
    request: type | None = None,
) -> AsyncIterator[StreamEvent]:
    """Return `events`, checked; an error after the first event with content becomes a StreamError.

    The check covers their order, the types of their fields, and whether they fit a request of class `request`. So a wrong event
    is a fault of the provider that yields it, not of the format that cannot render it.

    Before the first event with content (any event except ResponseStart and SpeechStart) an error is raised. So it keeps its
    status, and another target may be tried. `blame` creates the error for an invalid event. `redact` modifies every error in
    place before it is raised or becomes a StreamError.
    """
    return stages.add_step(events, _CheckStep(blame, redact, request))


class _CheckStep(stages.Step[StreamEvent, StreamEvent]):
    __slots__ = ("_blame", "_checker", "_held", "_redact", "_spoken")

    def __init__(
        self,
        blame: Callable[[OrderError, str], GateError],
        redact: Callable[[GateError], object] | None,
        request: type | None,
    ) -> None:
        self._blame = blame
        self._redact = redact
        self._checker = OrderChecker(request)
        self._held: list[StreamEvent] = []
        self._spoken = False

    def take(self, items: list[StreamEvent], out: list[StreamEvent]) -> bool:
        if len(items) < RUN_LENGTH:
            return self._check_each(items, out)
        texts = self._checker.texts
        for kind, run in groupby(items, type):
            events: list[Any] = [*run]
            if (
                kind is PartDelta
                and (part_texts := find_texts(events)) is not None
                and texts.get(part_texts[0]) is str
                and not has_logprobs(events)
            ):
                out += events
            elif self._check_each(events, out):
                return True
        return False

    def _check_each(self, items: list[StreamEvent], out: list[StreamEvent]) -> bool:
        checker = self._checker
        texts = checker.texts
        for event in items:
            if (  # most events are deltas of an open text
                type(event) is PartDelta and type(event.data) is texts.get(event.index) and event.logprobs is None
            ):
                out.append(event)
                continue
            try:
                checker.check(event)
            except OrderError as error:
                raise self._blame(error, "its events") from error
            if self._redact is not None and isinstance(event, StreamError):
                self._redact(event.error)
            if not self._spoken and self._hold_or_release(event, out):
                continue
            out.append(event)
            if checker.finished:
                return True
        return False

    def end(self, out: list[StreamEvent]) -> None:
        if not self._checker.is_complete():
            raise UpstreamError("The upstream's stream ended before the response was complete.")

    def attribute(self, error: BaseException) -> BaseException:
        if isinstance(error, TypeError):  # the index of a PartDelta cannot be a key
            return self._blame(OrderError(str(error)), "its events")
        return error

    def fail(self, error: GateError) -> list[StreamEvent] | GateError:
        if self._redact is not None:
            self._redact(error)
        return [StreamError(error=error)] if self._spoken else error

    def _hold_or_release(self, event: StreamEvent, out: list[StreamEvent]) -> bool:
        """Hold `event` back and return True, or release the held events. Raises the error of a StreamError."""
        if isinstance(event, _HELD_EVENTS):
            self._held.append(event)
            return True
        if isinstance(event, StreamError):
            raise event.error
        self._spoken = True
        out += self._held
        self._held.clear()
        return False
