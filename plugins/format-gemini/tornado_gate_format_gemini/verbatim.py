"""The verbatim lane: bodies go up and answers come down as they are, and what the gateway must know is noted in passing.

The upstream is asked in the form that the caller asked in: server-sent events or an array. What it says in the middle about an
error of its own is told in the caller's dialect; everything else is the upstream's bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import orjson

from tornado_gate import sse
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams.events import close
from tornado_gate.types import Call, Reply, UpstreamResponse, Verbatim, Whole, WireRequest
from tornado_gate.types.value import Value
from tornado_gate.wire.gemini_generate import ArraySplitter, ChunkMeter, note_body
from tornado_gate_format_gemini.envelope import error_body, error_frame
from tornado_gate_format_gemini.replies import AFTER_ELEMENT, EVENTS, JSON, KEEP_ALIVE


class ForwardState(Value, frozen=True):
    """What `forward_response` must know of the request: whether the caller asked for server-sent events."""

    sse_wanted: bool = False


def forward_body(wire: WireRequest, *, streams: bool, sse_wanted: bool) -> Verbatim:
    """The request for a body that was checked. `path` has ``alt=sse`` when the caller's had it."""
    return Verbatim(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=f"{wire.path}?alt=sse" if streams and sse_wanted else wire.path,
        raw=wire.raw,
        body=wire.json,
        stream=streams,
        state=ForwardState(sse_wanted),
    )


def forward_answer(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer. A stream keeps the form that was asked for.

    One that is there as a whole is looked at here: raises the error that it may be.
    """
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not request.stream:
        given = incoming.chunks
        if isinstance(given, Whole):
            return Reply(content_type=JSON, chunks=Whole(_noted(call, given.data)))
        return Reply(content_type=JSON, chunks=_forward_whole(call, incoming))
    wanted = isinstance(request.state, ForwardState) and request.state.sse_wanted
    came_as_events = kind == "text/event-stream" or (kind != JSON and wanted)
    source: _Source = _Frames() if came_as_events else _Elements()
    form: _Form = _EventForm(call) if wanted else _ArrayForm(call)
    chunks = _forward_stream(ChunkMeter(call.meter), source, form, incoming.chunks)
    return Reply(content_type=EVENTS if wanted else JSON, chunks=chunks, keep_alive=KEEP_ALIVE if wanted else b"")


async def _forward_whole(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    yield _noted(call, await incoming.read())


def _noted(call: Call, raw: bytes) -> bytes:
    """A whole answer, whose usage is noted. Raises the error that it may be."""
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error
    note_body(call.meter, body)
    return raw


class _Source(Protocol):
    """Bytes in, the JSON text of each chunk out, with the bytes that it came in."""

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]: ...
    def finish(self) -> list[tuple[bytes, bytes]]: ...


class _Frames:
    """Server-sent events; a comment has no JSON text."""

    def __init__(self) -> None:
        self._splitter = sse.FrameSplitter()

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        return [(_data(raw), raw) for raw in self._splitter.feed(piece)]

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Some upstreams omit the border of their last frame; one that was cut off in the middle is no frame."""
        raw = self._splitter.rest()
        text = _data(raw)
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            return []
        return [(text, raw.rstrip(b"\r\n") + b"\n\n")]


def _data(raw: bytes) -> bytes:
    frame = sse.parse(raw)
    return b"" if frame is None else frame.data


class _Elements:
    """The elements of an array."""

    def __init__(self) -> None:
        self._splitter = ArraySplitter()

    def feed(self, piece: bytes) -> list[tuple[bytes, bytes]]:
        return [(text, b"") for text in self._splitter.feed(piece)]

    def finish(self) -> list[tuple[bytes, bytes]]:
        return []


class _Form(Protocol):
    """What the caller gets: one or more pieces for a chunk, for an error at the end, and for a good end."""

    def chunk(self, text: bytes, raw: bytes) -> list[bytes]: ...
    def failure(self, error: GateError) -> list[bytes]: ...
    def end(self) -> list[bytes]: ...


class _EventForm:
    def __init__(self, call: Call) -> None:
        self._call = call

    def chunk(self, text: bytes, raw: bytes) -> list[bytes]:
        return [raw or sse.render(b"".join(text.splitlines()))]

    def failure(self, error: GateError) -> list[bytes]:
        return [error_frame(self._call, error)]

    def end(self) -> list[bytes]:
        return []


class _ArrayForm:
    def __init__(self, call: Call) -> None:
        self._call = call
        self._before = b"["

    def chunk(self, text: bytes, raw: bytes) -> list[bytes]:
        if not text:
            return []
        before, self._before = self._before, b","
        return [before + text, AFTER_ELEMENT]

    def failure(self, error: GateError) -> list[bytes]:
        return [self._before + error_body(self._call, error), b"]"]

    def end(self) -> list[bytes]:
        return [b"]"]


async def _forward_stream(
    watch: ChunkMeter, source: _Source, form: _Form, pieces: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Whole chunks; after the first of them every failure is an error in the caller's form, and nothing follows it."""
    begun = False
    held: list[bytes] = []  # comments before the first chunk wait: an error there is still an answer with a status
    try:
        async for text, raw in _chunks(source, pieces):
            watch.note(text)
            if watch.error is not None:
                raise watch.error
            held += form.chunk(text, raw)
            if not text and not begun:
                continue
            begun = True
            for ready in held:
                yield ready
            held.clear()
        if not watch.finished:
            raise UpstreamError("The upstream's stream stopped before its end.")
        for ready in form.end():
            yield ready
    except GateError as error:
        if not begun:
            raise
        for ready in form.failure(error):
            yield ready
    finally:
        await close(pieces)


async def _chunks(source: _Source, pieces: AsyncIterator[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
    async for piece in pieces:
        for found in source.feed(piece):
            yield found
    for found in source.finish():
        yield found
