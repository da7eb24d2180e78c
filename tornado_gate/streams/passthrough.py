"""The verbatim lane: forward an upstream's response unchanged to the caller, and record usage and finish reason.

A format's `forward_response` returns the result of `forward_answer`. The format supplies a `StreamAdapter`, which defines the
frames that are errors, the frames that need no parsing, and the end of an interrupted stream. This module contains no wire
format.

A stream is forwarded in complete frames. An error before the first frame with data is raised and keeps its status. A later error
becomes the frames of `StreamAdapter.render_ending`, which end the stream. A later error, and an error frame that was forwarded,
are stored as `late_error` in the call's meter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final, Protocol

import orjson

from tornado_gate.codec.large_json import load_json, load_upstream_json
from tornado_gate.codec.text_lengths import count_text_values
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import sse, stages
from tornado_gate.streams.events import join_frames
from tornado_gate.types import BufferedBody, Call, Meter, Reply, UpstreamResponse, VerbatimRequest
from tornado_gate.types.media_type import media_type
from tornado_gate.types.wire import WHOLE_BYTES, ResponseReader, invalid_json_error

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
EVENTS: Final = f"{EVENT_STREAM}; charset=utf-8"

MAX_MEASURED_BYTES: Final = 16 * 1024
"""The maximum average length of a frame that is measured as text, in bytes."""
MAX_HELD_BYTES: Final = 16 * 1024
"""The maximum number of bytes of comments before the first data that are held back and then passed on."""
_DONE: Final = b"[DONE]"
_LAST_FRAMES: Final = 3
"""The number of frames at the end of a non-quiet chunk that are parsed one by one: finish reason, usage, end."""


class StreamMeter(Protocol):
    """A reader of the frames of one stream, which records usage and finish reason on the call's meter."""

    @property
    def finished(self) -> bool:
        """Return whether the response is complete."""

    @property
    def done(self) -> bool:
        """Return whether no frame may follow, after the end frame or an error frame."""

    def note(self, raw: bytes) -> bool | None:
        """Read one frame. Return True if it contains only the usage that the gateway requested.

        A GateError that it raises ends the stream instead of the frame.
        """


class Splitter(Protocol):
    """A splitter of a stream that is not made of server-sent events."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames that `chunk` completes. Raises UpstreamError for a frame above the size limit.

        A splitter whose last frame may lack its end also has a method `flush`, which returns it in a list. One that keeps a large
        incomplete frame has a method `count_in`. It gets the response's reader, which counts memory (`event_bound.HeldEvent`).
        """


class StreamAdapter(ABC):
    """An interpreter of the frames and bodies of one wire format. One object serves all requests, so it must have no state.

    Inherit from it: all methods except `meter`, `parse_error` and `render_ending` have a default. Frames are passed unchanged,
    with the empty line that ends them.
    """

    stream_type: str = EVENTS
    """The content type of a stream, if the upstream declares none."""
    keep_alive: bytes = b": ping\n\n"
    """Sent to the caller while a streaming upstream sends no data; `b""` sends nothing."""
    streams_bodies: bool = False
    """Whether `render_stream` converts a whole body to a stream if the caller requested one."""
    frame_bytes: int = 200
    """The usual length of a frame with text, without the text: for an estimate of the tokens of a stream that breaks off."""
    produced_member: str = ""
    """The member of a whole body with the model's output, for an estimate of its tokens; "" for the whole body."""

    @abstractmethod
    def meter(self, call: Call, request: VerbatimRequest) -> StreamMeter:
        """Return a new meter for one stream."""

    def splitter(self, meter: Any) -> Splitter | None:
        """Return the splitter of the stream; None for server-sent events."""
        return None

    def is_quiet(self, frames: bytes) -> bool:
        """Return whether one or more frames, not including the first of the stream, certainly contain no data for the meter.

        Called for every chunk, so implementations search for byte strings instead of parsing. Quotation marks inside JSON strings
        are escaped, so a model's text cannot look like a JSON member. By default each frame is parsed.
        """
        return False

    def has_data(self, raw: bytes) -> bool:
        """Return whether a frame has data, and not only a comment.

        Comments before the first frame with data are held back until it arrives.
        """
        return sse.parse(raw) is not None

    def parse_frame(self, raw: bytes) -> Any:
        """Return the JSON of a frame, for `parse_error`; None without JSON. By default a frame is a server-sent event."""
        return sse.parse_json(raw)

    @abstractmethod
    def parse_error(self, body: Any) -> GateError | None:
        """Return the error that the JSON of the first frame represents, or None."""

    def hides_usage(self, request: VerbatimRequest) -> bool:
        """Return whether frames for which `StreamMeter.note` returns True are removed from the stream."""
        return False

    def render_frames(self, meter: Any, frames: list[bytes]) -> list[bytes]:
        """Return the caller's chunks for frames that arrived together and are not all quiet. Default: unchanged."""
        return join_frames(frames)

    @abstractmethod
    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        """Return the frames that end a stream interrupted by `error`, or, with None, a complete stream without an end frame."""

    def shorten_body(self, raw: bytes) -> bytes:
        """Return a long body without values that need no check, for `parse_body`. Called in the event loop."""
        return raw

    def parse_body(self, raw: bytes) -> Any:
        """Parse a whole body, or the result of `shorten_body`, as JSON; a long one in a thread. Raises JSONDecodeError."""
        return load_json(raw)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        """Record the usage of a whole body and return the caller's bytes, for a long body in a thread. Raises GateError if the
        body is an error.
        """
        return raw

    def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        """Yield a whole body as a stream, for a caller who requested one. Only called if `streams_bodies` is true."""
        raise NotImplementedError


