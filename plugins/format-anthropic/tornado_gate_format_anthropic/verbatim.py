"""The verbatim lane: answers come down as they are, and what the gateway must know is noted in passing.

What comes down is the upstream's bytes, whole frame by whole frame, with events of types that are unknown here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import orjson

from tornado_gate import sse
from tornado_gate.errors import UpstreamError
from tornado_gate.streams import passthrough
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, Verbatim, Whole
from tornado_gate.wire.anthropic_messages import FrameMeter, error_of, frame_json, note_body
from tornado_gate_format_anthropic.replies import EVENTS, JSON, KEEP_ALIVE, error_frame

STOP: Final = sse.render_json({"type": "message_stop"}, "message_stop")


def forward_answer(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer, of the kind that it says itself.

    One that is there as a whole is looked at here: raises the error that it may be.
    """
    chunks: AsyncIterator[bytes]
    content_type = incoming.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream" or (request.stream and kind != JSON):
        return Reply(
            content_type=content_type if kind == "text/event-stream" else EVENTS,
            chunks=passthrough.forwarded(
                incoming.chunks,
                _Frames(call.meter),
                lambda error: STOP if error is None else error_frame(error, call.id),
            ),
            keep_alive=KEEP_ALIVE,
        )
    if isinstance(incoming.chunks, Whole):
        chunks = Whole(_noted(call.meter, incoming.chunks.data))
    else:
        chunks = _forward_whole(call.meter, incoming)
    return Reply(content_type=content_type if kind == JSON else JSON, chunks=chunks)


async def _forward_whole(meter: Meter, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    yield _noted(meter, await incoming.read())


def _noted(meter: Meter, raw: bytes) -> bytes:
    """A whole answer, whose usage is noted. Raises the error that it may be."""
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error
    note_body(meter, body)
    return raw


def _is_quiet(frames: bytes) -> bool:
    """Whether one or more frames certainly hold nothing that the watch must note: of no type that it looks into.

    Inside a JSON string a quotation mark is escaped, so that no text that a model writes can look like a type.
    """
    return frames.rfind(b'"message_') < 0 and frames.rfind(b'"error"') < 0  # twice as quick as from the left


class _Frames:
    """The whole frames that each chunk of the upstream completes."""

    def __init__(self, meter: Meter) -> None:
        self.watch = FrameMeter(meter)
        self._splitter = sse.FrameSplitter()
        self._held: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> bytes:
        """What the caller gets for `chunk`. Raises the error that the first frame with data may be."""
        ready = self._splitter.take(chunk)
        if not ready or (self._begun and not self.watch.done and _is_quiet(ready)):
            return ready
        return b"".join([frame for raw in sse.split(ready) for frame in self._choose(raw)])

    def finish(self) -> bytes:
        """What the caller gets at the end: some upstreams omit the border of their last frame."""
        rest = self._splitter.rest()
        if frame_json(rest) is None:
            return b""  # nothing, or cut off in the middle
        return b"".join(self._choose(rest.rstrip(b"\r\n") + b"\n\n"))

    def _choose(self, raw: bytes) -> list[bytes]:
        if not self._begun:
            return self._begin(raw)
        if self.watch.done:
            return []
        self.watch.note(raw)
        return [raw]

    def _begin(self, raw: bytes) -> list[bytes]:
        """Comments before the first data wait for it, because an error there is still an answer with a status."""
        self._held.append(raw)
        if sse.parse(raw) is None:
            return []
        if (error := error_of(frame_json(raw))) is not None:
            raise error
        self._begun = True
        held, self._held = self._held[:-1], []
        return [*held, *self._choose(raw)]
