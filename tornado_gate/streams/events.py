"""The conversion of stream events to a whole result and back. No wire format, no I/O.

A whole response is a collected stream, so that streaming and non-streaming responses share one code path. `WholeEvents` are the
events of a response that is known completely. Code that supports the class takes the result; other code reads the events.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import orjson

from tornado_gate.codec.large_json import encode_json, exceeds
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import batches, stages
from tornado_gate.streams.event_checks import check_events
from tornado_gate.streams.event_order import OrderChecker, OrderError
from tornado_gate.streams.large_work import run_alone
from tornado_gate.types.content import (
    Audio,
    Data,
    File,
    Image,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    VendorPart,
)
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
from tornado_gate.types.media_results import PartialImage
from tornado_gate.types.results import ChatResult, Choice, Usage
from tornado_gate.types.value import State, field
from tornado_gate.types.wire import BufferedBody, UpstreamResponse

__all__ = [
    "Collector",
    "OrderChecker",
    "OrderError",
    "WholeEvents",
    "check_events",
    "close",
    "collect",
    "convert_whole",
    "iterate_events",
    "read_single_event",
    "render_collected",
    "render_events",
    "render_json",
    "render_single",
    "replay",
]

E = TypeVar("E")
R = TypeVar("R")

_PLAIN_PARTS: Final = frozenset({File, Image, Refusal, Text, Thinking, ToolCall, ToolResult, VendorPart})
"""The parts that are the same after `replay` and `collect`. Audio is encoded again."""


class WholeEvents(batches.BatchIterator[StreamEvent]):
    """The events of a response that is known completely: `result` is a ChatResult, or the only event of another operation.

    It is an ordinary async iterator of the events. `size` is the size of the upstream's body, if it is known. `is_direct`:
    formats and the core may take `result` instead. The events have the same content, and the short response needs no thread.
    """

    __slots__ = ("_is_read", "is_direct", "result")

    def __init__(self, result: ChatResult | StreamEvent, *, size: int | None = None) -> None:
        super().__init__()
        self.result = result
        self._is_read = False
        self.is_direct = size is not None and size <= stages.LARGE_BYTES
        if isinstance(result, ChatResult):
            try:
                self.is_direct = _is_plain(result) and (self.is_direct or (size is None and not is_large(result)))
            except (AttributeError, TypeError):
                self.is_direct = False  # a field is wrong, which the check of its event reports

    async def fetch_batch(self) -> list[StreamEvent]:
        if self._is_read:
            raise StopAsyncIteration
        self._is_read = True
        result = self.result
        return list(replay(result)) if isinstance(result, ChatResult) else [result]

    async def aclose(self) -> None:
        self._left, self._is_read = [], True


def _is_plain(result: ChatResult) -> bool:
    """Return whether a whole response is the same after `replay` and `collect`."""
    for choice in result.choices:
        if choice.logprobs or not _PLAIN_PARTS.issuperset(map(type, choice.parts)):
            return False
    return bool(result.choices)


def convert_whole(incoming: UpstreamResponse, convert: Callable[[Any], ChatResult | StreamEvent]) -> WholeEvents | None:
    """Return the events of a short whole response, whose parsed body `convert` converts. Return None for any other response.

    It also returns None if `convert` fails. Then the body is read as a stream, and that code reports the failure.
    """
    chunks = incoming.chunks
    if type(chunks) is not BufferedBody or len(chunks.data) > stages.LARGE_BYTES:
        return None
    try:
        return WholeEvents(convert(orjson.loads(chunks.data)), size=len(chunks.data))
    except Exception:
        return None


class _OpenPart(State):
    start: PartStart
    pieces: list[Any] = field(default_factory=list)
    transcript: list[str] = field(default_factory=list)


class _OpenChoice(State):
    parts: dict[int, Part] = field(default_factory=dict)
    logprobs: dict[str, list[Any]] = field(default_factory=dict)
    finish: Finish | None = None


class Collector:
    """A builder of a ChatResult from stream events."""

    def __init__(self) -> None:
        self._start: ResponseStart | None = None
        self._open: dict[int, _OpenPart] = {}
        self._choices: dict[int, _OpenChoice] = {}
        self._usage: Usage | None = None

    def add(self, event: StreamEvent) -> None:
        """Add one event. Raises the error of a StreamError, and OrderError for an event of another operation than chat."""
        match event:
            case PartDelta(index=index):
                self._add_delta(self._open[index], event)
            case PartStart(index=index):
                self._open[index] = _OpenPart(event)
                self._choices.setdefault(event.choice, _OpenChoice())
            case PartEnd(index=index):
                part = self._open.pop(index)
                self._choices[part.start.choice].parts[index] = _close_part(part, event)
            case Finish(choice=choice):
                self._choices.setdefault(choice, _OpenChoice()).finish = event
            case UsageReport(usage=usage):
                self._usage = usage
            case ResponseStart():
                self._start = event
            case StreamError(error=error):
                raise error
            case _:
                raise OrderError(f"{type(event).__name__} in a chat response")

    def _add_delta(self, part: _OpenPart, delta: PartDelta) -> None:
        if delta.data:
            part.pieces.append(delta.data)
        if delta.transcript:
            part.transcript.append(delta.transcript)
        if delta.logprobs:
            kind = "refusal" if part.start.kind == "refusal" else "content"
            self._choices[part.start.choice].logprobs.setdefault(kind, []).extend(delta.logprobs)

    def result(self) -> ChatResult:
        """Return the whole response. Raises UpstreamError if a choice has no Finish."""
        if self._start is None or not self._choices or any(c.finish is None for c in self._choices.values()):
            raise UpstreamError("The upstream's response ended before it was complete.")
        return ChatResult(
            model=self._start.model,
            id=self._start.id,
            created=self._start.created,
            extra=self._start.extra,
            usage=self._usage,
            choices=tuple(_build_choice(self._choices[index]) for index in sorted(self._choices)),
        )


def _build_choice(choice: _OpenChoice) -> Choice:
    finish = choice.finish
    assert finish is not None, "result() has looked"
    return Choice(
        parts=tuple(choice.parts[index] for index in sorted(choice.parts)),
        reason=finish.reason,
        raw_reason=finish.raw,
        stop_sequence=finish.stop_sequence,
        explanation=finish.explanation,
        logprobs=choice.logprobs or None,
        extra=finish.extra,
    )


def _close_part(part: _OpenPart, end: PartEnd) -> Part:
    start = part.start
    extra = {**start.extra, **end.extra}
    if start.part is not None:
        return start.part
    if start.kind == "audio":
        sound = base64.b64encode(b"".join(part.pieces)).decode()
        return Audio(
            source=Data(media_type=start.media_type, base64=sound),
            reference=start.id or None,
            transcript="".join(part.transcript) or None,
            extra=extra,
        )
    text = "".join(part.pieces)
    match start.kind:
        case "tool_call":
            return ToolCall(
                id=start.id, name=start.name, arguments=text, kind=start.tool_kind, signature=end.signature, extra=extra
            )
        case "thinking":
            return Thinking(text=text, signature=end.signature, redacted=start.redacted, extra=extra)
        case "refusal":
            return Refusal(text=text, extra=extra)
        case "text":
            return Text(text=text, signature=end.signature, citations=end.citations, extra=extra)
        case _:
            raise OrderError(f"a part of kind {start.kind} without `part` in its PartStart")


async def collect(events: AsyncIterator[StreamEvent]) -> ChatResult:
    """Return the whole response. Raises the error of a StreamError, and UpstreamError for an incomplete stream."""
    if type(events) is WholeEvents and events.is_direct and isinstance(events.result, ChatResult):
        return events.result
    collector = Collector()
    async for together in batches.iterate_batches(events):
        for event in together:
            collector.add(event)
    return collector.result()


def render_events(
    events: AsyncIterator[E],
    frames: Callable[[list[E], list[bytes]], None],
    last: Callable[[], bytes],
    failure: Callable[[GateError], bytes],
) -> AsyncIterator[bytes]:
    """Return the chunks of a streamed reply; events that arrive together become one chunk.

    `frames(events, out)` appends the frames of events, of the vocabulary or of the format. `last()` returns the frames that end
    a complete response, or b"". An error before the first chunk is raised and keeps its status; for a later error,
    `failure(error)` returns the last chunk.
    """
    return stages.add_step(events, _RenderStep(frames, last, failure))


class _RenderStep(stages.Step[E, bytes]):
    __slots__ = ("_begun", "_failure", "_frames", "_last")

    takes_large = True

    def __init__(
        self,
        frames: Callable[[list[E], list[bytes]], None],
        last: Callable[[], bytes],
        failure: Callable[[GateError], bytes],
    ) -> None:
        self._frames = frames
        self._last = last
        self._failure = failure
        self._begun = False

    def take(self, items: list[E], out: list[bytes]) -> None:
        frames: list[bytes] = []
        try:
            self._frames(items, frames)
        finally:
            if frames:
                self._begun = True
                out += join_frames(frames)

    def end(self, out: list[bytes]) -> None:
        if last := self._last():
            out.append(last)

    def fail(self, error: GateError) -> list[bytes] | GateError:
        return [self._failure(error)] if self._begun else error


def join_frames(frames: list[bytes]) -> list[bytes]:
    """Return frames as one chunk, which is written immediately. Large ones stay separate, because joining copies them."""
    return [b"".join(frames)] if sum(map(len, frames)) <= stages.LARGE_BYTES else frames


def render_collected(events: AsyncIterator[StreamEvent], render: Callable[[ChatResult], bytes]) -> AsyncIterator[bytes]:
    """Return one chunk: `render` applied to the whole response. Raises the errors of `collect`.

    It is a `BufferedBody` if the events are `WholeEvents`. If `render` fails, the failure is raised when the chunk is read.
    """
    if type(events) is WholeEvents and events.is_direct and isinstance(events.result, ChatResult):
        try:
            return BufferedBody(render(events.result))
        except Exception:
            pass  # it is raised again where the chunk is read
    return stages.add_step(events, _CollectStep(render))


def render_json(events: AsyncIterator[StreamEvent], render: Callable[[ChatResult], Any]) -> AsyncIterator[bytes]:
    """Return one chunk as `render_collected`: the JSON text of what `render` returns."""
    if type(events) is WholeEvents and events.is_direct:
        return render_collected(events, lambda result: orjson.dumps(render(result)))
    return render_collected(events, lambda result: dump_result(result, render(result)))


def render_single(
    events: AsyncIterator[StreamEvent], kind: type[R], render: Callable[[R], bytes]
) -> AsyncIterator[bytes]:
    """Return one chunk: `render` applied to the result event of class `kind`. Raises the errors of `read_single_event`.

    It is a `BufferedBody` if the events are `WholeEvents`. If `render` fails, the failure is raised when the chunk is read.
    """
    if type(events) is WholeEvents and events.is_direct and isinstance(events.result, kind):
        try:
            return BufferedBody(render(events.result))
        except Exception:
            pass  # it is raised again where the chunk is read
    return _render_single(events, kind, render)


async def _render_single(
    events: AsyncIterator[StreamEvent], kind: type[R], render: Callable[[R], bytes]
) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, kind)
    finally:
        await close(events)
    yield render(result)


class _CollectStep(stages.Step[StreamEvent, bytes]):
    __slots__ = ("_collector", "_is_rendered", "_render")

    def __init__(self, render: Callable[[ChatResult], bytes]) -> None:
        self._render = render
        self._collector = Collector()
        self._is_rendered = False

    def take(self, items: list[StreamEvent], out: list[bytes]) -> None:
        add = self._collector.add
        for event in items:
            add(event)

    def end(self, out: list[bytes]) -> stages.Large | None:
        if self._is_rendered:
            return None
        self._is_rendered = True
        result = self._collector.result()
        if is_large(result):
            return stages.Large([], lambda out: out.append(self._render(result)))
        out.append(self._render(result))
        return None


async def render_result(result: ChatResult, render: Callable[[ChatResult], R]) -> R:
    """Return the result of `render`, which runs in a thread for a large response."""
    return await run_alone(render, result) if is_large(result) else render(result)


def dump_result(result: ChatResult, body: Any) -> bytes:
    """Return the JSON text of `body`, which shows `result`. The text of a large response is in chunks."""
    return encode_json(body) if is_large(result) else orjson.dumps(body)


def is_large(result: ChatResult) -> bool:
    """Return whether a response is so long that it is rendered in a thread."""
    left = stages.LARGE_BYTES
    for choice in result.choices:
        left -= sum(map(_measure_part, choice.parts))
        if left < 0 or (choice.logprobs and exceeds(choice.logprobs, left)):
            return True
    return False


def _measure_part(part: Part) -> int:
    match part:
        case Text(text=text) | Thinking(text=text) | Refusal(text=text) | ToolCall(arguments=text):
            return len(text)
        case Audio(source=Data(base64=text)) | Image(source=Data(base64=text)):
            return len(text)
    return 0


def replay(result: ChatResult) -> Iterator[StreamEvent]:
    """Yield the events of a whole response; `collect` is the inverse."""
    yield ResponseStart(model=result.model, id=result.id, created=result.created, extra=result.extra)
    index = 0
    for number, choice in enumerate(result.choices):
        logprobs = {kind: tuple(entries) for kind, entries in (choice.logprobs or {}).items()}
        for part in choice.parts:
            yield from _replay_part(index, number, part, logprobs)
            index += 1
    if result.usage is not None:
        yield UsageReport(usage=result.usage)
    for number, choice in enumerate(result.choices):
        yield Finish(
            reason=choice.reason,
            raw=choice.raw_reason,
            choice=number,
            stop_sequence=choice.stop_sequence,
            explanation=choice.explanation,
            extra=choice.extra,
        )


def _replay_part(index: int, choice: int, part: Part, logprobs: dict[str, Any]) -> Iterator[StreamEvent]:
    start = partial(PartStart, index=index, choice=choice)
    match part:
        case Text():
            yield start(kind="text", extra=part.extra)
            yield PartDelta(index=index, data=part.text, logprobs=logprobs.pop("content", None))
            yield PartEnd(index=index, signature=part.signature, citations=part.citations)
        case Refusal():
            yield start(kind="refusal", extra=part.extra)
            yield PartDelta(index=index, data=part.text, logprobs=logprobs.pop("refusal", None))
            yield PartEnd(index=index)
        case Thinking():
            yield start(kind="thinking", redacted=part.redacted, extra=part.extra)
            yield PartDelta(index=index, data=part.text)
            yield PartEnd(index=index, signature=part.signature)
        case ToolCall():
            yield start(kind="tool_call", id=part.id, name=part.name, tool_kind=part.kind, extra=part.extra)
            yield PartDelta(index=index, data=part.arguments)
            yield PartEnd(index=index, signature=part.signature)
        case Audio(source=Data() as sound):
            yield start(kind="audio", id=part.reference or "", media_type=sound.media_type, extra=part.extra)
            yield PartDelta(index=index, data=base64.b64decode(sound.base64), transcript=part.transcript or "")
            yield PartEnd(index=index)
        case _:
            yield start(kind="vendor", part=part)
            yield PartEnd(index=index)


async def read_single_event(events: AsyncIterator[StreamEvent], kind: type[R]) -> R:
    """Return the result event of class `kind`.

    Raises the error of a StreamError, OrderError for other events, and UpstreamError if the stream ends without a result.
    """
    async for event in events:
        if isinstance(event, kind):
            return event
        if isinstance(event, StreamError):
            raise event.error
        if not isinstance(event, ResponseStart | UsageReport | PartialImage):
            raise OrderError(f"{type(event).__name__} where {kind.__name__} was expected")
    raise UpstreamError("The upstream's response ended before it was complete.")


async def iterate_events(events: Iterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    """Convert a plain iterator to an async one, as hooks return it."""
    for event in events:
        yield event


close = batches.close
"""Close an async generator that will not be read further; other iterators need no closing."""
