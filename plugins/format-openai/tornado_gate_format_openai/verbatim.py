"""The verbatim lane: bodies go up and answers come down as they are, and what the gateway must know is noted in passing.

The one change on the way up asks for usage in a stream; the chunk that reports it is taken out again when the caller did
not ask. Everything else on the way down is the upstream's bytes, whole frame by whole frame, but for the target's own
key, should the upstream repeat it. A stream that the upstream answers with a whole body is made one of it.

`Manner` is what differs from route to route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import orjson

from tornado_gate import patch_json, sse
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import passthrough
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, Verbatim, Whole, WireRequest
from tornado_gate.types.value import Value
from tornado_gate.wire.openai_chat import frame_json
from tornado_gate.wire.openai_chat.errors import masked
from tornado_gate_format_openai.masking import KeyMask, without
from tornado_gate_format_openai.replies import EVENTS, JSON, KEEP_ALIVE

_EVENT_STREAM = "text/event-stream"
_LAST_FRAMES = 4
"""How many at the end of a piece are looked at one by one when it is not quiet: reason, usage, end."""


class Watch(passthrough.Watch, Protocol):
    """Notes what frames say in passing."""

    def note(self, raw: bytes) -> bool:
        """Take one frame; True when it only came because we asked for usage."""


class Manner(Protocol):
    """One route's way on this lane."""

    def watch(self, meter: Meter) -> Watch:
        """A watch for one stream."""

    def is_quiet(self, frames: bytes) -> bool:
        """Whether one or more frames, which are not the first, certainly hold nothing that the watch must note.

        Asked for every chunk, so it searches and does not parse. Inside a JSON string a quotation mark is escaped, so that
        no text that a model writes can look like a member.
        """

    def error_of(self, body: Any) -> GateError | None:
        """The error that a frame is, or None."""

    def ending(self, watch: Any, error: GateError | None) -> bytes:
        """The frames that end a stream that broke off with `error`, or one that ended well without saying so."""

    def parse(self, raw: bytes) -> Any:
        """The JSON of a whole answer that is to pass as it came, where what is long may be left out.

        Raises JSONDecodeError.
        """

    def whole(self, call: Call, request: Verbatim, raw: bytes, body: Any) -> bytes:
        """What the caller gets of a whole answer, whose usage is noted. Raises the error that it may be."""

    def frames_of(self, call: Call, request: Verbatim, body: Any) -> AsyncIterator[bytes]:
        """A whole answer as the stream that the caller asked for."""


class ForwardState(Value, frozen=True):
    """What `forward_response` must know of the request. `hide_usage`: the usage chunk was our wish alone.

    `contract`: the answer is wanted in the contract's dialect.
    """

    hide_usage: bool = False
    contract: bool = False


AS_ASKED: Final = ForwardState()
_HIDING: Final = ForwardState(hide_usage=True)


def state_of(request: Verbatim) -> ForwardState:
    """The state of a request."""
    return request.state if isinstance(request.state, ForwardState) else AS_ASKED


def forward_metered(wire: WireRequest) -> Verbatim:
    """The request for a body that was checked, of a route whose streams tell usage only when asked."""
    raw, body = wire.raw, wire.json
    if body.get("stream") is not True:
        return forwarded(wire, raw, body, AS_ASKED)
    options = body.get("stream_options") or {}
    if options.get("include_usage") is True:
        return forwarded(wire, raw, body, AS_ASKED)
    options = {**options, "include_usage": True}
    raw = patch_json(raw, {"stream_options": options}, body)
    return forwarded(wire, raw, {**body, "stream_options": options}, _HIDING)


def forwarded(wire: WireRequest, raw: bytes, body: Any, state: ForwardState) -> Verbatim:
    """The request that goes up as `raw`."""
    route = wire.route
    return Verbatim(
        wire_format=route.wire_format,
        operation=route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=body.get("stream") is True,
        state=state,
    )


