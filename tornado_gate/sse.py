"""Server-sent events: bytes to frames and back. Pure; knows no wire format.

Source: the WHATWG HTML standard, section "Server-sent events": lines end with LF, CR or CRLF; a blank line ends a frame; a
line that begins with a colon is a comment; a leading byte order mark is dropped.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from tornado_gate.errors import UpstreamError

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""A frame above this size is an upstream fault: nothing may grow without bound."""

_BORDER = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n|\r\n\n|\r\r\n")
_LINE = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: `event` is "" when unnamed, `data` its lines joined by LF."""

    data: bytes
    event: str = ""


class FrameSplitter:
    """Bytes in, raw frames out, each with its border: for a lane that passes frames on as they came."""

    def __init__(self) -> None:
        self._buffer = b""
        self._seen = 0
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that `chunk` completes. Raises UpstreamError for one without end."""
        buffer = self._buffer + chunk
        frames: list[bytes] = []
        start = 0
        search_from = max(0, self._seen - 3)
        while (border := _BORDER.search(buffer, search_from)) is not None:
            if border.end() == len(buffer) and buffer.endswith(b"\r"):
                break  # the LF of a CRLF may be still to come
            frames.append(buffer[start : border.end()])
            start = search_from = border.end()
        self._buffer = buffer[start:]
        self._seen = len(self._buffer)
        if len(self._buffer) > MAX_FRAME_BYTES:
            raise UpstreamError("The upstream sent a stream event without end.")
        return frames

    def rest(self) -> bytes:
        """What came after the last border, when the stream has ended."""
        rest, self._buffer = self._buffer, b""
        return rest


def parse(raw: bytes) -> Frame | None:
    """A raw frame as event and data; None for one without data, such as a comment."""
    event = ""
    data: list[bytes] = []
    for line in _LINE.split(raw.removeprefix(_BYTE_ORDER_MARK)):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode("utf-8", "replace")
    return Frame(b"\n".join(data), event) if data else None


async def frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """The frames of a byte stream, however it is cut. An unfinished last frame is given too: some upstreams omit its border."""
    splitter = FrameSplitter()
    try:
        async for chunk in chunks:
            for raw in splitter.feed(chunk):
                if (frame := parse(raw)) is not None:
                    yield frame
        if (frame := parse(splitter.rest())) is not None:
            yield frame
    finally:
        await _close(chunks)


async def json_frames(chunks: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    """The JSON of each frame's data; ends at ``[DONE]``. Raises UpstreamError for a frame that is no JSON."""
    read = frames(chunks)
    try:
        async for frame in read:
            if frame.data.strip() == b"[DONE]":
                return
            try:
                value = orjson.loads(frame.data)
            except orjson.JSONDecodeError as error:
                raise UpstreamError("The upstream sent a stream event that is not JSON.") from error
            yield value
    finally:
        await _close(read)


async def _close(items: AsyncIterator[Any]) -> None:
    """A reader who stops early leaves nothing open behind."""
    aclose = getattr(items, "aclose", None)
    if aclose is not None:
        await aclose()


def render(data: bytes, event: str = "") -> bytes:
    """One frame. `data` must hold no line break, as JSON without indentation never does."""
    if event:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"data: %b\n\n" % data


def render_json(value: Any, event: str = "") -> bytes:
    """One frame with `value` as its JSON."""
    return render(orjson.dumps(value), event)
