"""Server-sent events: bytes are parsed into frames, and frames rendered. No I/O and no wire format.

Source: the WHATWG HTML standard, section "Server-sent events": lines end with LF, CR or CRLF; a blank line ends a frame; a line
that begins with a colon is a comment; a leading byte order mark is dropped.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import orjson

from tornado_gate.errors import UpstreamError
from tornado_gate.streams import batches, stages
from tornado_gate.streams.event_bound import DEFAULT_EVENT_BYTES, HeldEvent
from tornado_gate.types.value import Value
from tornado_gate.types.wire import ResponseReader, check_json_values, describe_provider

MAX_FRAME_BYTES = DEFAULT_EVENT_BYTES
"""The default of the maximum size of a frame, see `event_bound`. A larger frame raises UpstreamError."""

_BORDER = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n|\r\r\n")
_END_MARK: Final = b"[DONE]"
DONE: Final = object()
"""The value of the data that ends a stream."""
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Frame(Value, frozen=True):
    """One event. `event` is its name or ""; `data` are its data lines joined by LF."""

    data: bytes
    event: str = ""


class FrameSplitter:
    """A splitter of a byte stream into raw frames, each with the empty line that ends it.

    `size` is the size of an incomplete frame. `reader` is the response's reader, which counts the memory of a large frame.
    """

    def __init__(self, reader: ResponseReader | None = None) -> None:
        self._held: list[bytes] = []
        self.size = 0
        self._last = b""
        self._event = HeldEvent(reader)

    def take(self, chunk: bytes) -> bytes:
        """Return the frames that `chunk` completes, joined and unchanged. Raises UpstreamError for a frame that is too large."""
        if not self._held and chunk.endswith(_FRAME_ENDS):
            return chunk
        window = self._last + chunk
        end = _find_last_border_end(window)
        self._held.append(chunk)
        self.size += len(chunk)
        if end:
            buffer = b"".join(self._held)
            end += len(buffer) - len(window)
            ready, rest = buffer[:end], buffer[end:]
            check_json_values(ready)
            self._held, self.size, self._last = [rest] if rest else [], len(rest), rest[-3:]
        else:
            ready, self._last = b"", window[-3:]
        self._event.check(self.size)
        return ready

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames that `chunk` completes as a list. Raises the UpstreamError of `take`."""
        return split(self.take(chunk))

    def flush(self) -> bytes:
        """Return the bytes after the last complete frame, at the end of the stream."""
        rest = b"".join(self._held)
        self._held, self.size, self._last = [], 0, b""
        return rest


def _find_last_border_end(piece: bytes) -> int:
    """Return the end of the last frame border (empty line) in `piece`, or 0. After a final CR, an LF may still follow."""
    if piece.find(b"\r") < 0:
        start = piece.rfind(b"\n\n")
        return 0 if start < 0 else start + 2
    end = 0
    for border in _BORDER.finditer(piece):
        if border.end() < len(piece) or not piece.endswith(b"\r"):
            end = border.end()
    return end


def split_first_frame(frames: bytes) -> tuple[bytes, bytes]:
    """Split joined raw frames into the first frame and the remaining ones (b"" without more frames)."""
    if frames.find(b"\r") < 0:
        return _split_at(frames, frames.find(b"\n\n") + 2)
    first, *others = split(frames)
    return first, b"".join(others)


def _split_at(frames: bytes, end: int) -> tuple[bytes, bytes]:
    """Split at `end`. Empty lines at the very end belong to the last frame."""
    rest = frames[end:]
    return (frames[:end], rest) if rest.strip(b"\n") else (frames, b"")


