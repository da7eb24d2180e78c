"""The verbatim lane: an upstream's answer passes to the caller as it came, and usage and finish reason are noted.

`forward_answer` is what a format's `forward_response` returns. What differs from format to format is a `StreamAdapter`: which
frame is an error, which frames need not be parsed, how a stream that broke off ends. Knows no wire format.

A stream passes whole frame by whole frame. A failure before the first frame with data is raised and keeps its status; a later
one becomes the frames of `StreamAdapter.render_ending`, and nothing follows them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import orjson

from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import sse, stages
from tornado_gate.types import BufferedBody, Call, Reply, UpstreamResponse, VerbatimRequest

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
EVENTS: Final = f"{EVENT_STREAM}; charset=utf-8"

_DONE: Final = b"[DONE]"
_LAST_FRAMES: Final = 4
"""How many frames at the end of a chunk are read one by one when the chunk is not quiet: finish reason, usage, end."""


class StreamMeter(Protocol):
    """Reads the frames of one stream, and notes usage and finish reason on the call's meter."""

    @property
    def finished(self) -> bool:
        """Whether the answer has ended well."""

    @property
    def done(self) -> bool:
        """Whether nothing may follow: the frame that ends a stream has passed, or an error."""

    def note(self, raw: bytes) -> bool | None:
        """Read one frame. True: it holds nothing but the usage that the gateway asked for.

        May raise a GateError, which then ends the stream in place of the frame.
        """


class Splitter(Protocol):
    """Splits a stream that is not made of server-sent events."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that `chunk` completes. Raises UpstreamError for one without end."""


class StreamAdapter(ABC):
    """What the frames and bodies of one wire format mean. One object serves all requests, so it has no state.

    Inherit from it: every method but `meter`, `parse_error` and `render_ending` has a default. A frame is given as it came, with
    the empty line after it.
    """

    keep_alive: bytes = b": ping\n\n"
    """What is sent while an upstream that streams is silent; `b""`: nothing."""
    streams_bodies: bool = False
    """Whether a whole body becomes a stream, by `render_stream`, when the caller asked for a stream."""

    @abstractmethod
    def meter(self, call: Call, request: VerbatimRequest) -> StreamMeter:
        """What reads the frames of one stream."""

    def splitter(self, meter: Any) -> Splitter | None:
        """What splits the stream; None for server-sent events."""
        return None

    def is_quiet(self, frames: bytes) -> bool:
        """Whether one or more frames, which are not the first, certainly hold nothing that the meter must note.

        Called for every chunk, so it searches and does not parse. Inside a JSON string a quotation mark is escaped: text that a
        model writes cannot look like a member. The default parses each frame.
        """
        return False

    def has_data(self, raw: bytes) -> bool:
        """Whether a frame is more than a comment. Comments before the first data wait for it."""
        return sse.parse(raw) is not None

    @abstractmethod
    def parse_error(self, body: Any) -> GateError | None:
        """The error that the JSON of the first frame is, or None."""

    def hides_usage(self, request: VerbatimRequest) -> bool:
        """Whether frames for which `StreamMeter.note` is true are taken out."""
        return False

    def render_frames(self, meter: Any, frames: list[bytes]) -> list[bytes]:
        """The chunks that the caller gets for frames that came together and are not all quiet: as they came, in one piece."""
        return [b"".join(frames)]

    @abstractmethod
    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        """The frames that end a stream which broke off with `error`; with None, one that ended well without saying so."""

    def parse_body(self, raw: bytes) -> Any:
        """The JSON of a whole body, where long values may be left out. Raises JSONDecodeError."""
        return orjson.loads(raw)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        """What the caller gets for a whole body, whose usage is noted. Raises the error that it may be."""
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        """A whole body as the stream that the caller asked for. Only called when `streams_bodies` is true."""
        raise NotImplementedError