def forward_answer(call: Call, manner: Manner, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer: of the kind that it says itself, but a stream where one was asked for.

    An answer that is there as a whole is looked at here: raises the error that it may be.
    """
    chunks: AsyncIterator[bytes]
    content_type = incoming.headers.get("content-type", "")
    kind = JSON if content_type == JSON else content_type.partition(";")[0].strip().lower()
    if kind == _EVENT_STREAM or (request.stream and kind != JSON):
        return Reply(
            content_type=content_type if kind == _EVENT_STREAM else EVENTS,
            chunks=_forwarded_frames(call, manner, state_of(request), incoming.chunks),
            keep_alive=KEEP_ALIVE,
        )
    if request.stream:
        chunks = _stream_of_whole(call, manner, request, incoming)
        return Reply(content_type=EVENTS, chunks=chunks, keep_alive=KEEP_ALIVE)
    if isinstance(incoming.chunks, Whole):
        chunks = Whole(_whole(call, manner, request, incoming.chunks.data))
    else:
        chunks = _forward_whole(call, manner, request, incoming)
    return Reply(content_type=content_type if kind == JSON else JSON, chunks=chunks)


async def _forward_whole(
    call: Call, manner: Manner, request: Verbatim, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    yield _whole(call, manner, request, await incoming.read())


def _whole(call: Call, manner: Manner, request: Verbatim, given: bytes) -> bytes:
    """What the caller gets of a whole answer. Raises the error that it may be."""
    raw, body = _parsed(call, given, manner.parse)
    try:
        return manner.whole(call, request, raw, body)
    except GateError as error:
        raise masked(error, call.target.api_key) from None


async def _stream_of_whole(
    call: Call, manner: Manner, request: Verbatim, incoming: UpstreamResponse
) -> AsyncIterator[bytes]:
    """An answer that failed is still raised: nothing was sent yet."""
    raw, body = _parsed(call, await incoming.read(), orjson.loads)
    try:
        manner.whole(call, request, raw, body)
        async for frame in manner.frames_of(call, request, body):
            yield frame
    except GateError as error:
        raise masked(error, call.target.api_key) from None


def _parsed(call: Call, given: bytes, parse: Callable[[bytes], Any]) -> tuple[bytes, Any]:
    """A whole answer without the target's key, and its JSON."""
    raw = without(call.target.api_key, given)
    try:
        return raw, parse(raw)
    except orjson.JSONDecodeError as error:
        raise UpstreamError("The upstream's answer is not JSON.") from error


def without_key(call: Call, raw: bytes) -> bytes:
    """`raw` without the target's key, which an upstream has no reason to repeat."""
    return without(call.target.api_key, raw)


class _Frames:
    """Chooses, of the frames that each chunk of the upstream completes, those that the caller gets."""

    def __init__(self, call: Call, manner: Manner, hide_usage: bool) -> None:
        self.watch = manner.watch(call.meter)
        self._call = call
        self._mask = KeyMask(call.target.api_key)
        self._manner = manner
        self._hide_usage = hide_usage
        self._splitter = sse.FrameSplitter()
        self._held: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> bytes:
        """What the caller gets for `chunk`. Raises the error that the first frame with data may be."""
        ready = self._splitter.take(chunk)
        if not ready:
            return b""
        if not self._begun:
            first, ready = sse.first_frame(ready)
            return self._mask.masked(self._chosen([first]) + self._searched(ready))
        return self._mask.masked(self._searched(ready))

    def _searched(self, frames: bytes) -> bytes:
        """What the caller gets of whole frames. What there is to note mostly stands in the last of them."""
        if not frames or not self._begun or self.watch.done:
            return self._chosen(sse.split(frames))
        if self._manner.is_quiet(frames):
            return frames
        rest, last = _parted(frames)
        if rest and self._manner.is_quiet(rest):
            return rest + self._chosen(sse.split(last))
        return self._chosen(sse.split(frames))

    def finish(self) -> bytes:
        """What the caller gets at the end: some upstreams omit the border of their last frame."""
        rest = self._splitter.rest()
        frame = sse.parse(rest)
        if frame is None or (frame.data.strip() != b"[DONE]" and frame_json(rest) is None):
            return b""  # cut off in the middle
        return self._mask.masked(self._chosen([rest.rstrip(b"\r\n") + b"\n\n"]))

    def _chosen(self, frames: list[bytes]) -> bytes:
        chosen: list[bytes] = []
        for raw in frames:
            if not self._begun:
                self._begin(raw)
                if not self._begun:
                    continue
                chosen += self._held[:-1]
                self._held.clear()
            if self._passes(raw):
                chosen.append(raw)
        return b"".join(chosen)

    def _begin(self, raw: bytes) -> None:
        """Comments before the first data wait for it, because an error there is still an answer with a status."""
        self._held.append(raw)
        if sse.parse(raw) is None:
            return
        if (error := self._manner.error_of(frame_json(raw))) is not None:
            raise masked(error, self._call.target.api_key)
        self._begun = True

    def _passes(self, raw: bytes) -> bool:
        if self.watch.done:
            return False
        return self._manner.is_quiet(raw) or not (self.watch.note(raw) and self._hide_usage)


def _parted(frames: bytes) -> tuple[bytes, bytes]:
    """The frames of a piece without the last few, and those."""
    end = len(frames) - 2
    for _ in range(_LAST_FRAMES):
        end = frames.rfind(b"\n\n", 0, end)
        if end < 0:
            return b"", frames
    return frames[: end + 2], frames[end + 2 :]


def _forwarded_frames(
    call: Call, manner: Manner, state: ForwardState, chunks: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    frames = _Frames(call, manner, state.hide_usage)

    def ending(error: GateError | None) -> bytes:
        return manner.ending(frames.watch, masked(error, call.target.api_key) if error is not None else None)

    return passthrough.forwarded(chunks, frames, ending)