def split(frames: bytes) -> list[bytes]:
    """Split joined raw frames into a list; each frame keeps its border and the empty lines after it."""
    ends = (
        _find_line_feed_ends(frames) if frames.find(b"\r") < 0 else [match.end() for match in _BORDER.finditer(frames)]
    )
    if len(ends) == 1:
        return [frames]
    if ends and ends[-1] < len(frames):
        ends[-1] = len(frames)
    return [frames[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _find_line_feed_ends(frames: bytes) -> list[int]:
    """Return the ends of the borders in frames without CR. A pattern would take 20 ms for each megabyte between two of them."""
    ends: list[int] = []
    end = frames.find(b"\n\n") + 2
    while end >= 2:
        ends.append(end)
        end = frames.find(b"\n\n", end) + 2
    return ends


def parse(raw: bytes) -> Frame | None:
    """Parse a raw frame. Return None for a frame without data, such as a comment."""
    if raw.startswith(b"data: "):
        only = raw[6:].rstrip(b"\r\n")
        if only.find(b"\n") < 0 and only.find(b"\r") < 0:
            return Frame(only)  # fast path: almost all frames have one line
    event = ""
    data: list[bytes] = []
    for line in raw.removeprefix(_BYTE_ORDER_MARK).splitlines():
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return Frame(b"\n".join(data), event) if data else None


def parse_json(raw: bytes) -> Any:
    """Return the JSON value in the data of a raw frame; None without data or with data that is not JSON."""
    try:
        if (
            raw.startswith(b"data: ")
            and raw.find(b"\n") == len(raw) - 2
            and raw.endswith(b"\n")
            and raw.find(b"\r") < 0
        ):
            return orjson.loads(raw[6:])  # the same as below, for nearly all frames
        frame = parse(raw)
        return None if frame is None else orjson.loads(frame.data)
    except orjson.JSONDecodeError:
        return None


def _extract_data(raw: bytes) -> bytes | None:
    """Return the data of a raw frame; the fast path may include its border. None for a frame without data."""
    if not raw:
        return None
    position = raw.find(b"\n") + 1 if raw.startswith(b"event: ") else 0
    if raw.startswith(b"data: ", position) and raw.find(b"\n", position) < 0 and raw.find(b"\r") < 0:
        return raw[position + 6 :]  # fast path: almost all frames have one line
    frame = parse(raw)
    return None if frame is None else frame.data


async def read_frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """Yield the frames of a byte stream, for any chunk sizes; also a last frame without border, which some upstreams omit."""
    splitter = FrameSplitter(stages.find_reader(chunks))
    try:
        async for chunk in chunks:
            for raw in splitter.feed(chunk):
                if (frame := parse(raw)) is not None:
                    yield frame
        if (frame := parse(splitter.flush())) is not None:
            yield frame
    finally:
        await batches.close(chunks)


def read_json_frames(chunks: AsyncIterator[bytes], provider: str = "") -> AsyncIterator[Any]:
    """Yield the parsed JSON of each frame's data; end at ``[DONE]``. Raises UpstreamError for a frame that is not JSON.

    `provider` is its name for the error message: ``incoming.provider``.
    """
    return stages.add_step(chunks, _JsonFrameStep(provider, stages.find_reader(chunks)))


def read_data(chunks: AsyncIterator[bytes], provider: str = "") -> AsyncIterator[Any]:
    """Yield the data of each frame like `read_json_frames`, but nearly all as bytes, whose parser calls `load_data`.

    The bytes are UTF-8. The data of unusual frames is parsed already.
    """
    return stages.add_step(chunks, _JsonFrameStep(provider, stages.find_reader(chunks), is_parsing=False))


class _JsonFrameStep(stages.Step[bytes, Any]):
    """A step that parses frames to JSON, including a last frame without border, which some upstreams omit.

    Without `is_parsing` it leaves the data of usual frames as bytes.
    """

    __slots__ = ("_is_parsing", "_provider", "_splitter")

    def __init__(self, provider: str, reader: ResponseReader | None, *, is_parsing: bool = True) -> None:
        self._provider = provider
        self._splitter = FrameSplitter(reader)
        self._is_parsing = is_parsing

    def take(self, items: list[bytes], out: list[Any]) -> bool | stages.Large:
        for index, chunk in enumerate(items):
            if self._splitter.size + len(chunk) > stages.LARGE_BYTES:
                return stages.Large(items[index + 1 :], partial(self._take_chunk, chunk))
            if self._take_chunk(chunk, out):
                return True
        return False

    def _take_chunk(self, chunk: bytes, out: list[Any]) -> bool:
        frames = self._splitter.take(chunk)
        if not frames or frames.find(b"data") < 0:  # comments only
            return False
        if frames.find(b"\r") >= 0:
            return _append_json(split(frames), out, self._provider)
        texts = _list_texts(frames)
        is_last = bool(texts) and texts[-1] == _END_MARK
        if is_last:
            texts.pop()
        if not texts or not self._append_texts(texts, frames, out):
            return _append_json(frames.split(b"\n\n"), out, self._provider)
        return is_last

    def _append_texts(self, texts: list[bytes], frames: bytes, out: list[Any]) -> bool:
        """Append the data of `frames`. Return False, without an effect, if one of them needs a closer look."""
        try:
            if self._is_parsing:
                out += [*map(orjson.loads, texts)]
                return True
            if not frames.isascii():
                frames.decode()
        except ValueError:  # no JSON, or no UTF-8
            return False
        if _END_MARK in texts:
            return False
        out += texts
        return True

    def end(self, out: list[Any]) -> None:
        _append_json([self._splitter.flush()], out, self._provider)


def _list_texts(frames: bytes) -> list[bytes]:
    """Return the data of frames without CR. Return an empty list unless each frame is one line with data, as nearly all are."""
    if not frames.startswith(b"data: ") or not frames.endswith(b"\n\n"):
        return []
    texts = frames[6:-2].split(b"\n\ndata: ")
    return [] if b"\n" in b"".join(texts) else texts


def _append_json(raw_frames: list[bytes], out: list[Any], provider: str) -> bool:
    """Append the parsed JSON of raw frames. Return True at ``[DONE]``. Raises UpstreamError for invalid JSON."""
    for raw in raw_frames:
        data = _extract_data(raw)
        if data is None:
            continue
        value = load_data(data, provider)
        if value is DONE:
            return True
        out.append(value)
    return False


def load_data(data: bytes, provider: str) -> Any:
    """Return the JSON value of a frame's data, or DONE for the end mark. Raises UpstreamError for invalid JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if data.strip() == _END_MARK:
            return DONE
        message = f"{describe_provider(provider)} sent a stream event that is not valid JSON."
        raise UpstreamError(message) from error


def render(data: bytes, event: str = "") -> bytes:
    """Return one frame. `data` must not contain line breaks; JSON without indentation contains no line breaks."""
    if event:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"data: %b\n\n" % data


def render_json(value: Any, event: str = "") -> bytes:
    """Return one frame with `value` as JSON."""
    return render(orjson.dumps(value), event)
