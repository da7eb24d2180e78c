"""The verbatim lane: bodies go up and answers come down as they are, and what the gateway must know is noted in passing.

The one change on the way up asks for usage in a stream; the chunk that reports it is taken out again when the caller did
not ask. Everything else on the way down is the upstream's bytes, whole frame by whole frame.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import orjson

from tornado_gate import patch_json, sse, stream
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.types import Meter, Reply, UpstreamResponse, Verbatim, WireRequest
from tornado_gate.wire.openai_chat import FrameMeter, error_of, frame_json, note_body
from tornado_gate_format_openai.replies import DONE, KEEP_ALIVE, error_frame


@dataclass(frozen=True, slots=True)
class ForwardState:
    """What `forward_response` must know of the request. `hide_usage`: the usage chunk was our wish alone."""

    hide_usage: bool = False


def forward_chat(wire: WireRequest) -> Verbatim:
    """The request for a body that was checked."""
    raw, body = wire.raw, wire.json
    streams = body.get("stream") is True
    options = body.get("stream_options") or {}
    hide_usage = streams and options.get("include_usage") is not True
    if hide_usage:
        options = {**options, "include_usage": True}
        raw, body = patch_json(raw, {"stream_options": options}), {**body, "stream_options": options}
    return Verbatim(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=streams,
        state=ForwardState(hide_usage=hide_usage),
    )


def forward_answer(meter: Meter, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer, of the kind that it says itself."""
    content_type = incoming.headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "text/event-stream" or (request.stream and kind != "application/json"):
        state = request.state if isinstance(request.state, ForwardState) else ForwardState()
        return Reply(
            content_type=content_type if kind == "text/event-stream" else "text/event-stream; charset=utf-8",
            chunks=_forward_stream(_Frames(meter, state.hide_usage), incoming.chunks),
            keep_alive=KEEP_ALIVE,
        )
    return Reply(
        content_type=content_type if kind == "application/json" else "application/json",
        chunks=_forward_whole(meter, incoming),
    )


async def _forward_whole(meter: Meter, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raw = await incoming.read()
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error
    note_body(meter, body)
    yield raw


class _Frames:
    """Chooses, of the frames that each chunk of the upstream completes, those that the caller gets."""

    def __init__(self, meter: Meter, hide_usage: bool) -> None:
        self.watch = FrameMeter(meter)
        self._hide_usage = hide_usage
        self._splitter = sse.FrameSplitter()
        self._held: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> bytes:
        """What the caller gets for `chunk`. Raises the error that the first frame with data may be."""
        return b"".join([frame for raw in self._splitter.feed(chunk) for frame in self._choose(raw)])

    def finish(self) -> bytes:
        """What the caller gets at the end: some upstreams omit the border of their last frame."""
        rest = self._splitter.rest()
        frame = sse.parse(rest)
        if frame is None or (frame.data.strip() != b"[DONE]" and frame_json(rest) is None):
            return b""  # cut off in the middle
        return b"".join(self._choose(rest.rstrip(b"\r\n") + b"\n\n"))

    def _choose(self, raw: bytes) -> list[bytes]:
        if not self._begun:
            return self._begin(raw)
        if self.watch.done:
            return []
        return [] if self.watch.note(raw) and self._hide_usage else [raw]

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


async def _forward_stream(frames: _Frames, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole frames; after the first of them every failure is an error frame, and nothing follows it."""
    begun = False
    watch = frames.watch
    try:
        async for chunk in chunks:
            if ready := frames.feed(chunk):
                begun = True
                yield ready
        if ready := frames.finish():
            begun = True
            yield ready
        if not watch.done:
            if not watch.finished:
                raise UpstreamError("The upstream's stream stopped before its end.")
            yield DONE
    except GateError as error:
        if not begun:
            raise
        if not watch.done:
            yield error_frame(error)
    finally:
        await stream.close(chunks)