def forward_answer(call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """The reply for an upstream's answer. Its content type says whether it is a stream; without one, the request does.

    A body that is there already is read at once: raises the error that it may be.
    """
    content_type = incoming.headers.get("content-type", "")
    kind = JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()
    if kind == EVENT_STREAM or (request.stream and kind != JSON):
        return Reply(
            content_type=content_type if kind == EVENT_STREAM else EVENTS,
            chunks=forward_stream(call, adapter, request, incoming),
            keep_alive=adapter.keep_alive,
        )
    if request.stream and adapter.streams_bodies:
        chunks = _stream_body(call, adapter, request, incoming)
        return Reply(content_type=EVENTS, chunks=chunks, keep_alive=adapter.keep_alive)
    return Reply(
        content_type=content_type if kind == JSON else JSON, chunks=forward_body(call, adapter, request, incoming)
    )


def forward_stream(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """The chunks of a stream."""
    return stages.add_step(incoming.chunks, _Passthrough(call, adapter, request))


def forward_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """The chunks of a whole body; a `Whole` for a `Whole`, whose error is raised at once."""
    if isinstance(incoming.chunks, BufferedBody):
        return BufferedBody(_read_body(call, adapter, request, incoming.chunks.data))
    return _forward_body(call, adapter, request, incoming)


async def _forward_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    yield _read_body(call, adapter, request, await incoming.read())


def _read_body(call: Call, adapter: StreamAdapter, request: VerbatimRequest, raw: bytes) -> bytes:
    try:
        body = adapter.parse_body(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error
    return adapter.read_body(call, request, raw, body)


async def _stream_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """An answer that failed is still raised: nothing was sent yet."""
    try:
        raw = await incoming.read()
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error
    adapter.read_body(call, request, raw, body)
    async for chunk in adapter.render_stream(call, request, body):
        yield chunk


class _Passthrough(stages.Step[bytes, bytes]):
    """The whole frames that each chunk completes, without those that the caller does not get."""

    __slots__ = ("_adapter", "_begun", "_call", "_frames", "_held", "_hides_usage", "_meter", "_sent", "_splitter")

    def __init__(self, call: Call, adapter: StreamAdapter, request: VerbatimRequest) -> None:
        self._call = call
        self._adapter = adapter
        self._meter = adapter.meter(call, request)
        self._hides_usage = adapter.hides_usage(request)
        self._splitter = adapter.splitter(self._meter)
        self._frames = sse.FrameSplitter()
        self._held: list[bytes] = []  # comments before the first data: an error there is still an answer with a status
        self._begun = False  # the first data has come
        self._sent = False

    def take(self, items: list[bytes], out: list[bytes]) -> None:
        if self._splitter is not None:
            self._take_split(self._splitter, items, out)
            return
        complete, is_quiet, meter = self._frames.take, self._adapter.is_quiet, self._meter
        for chunk in items:
            frames = complete(chunk)
            if not frames:
                continue
            if self._begun and not meter.done and is_quiet(frames):
                self._sent = True
                out.append(frames)
            else:
                self._pass(frames, out)

    def _take_split(self, splitter: Splitter, items: list[bytes], out: list[bytes]) -> None:
        chosen: list[bytes] = []
        try:
            for chunk in items:
                self._choose_each(splitter.feed(chunk), chosen)
        finally:
            self._render(chosen, out)

    def end(self, out: list[bytes]) -> None:
        self._pass_rest(out)
        if self._meter.done:
            return
        if not self._meter.finished:
            raise UpstreamError("The upstream's stream stopped before its end.")
        if last := self._adapter.render_ending(self._call, self._meter, None):
            out.append(last)

    def fail(self, error: GateError) -> list[bytes] | GateError:
        if not self._sent:
            return error
        return [] if self._meter.done else [self._adapter.render_ending(self._call, self._meter, error)]

    def _pass(self, frames: bytes, out: list[bytes]) -> None:
        """Append what the caller gets for whole frames that are not all quiet; also when one of them raises."""
        chosen: list[bytes] = []
        try:
            self._choose(frames, chosen)
        finally:
            self._render(chosen, out)

    def _choose(self, frames: bytes, chosen: list[bytes]) -> None:
        """What there is to note mostly stands in the last frames: those before are not parsed if they are quiet."""
        if not self._begun:
            first, frames = sse.split_first_frame(frames)
            self._choose_each([first], chosen)
            if not frames:
                return
            if self._begun and not self._meter.done and self._adapter.is_quiet(frames):
                chosen.append(frames)
                return
        if self._begun and not self._meter.done:
            quiet, last = split_last_frames(frames)
            if quiet and self._adapter.is_quiet(quiet):
                chosen.append(quiet)
                frames = last
        self._choose_each(sse.split(frames), chosen)

    def _pass_rest(self, out: list[bytes]) -> None:
        """Some upstreams omit the border of their last frame; one that was cut off in the middle is no frame."""
        rest = self._frames.flush()
        frame = sse.parse(rest)
        if frame is not None and (frame.data.strip() == _DONE or _is_json(frame.data)):
            self._pass(rest.rstrip(b"\r\n") + b"\n\n", out)

    def _choose_each(self, frames: list[bytes], chosen: list[bytes]) -> None:
        for raw in frames:
            if not self._begun:
                self._begin(raw, chosen)
            elif self._passes(raw):
                chosen.append(raw)

    def _render(self, chosen: list[bytes], out: list[bytes]) -> None:
        if chosen:
            self._sent = True
            out += self._adapter.render_frames(self._meter, chosen)

    def _begin(self, raw: bytes, chosen: list[bytes]) -> None:
        if not self._adapter.has_data(raw):
            self._held.append(raw)
            return
        if (error := self._adapter.parse_error(_parse_frame_json(raw))) is not None:
            raise error
        passes = self._passes(raw)  # may raise, as if nothing had come
        self._begun = True
        chosen += self._held
        self._held.clear()
        if passes:
            chosen.append(raw)

    def _passes(self, raw: bytes) -> bool:
        if self._meter.done:
            return False
        return self._adapter.is_quiet(raw) or not (self._meter.note(raw) and self._hides_usage)


def split_last_frames(frames: bytes) -> tuple[bytes, bytes]:
    """The frames of a chunk without the last few, and those."""
    end = len(frames) - 2
    for _ in range(_LAST_FRAMES):
        end = frames.rfind(b"\n\n", 0, end)
        if end < 0:
            return b"", frames
    return frames[: end + 2], frames[end + 2 :]


def _parse_frame_json(raw: bytes) -> Any:
    """The JSON in a frame; None when it has none."""
    frame = sse.parse(raw)
    try:
        return None if frame is None else orjson.loads(frame.data)
    except orjson.JSONDecodeError:
        return None


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
