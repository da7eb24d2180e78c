"""Checks the order of stream events that `types.events` defines. No I/O."""

from __future__ import annotations

from tornado_gate.types.events import (
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    StreamError,
    StreamEvent,
    UsageReport,
)
from tornado_gate.types.media_results import (
    EmbeddingResult,
    ImageResult,
    ModerationResult,
    PartialImage,
    SpeechChunk,
    SpeechEnd,
    SpeechStart,
    TranscriptionResult,
)
from tornado_gate.types.realtime import ClientSecret
from tornado_gate.types.results import ModelList, TokenCount
from tornado_gate.types.videos import TaskList, TaskResult, VideoOperation

_RESULT_EVENTS = (
    ClientSecret,
    EmbeddingResult,
    ModelList,
    ModerationResult,
    TaskList,
    TokenCount,
    TranscriptionResult,
    VideoOperation,
)
"""Events that are a whole response."""
_NON_CHAT_EVENTS = (*_RESULT_EVENTS, ImageResult, PartialImage, SpeechChunk, SpeechEnd, SpeechStart, TaskResult)


class OrderError(Exception):
    """A plugin yielded events in an invalid order."""


class OrderChecker:
    """Checks each event of one stream."""

    __slots__ = ("_choices", "_done", "_indexes", "_speaking", "finished", "open", "started")

    def __init__(self) -> None:
        self.started = False
        self.finished = False
        self.open: dict[int, int] = {}
        """The open parts: index to choice."""
        self._indexes: set[int] = set()
        self._choices: set[int] = set()
        self._done: set[int] = set()
        self._speaking = False

    def check(self, event: StreamEvent) -> None:
        """Raise OrderError, with the violated rule, if `event` may not come now."""
        if self.finished:
            raise OrderError(f"{type(event).__name__} after the end")
        match event:
            case PartDelta(index=index):
                if index not in self.open:
                    raise OrderError(f"PartDelta for part {index}, which is not open")
            case PartStart():
                self._check_part_start(event)
            case PartEnd(index=index):
                if self.open.pop(index, None) is None:
                    raise OrderError(f"PartEnd for part {index}, which is not open")
            case Finish():
                self._check_finish(event)
            case ResponseStart():
                if self.started:
                    raise OrderError("a second ResponseStart")
                self.started = True
            case UsageReport():
                self._require_start(event)
            case StreamError():
                self.finished = True
            case _:
                self._check_non_chat_event(event)

    def _check_non_chat_event(self, event: StreamEvent) -> None:
        if not isinstance(event, _NON_CHAT_EVENTS):
            raise OrderError(f"{type(event).__name__}, which is not a stream event")
        if self._indexes or self._done:
            raise OrderError(f"{type(event).__name__} in a chat response")
        match event:
            case SpeechStart():
                if self._speaking:
                    raise OrderError("a second SpeechStart")
                self._speaking = True
            case SpeechChunk() | SpeechEnd():
                if not self._speaking:
                    raise OrderError(f"{type(event).__name__} before SpeechStart")
                self.finished = isinstance(event, SpeechEnd)
            case PartialImage():
                pass
            case TaskResult(last=last):
                self.finished = last
            case _:
                self.finished = True

    def _check_part_start(self, event: PartStart) -> None:
        self._require_start(event)
        if event.index in self._indexes:
            raise OrderError(f"a second PartStart for part {event.index}")
        if event.choice in self._done:
            raise OrderError(f"PartStart in choice {event.choice}, which has finished")
        self._indexes.add(event.index)
        self.open[event.index] = event.choice
        self._choices.add(event.choice)

    def _check_finish(self, event: Finish) -> None:
        self._require_start(event)
        if event.choice in self.open.values():
            raise OrderError(f"Finish of choice {event.choice}, which has an open part")
        if event.choice in self._done:
            raise OrderError(f"a second Finish of choice {event.choice}")
        self._done.add(event.choice)

    def is_complete(self) -> bool:
        """Whether the stream may end here."""
        return self.finished or (bool(self._done) and not self.open and self._choices <= self._done)

    def _require_start(self, event: StreamEvent) -> None:
        if not self.started:
            raise OrderError(f"{type(event).__name__} before ResponseStart")
