"""Checks of stream events: their order, which `types.events` defines, and the types of their fields. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tornado_gate.errors import ContractError
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
from tornado_gate.types.field_checks import find_wrong_field
from tornado_gate.types.media_requests import (
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    SpeechRequest,
    TranscriptionRequest,
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
from tornado_gate.types.requests import ChatRequest, CountTokensRequest
from tornado_gate.types.results import ModelList, TokenCount
from tornado_gate.types.value import Value
from tornado_gate.types.videos import (
    TaskList,
    TaskResult,
    VideoCancel,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)

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
_CHAT_EVENTS = (PartStart, PartDelta, PartEnd, Finish)

_IN_ALL: Final = frozenset({ResponseStart, UsageReport, StreamError})
"""The events that may come in the response to any request."""
_ANSWERS: Final[dict[type, frozenset[type]]] = {
    ChatRequest: _IN_ALL.union(_CHAT_EVENTS),
    CountTokensRequest: _IN_ALL | {TokenCount},
    EmbeddingRequest: _IN_ALL | {EmbeddingResult},
    ImageRequest: _IN_ALL | {PartialImage, ImageResult},
    ModerationRequest: _IN_ALL | {ModerationResult},
    SpeechRequest: _IN_ALL | {SpeechStart, SpeechChunk, SpeechEnd},
    TranscriptionRequest: _IN_ALL.union(_CHAT_EVENTS) | {TranscriptionResult},
    VideoCancel: _IN_ALL | {VideoOperation},
    VideoPoll: _IN_ALL | {VideoOperation},
    VideoRequest: _IN_ALL | {VideoOperation},
}
"""The events that may be in the response to a request of each class; a plugin's own class may have any."""
_NO_ANSWERS: Final[frozenset[type]] = frozenset()


def may_answer(request: type, event: type) -> bool:
    """Return whether an event of a class that is a whole response may come in the response to a request of a class."""
    return event in _RESULT_EVENTS and event in _ANSWERS.get(request, _NO_ANSWERS)


class OrderError(ContractError):
    """An error: a plugin yielded an event that is not allowed at this position, or whose fields are wrong."""


class OrderChecker:
    """A check of each event of one stream, the response to a request of class `request`."""

    __slots__ = (
        "_answers",
        "_choices",
        "_done",
        "_indexes",
        "_request",
        "_sounds",
        "_speaking",
        "finished",
        "open",
        "started",
        "texts",
    )

    def __init__(self, request: type | None = None) -> None:
        self._request = request
        self._answers = _ANSWERS.get(request) if request is not None else None
        self.started = False
        self.finished = False
        self.open: dict[int, int] = {}
        """The open parts: index to choice."""
        self.texts: dict[int, type] = {}
        """The open parts whose deltas are texts: index to the class of their data. A delta of these with text alone needs no
        other check.
        """
        self._sounds: set[int] = set()
        self._indexes: set[int] = set()
        self._choices: set[int] = set()
        self._done: set[int] = set()
        self._speaking = False

    def check(self, event: StreamEvent) -> None:
        """Raise OrderError, with the violated rule, if `event` may not come now or one of its fields is wrong."""
        kind = type(event)
        if self.finished:
            raise OrderError(f"{kind.__name__} after the end")
        if self._answers is not None and kind not in self._answers:
            self._refuse(event)
        check_place = _PLACES.get(kind) or _find_place(event)
        if isinstance(event, Value) and (wrong := find_wrong_field(event)):
            raise OrderError(wrong)
        check_place(self, event)

    def _check_response_start(self, event: ResponseStart) -> None:
        if self.started:
            raise OrderError("a second ResponseStart")
        self.started = True

    def _check_part_end(self, event: PartEnd) -> None:
        index = event.index
        if self.open.pop(index, None) is None:
            raise OrderError(f"PartEnd for part {index}, which is not open")
        self.texts.pop(index, None)
        self._sounds.discard(index)

    def _check_error(self, event: StreamError) -> None:
        self.finished = True

    def _refuse(self, event: StreamEvent) -> None:
        assert self._request is not None
        assert self._answers is not None
        if isinstance(event, tuple(self._answers)):  # a subclass of a plugin
            return
        if isinstance(event, _CHAT_EVENTS + _NON_CHAT_EVENTS):
            raise OrderError(f"{type(event).__name__} in the response to a {self._request.__name__}")
        raise OrderError(f"{type(event).__name__}, which is not a stream event")

    def _check_delta(self, event: PartDelta) -> None:
        index = event.index
        if index not in self.open:
            raise OrderError(f"PartDelta for part {index}, which is not open")
        kind = bytes if index in self._sounds else self.texts.get(index)
        if kind is None:
            raise OrderError(f"PartDelta for part {index}, which is complete: its PartStart has a `part`")
        if event.data and not isinstance(event.data, kind):
            data_type = type(event.data).__name__
            raise OrderError(
                f"PartDelta.data is {data_type}; allowed: {kind.__name__} (bytes in audio, str in other parts)"
            )

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
        if event.part is None:
            if event.kind in ("image", "vendor"):
                raise OrderError(f"PartStart of kind {event.kind} without `part`")
            if event.kind == "audio":
                self._sounds.add(event.index)
            else:
                self.texts[event.index] = str
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
        """Return whether the stream may end here."""
        return self.finished or (bool(self._done) and not self.open and self._choices <= self._done)

    def _require_start(self, event: StreamEvent) -> None:
        if not self.started:
            raise OrderError(f"{type(event).__name__} before ResponseStart")


_PLACES: Final[dict[type, Callable[[OrderChecker, Any], None]]] = {
    PartDelta: OrderChecker._check_delta,
    PartStart: OrderChecker._check_part_start,
    PartEnd: OrderChecker._check_part_end,
    Finish: OrderChecker._check_finish,
    ResponseStart: OrderChecker._check_response_start,
    UsageReport: OrderChecker._require_start,
    StreamError: OrderChecker._check_error,
}
"""The checks by class, because each event passes here."""


def _find_place(event: StreamEvent) -> Callable[[OrderChecker, Any], None]:
    """Return the check of an event of another class: a subclass of a plugin, or no event of a chat."""
    checks = (check for kind, check in _PLACES.items() if isinstance(event, kind))
    return next(checks, OrderChecker._check_non_chat_event)