def forward_answer(call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the reply for an upstream's response. Its content type decides whether it is a stream, else the request does.

    A `BufferedBody` is read immediately: raises GateError if it is an error.
    """
    content_type = incoming.headers.get("content-type", "")
    if content_type == JSON and not request.stream and adapter.stream_type is EVENTS:  # nearly all whole bodies
        return Reply(content_type=JSON, chunks=forward_body(call, adapter, request, incoming))
    kind = JSON if content_type == JSON else media_type(content_type)
    is_declared = kind == EVENT_STREAM or (
        adapter.stream_type is not EVENTS and kind == media_type(adapter.stream_type)
    )
    if is_declared or (request.stream and kind != JSON):
        return Reply(
            content_type=content_type if is_declared else adapter.stream_type,
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
    """Return the chunks of a stream."""
    return stages.add_step(incoming.chunks, _Passthrough(call, adapter, request, incoming.reader))


def forward_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """Return the chunks of a whole body. For a `BufferedBody`, return a `BufferedBody`, and raise an error immediately."""
    chunks = incoming.chunks
    if isinstance(chunks, BufferedBody):
        return BufferedBody(_read_body(call, adapter, request, chunks.data))
    return _forward_body(call, adapter, request, incoming)


async def _forward_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    raw = await incoming.read()
    text = adapter.shorten_body(raw)
    reader = adapter if text is raw else _ShortBodyReader(adapter, text)
    if len(text) > WHOLE_BYTES:
        yield await incoming.run(_read_body, call, reader, request, raw)
    else:
        yield _read_body(call, reader, request, raw)


class _ShortBodyReader:
    """An adapter for one body, of which it parses only `text`."""

    def __init__(self, adapter: StreamAdapter, text: bytes) -> None:
        self._adapter = adapter
        self._text = text
        self.read_body = adapter.read_body
        self.produced_member = adapter.produced_member

    def parse_body(self, raw: bytes) -> Any:
        return self._adapter.parse_body(self._text)


def _read_body(call: Call, adapter: StreamAdapter | _ShortBodyReader, request: VerbatimRequest, raw: bytes) -> bytes:
    try:
        body = adapter.parse_body(raw)
    except orjson.JSONDecodeError as error:
        raise invalid_json_error(call.target.provider) from error
    sent = adapter.read_body(call, request, raw, body)
    usage = call.meter.usage
    if usage is None or not usage.output_tokens:
        _measure_body(call.meter, adapter, body)
    return sent


def _measure_body(meter: Meter, adapter: StreamAdapter | _ShortBodyReader, body: Any) -> None:
    """Count the text of a whole body, if its upstream has reported no usage."""
    usage = meter.usage
    if meter.measures_text and (usage is None or not usage.output_tokens):
        member = adapter.produced_member
        produced = body.get(member) if member and isinstance(body, dict) else body
        meter.add_text(1, count_text_values(produced))


async def _stream_body(
    call: Call, adapter: StreamAdapter, request: VerbatimRequest, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """Yield a whole body as a stream. An error in the body is raised before the first chunk."""
    raw = await incoming.read()
    body = load_upstream_json(raw, call.target.provider)
    adapter.read_body(call, request, raw, body)
    _measure_body(call.meter, adapter, body)
    async for chunk in adapter.render_stream(call, request, body):
        yield chunk


class _Passthrough(stages.Step[bytes, bytes]):
    """A step that passes on the complete frames of each chunk, without the frames that are hidden from the caller."""

    __slots__ = (
        "_adapter",
        "_begun",
        "_call",
        "_frames",
        "_held",
        "_held_bytes",
        "_hides_usage",
        "_is_measured",
        "_meter",
        "_sent",
        "_splitter",
    )

    def __init__(
        self, call: Call, adapter: StreamAdapter, request: VerbatimRequest, reader: ResponseReader | None
    ) -> None:
        self._call = call
        self._adapter = adapter
        self._meter = adapter.meter(call, request)
        self._hides_usage = adapter.hides_usage(request)
        self._splitter = adapter.splitter(self._meter)
        if self._splitter is not None and hasattr(self._splitter, "count_in"):
            self._splitter.count_in(reader)
        self._frames = sse.FrameSplitter(reader)
        self._held: list[bytes] = []  # comments before the first data, held back: an error must still set the status
        self._held_bytes = 0
        self._begun = False  # the first frame with data has arrived
        self._sent = False
        self._is_measured = call.meter.measures_text
        call.meter.expect_frames(adapter.frame_bytes)

    def take(self, items: list[bytes], out: list[bytes]) -> bool | stages.Large:
        """Pass the complete frames on. End the stream after its end frame: some upstreams never close it, or close it late."""
        if self._splitter is not None:
            self._take_split(self._splitter, items, out)
            return self._meter.done
        if len(items) == 1 and self._begun and not self._frames.size and self._take_quiet(items[0]):
            out += items
            return False
        return self._take_events(items, out) or self._meter.done

    def _take_quiet(self, chunk: bytes) -> bool:
        """Take a chunk of complete quiet frames, as most are. Return False, without an effect, for any other."""
        length = len(chunk)
        if (
            length > MAX_MEASURED_BYTES
            or not chunk.endswith(b"\n\n")
            or self._meter.done
            or not self._adapter.is_quiet(chunk)
        ):
            return False
        if not chunk.isascii():
            _check_text(chunk)
        if self._is_measured:
            measured = self._call.meter
            measured.produced_frames += chunk.count(b"\n\n")
            measured.produced_bytes += length
        return True

    def _take_events(self, items: list[bytes], out: list[bytes]) -> stages.Large | None:
        splitter = self._frames
        measured = self._call.meter if self._is_measured else None
        for index, chunk in enumerate(items):
            if splitter.size + len(chunk) > stages.LARGE_BYTES:
                return stages.Large(items[index + 1 :], partial(self._take_large, chunk))
            frames = splitter.take(chunk)
            if not frames:
                continue
            if not frames.isascii():
                _check_text(frames)
            if measured is not None:  # the same as `_measure`, without the cost of a call for each chunk
                count, length = frames.count(b"\n\n"), len(frames)
                measured.produced_frames += count
                measured.produced_bytes += length if length <= MAX_MEASURED_BYTES else _bound_length(length, count)
            if self._begun and not self._meter.done and self._adapter.is_quiet(frames):
                self._sent = True
                out.append(frames)
            else:
                self._pass(frames, out)
        return None

    def _take_large(self, chunk: bytes, out: list[bytes]) -> bool:
        """Take a chunk that may complete a large frame; in a thread."""
        frames = self._frames.take(chunk)
        if not frames:
            return False
        if not frames.isascii():
            _check_text(frames)
        if self._is_measured:
            self._measure(len(frames), frames.count(b"\n\n"))
        self._pass(frames, out)
        return self._meter.done

    def _take_split(self, splitter: Splitter, items: list[bytes], out: list[bytes]) -> None:
        chosen: list[bytes] = []
        try:
            for chunk in items:
                frames = splitter.feed(chunk)
                for frame in frames:
                    _check_text(frame)
                if self._is_measured:
                    self._measure(sum(map(len, frames)), len(frames))
                self._choose_each(frames, chosen)
        finally:
            self._render(chosen, out)

    def _measure(self, length: int, count: int) -> None:
        """Count frames in the meter; a long one holds a file rather than text."""
        self._call.meter.add_text(count, _bound_length(length, count))

    def end(self, out: list[bytes]) -> None:
        self._pass_rest(out)
        if self._meter.done:
            return
        if not self._meter.finished:
            raise UpstreamError("The upstream's stream ended before the response was complete.")
        if last := self._adapter.render_ending(self._call, self._meter, None):
            out.append(last)

    def fail(self, error: GateError) -> list[bytes] | GateError:
        if not self._sent:
            return error
        if self._meter.done:
            return []
        self._call.meter.record_late_error(error)
        return [self._adapter.render_ending(self._call, self._meter, error)]

    def _pass(self, frames: bytes, out: list[bytes]) -> None:
        """Append the caller's chunks for complete frames that are not all quiet, even if one of the frames raises."""
        chosen: list[bytes] = []
        try:
            self._choose_frames(frames, chosen)
        finally:
            self._render(chosen, out)

    def _choose_frames(self, frames: bytes, chosen: list[bytes]) -> None:
        """Append the frames to pass on. Only the last frames usually need parsing; quiet frames before them are not parsed."""
        if not self._begun and frames.find(b"data") < 0:
            self._hold_comments(frames)
            return
        if not self._begun:
            first, frames = sse.split_first_frame(frames)
            self._begin(first, chosen)
            if not frames:
                return
            if self._begun and not self._meter.done and self._adapter.is_quiet(frames):
                chosen.append(frames)
                return
        earlier, last = split_last_frames(frames)
        if earlier:
            if self._begun and not self._meter.done and self._adapter.is_quiet(earlier):
                chosen.append(earlier)
            else:
                self._choose_each(sse.split(earlier), chosen)
        self._choose_each(last, chosen)

    def _pass_rest(self, out: list[bytes]) -> None:
        """Pass on a last frame without its empty line, which some upstreams omit; discard a truncated frame."""
        if self._splitter is not None:
            self._pass_rest_of(self._splitter, out)
            return
        rest = self._frames.flush()
        frame = sse.parse(rest)
        if frame is not None and (frame.data.strip() == _DONE or _is_json(frame.data)):
            self._pass(rest.rstrip(b"\r\n") + b"\n\n", out)

    def _pass_rest_of(self, splitter: Splitter, out: list[bytes]) -> None:
        rest = splitter.flush() if hasattr(splitter, "flush") else []
        chosen: list[bytes] = []
        try:
            self._choose_each([frame for frame in rest if self._adapter.parse_frame(frame) is not None], chosen)
        finally:
            self._render(chosen, out)

    def _choose_each(self, frames: list[bytes], chosen: list[bytes]) -> None:
        meter, is_quiet = self._meter, self._adapter.is_quiet
        for raw in frames:
            if not self._begun:
                self._begin(raw, chosen)
            elif not meter.done and (is_quiet(raw) or self._passes(raw)):
                chosen.append(raw)

    def _render(self, chosen: list[bytes], out: list[bytes]) -> None:
        if chosen:
            self._sent = True
            out += self._adapter.render_frames(self._meter, chosen)

    def _begin(self, raw: bytes, chosen: list[bytes]) -> None:
        adapter = self._adapter
        body = adapter.parse_frame(raw)
        if body is None and not adapter.has_data(raw):
            self._hold_comments(raw)
            return
        if (error := adapter.parse_error(body)) is not None:
            raise error
        # The meter may raise; the error is then handled as an error before the first data.
        passes = adapter.is_quiet(raw) or self._passes(raw)
        self._begun = True
        chosen += self._held
        self._held.clear()
        if passes:
            chosen.append(raw)

    def _hold_comments(self, frames: bytes) -> None:
        """Keep frames without data until the first one with data. Drop them above the maximum, because comments carry no data."""
        self._held_bytes += len(frames)
        if self._held_bytes <= MAX_HELD_BYTES:
            self._held.append(frames)

    def _passes(self, raw: bytes) -> bool:
        """Let the meter read a frame. Return whether the caller gets it."""
        meter = self._meter
        hidden = meter.note(raw) and self._hides_usage
        if meter.done and not meter.finished:
            self._call.meter.record_late_error(self._adapter.parse_error(self._adapter.parse_frame(raw)))
        return not hidden


def _check_text(frames: bytes) -> None:
    """Raise UpstreamError for frames that are not UTF-8: the clients of callers fail to decode them."""
    try:
        frames.decode()
    except UnicodeDecodeError as error:
        raise UpstreamError("The upstream's stream is not valid UTF-8.") from error


def _bound_length(length: int, count: int) -> int:
    """Return the bytes of `count` frames that are measured as text."""
    return min(length, count * MAX_MEASURED_BYTES)


def split_last_frames(frames: bytes) -> tuple[bytes, list[bytes]]:
    """Split a chunk into (frames before the last few, the last _LAST_FRAMES frames).

    If a line ends in CR, all of them count as last ones.
    """
    if frames.find(b"\r") >= 0 or not frames.endswith(b"\n\n"):
        return b"", sse.split(frames)
    earlier, *last, _ = frames.rsplit(b"\n\n", _LAST_FRAMES + 1)
    if len(last) < _LAST_FRAMES:
        last.insert(0, earlier)
        earlier = b""
    return earlier and frames[: len(earlier) + 2], [frame + b"\n\n" for frame in last]


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
