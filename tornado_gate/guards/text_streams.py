"""Guards on streams: a stream is read in the caller's wire format at any chunk borders, and written with replaced texts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, Protocol

import orjson

from tornado_gate.guards.text_events import Event, EventTexts, ReportUnread, ReviewTexts
from tornado_gate.streams import batches, sse
from tornado_gate.streams.json_array import ArraySplitter
from tornado_gate.types.text_maps import TextMap
from tornado_gate.types.wire import ResponseReader, parse_json

_DONE: Final = b"[DONE]"
_EMPTY_COMMENT: Final = b":\n\n"
SPACE: Final = b" \t\r\n"
_JSON_STARTS: Final = (b"[", b"{")


async def guard_stream(
    text_map: TextMap,
    chunks: AsyncIterator[bytes],
    lookahead: int,
    review: ReviewTexts,
    report_unread: ReportUnread,
    reader: ResponseReader | None = None,
) -> AsyncIterator[bytes]:
    """Yield a stream with the texts that `review` replaces.

    The stream is server-sent events or a JSON array of objects. At most `lookahead` characters of each text are held back,
    besides a replacement that may still grow. `review` gets the texts that were received since its last call, each as a window. A
    GateError that it raises ends the stream. `report_unread` gets the unreadable values. `reader` counts the memory
    of a large event that is incomplete. Closes `chunks`.

    Only the data and the name of a server-sent event are reviewed and sent: comments become empty, and events lose their ids.
    """
    frames: _Frames = _EventFrames(reader)
    texts: EventTexts | None = None
    shape = text_map.event or text_map.response
    try:
        async for chunk in chunks:
            if texts is None:
                if not chunk.strip(SPACE):
                    yield chunk
                    continue
                if (start := chunk.lstrip(SPACE)[:1]) in _JSON_STARTS:
                    frames = _ArrayFrames(reader, is_array=start == b"[")
                texts = EventTexts(shape, lookahead, frames.render, report_unread)
            frames.feed(chunk, texts)
            if out := frames.join(await texts.review(review)):
                yield out
        if texts is not None:
            frames.finish(texts)
            texts.end()
            if out := frames.join(await texts.review(review, final=True)):
                yield out
    finally:
        await batches.close(chunks)


class _Frames(Protocol):
    """A form of stream: it divides a stream into events, and writes events."""

    def feed(self, chunk: bytes, texts: EventTexts) -> None: ...
    def finish(self, texts: EventTexts) -> None: ...
    def render(self, event: Event, value: Any) -> bytes: ...
    def join(self, events: list[bytes]) -> bytes: ...


class _EventFrames:
    """Server-sent events."""

    def __init__(self, reader: ResponseReader | None) -> None:
        self._splitter = sse.FrameSplitter(reader)

    def feed(self, chunk: bytes, texts: EventTexts) -> None:
        self._add(self._splitter.feed(chunk), texts)

    def finish(self, texts: EventTexts) -> None:
        if rest := self._splitter.flush():
            self._add([rest], texts)

    def _add(self, frames: Iterable[bytes], texts: EventTexts) -> None:
        for raw in frames:
            frame = sse.parse(raw)
            if frame is None:
                texts.add_other(_EMPTY_COMMENT)
            elif frame.data.strip() == _DONE:
                texts.end(raw if _is_plain(raw) else b"data: [DONE]\n\n")
            else:
                value = _parse(frame.data)
                is_plain = _is_plain(raw, named=frame.event != "")
                texts.add(raw if is_plain else self._write(value, frame.event), value, frame.event)

    def render(self, event: Event, value: Any) -> bytes:
        return self._write(value, event.tag)

    def _write(self, value: Any, name: str) -> bytes:
        if isinstance(value, str):
            head = b"event: %b\n" % name.encode() if name else b""
            return head + b"".join(b"data: %b\n" % line.encode() for line in value.split("\n")) + b"\n"
        return sse.render_json(value, name)

    def join(self, events: list[bytes]) -> bytes:
        return b"".join(events)


def _is_plain(raw: bytes, *, named: bool = False) -> bool:
    """Return whether a raw frame is one line of data, after a line with its name if `named`."""
    if named:
        head, _, raw = raw.partition(b"\n")
        if not head.startswith(b"event:") or head.find(b"\r", 0, -1) >= 0:
            return False
    line = raw.rstrip(b"\r\n")
    return line.startswith(b"data:") and line.find(b"\n") < 0 and line.find(b"\r") < 0


def _parse(data: bytes) -> Any:
    """Return the value of an event; its text if it is not JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return data.decode("utf-8", "replace")


class _ArrayFrames:
    """A JSON array of objects, or a single object. Spaces between objects are kept, because they keep connections
    alive.
    """

    def __init__(self, reader: ResponseReader | None, *, is_array: bool) -> None:
        self._splitter = ArraySplitter(reader)
        self._is_array, self._has_begun = is_array, False

    def feed(self, chunk: bytes, texts: EventTexts) -> None:
        was_closed = self._splitter.closed
        elements = self._splitter.feed(chunk)
        for element in elements:
            texts.add(element, parse_json(element))
        if self._splitter.closed and not was_closed:
            texts.end(b"]")
        elif not elements and not chunk.strip(SPACE):
            texts.add_other(chunk)

    def finish(self, texts: EventTexts) -> None:
        """Drop the beginning of an incomplete object, because it was not reviewed."""

    def render(self, event: Event, value: Any) -> bytes:
        encoded: bytes = orjson.dumps(value)
        return encoded

    def join(self, events: list[bytes]) -> bytes:
        if not self._is_array:
            return b"".join(events)
        out: list[bytes] = []
        for event in events:
            if event.startswith(b"{") or not self._has_begun:
                out.append(b"," if self._has_begun else b"[")
                self._has_begun = True
            out.append(event)
        return b"".join(out)
