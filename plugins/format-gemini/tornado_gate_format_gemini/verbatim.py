"""What goes up on the verbatim lane, and what the answers mean there: their way down is `tornado_gate.passthrough`.

The upstream is asked in the form that the caller asked in: server-sent events or an array. What it says in the middle about an
error of its own is told in the caller's dialect; everything else is the upstream's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, Verbatim, WireRequest
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
    if not request.stream:
        return Reply(content_type=JSON, chunks=passthrough.forward_body(call, _EVENTS, request, incoming))
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = isinstance(request.state, ForwardState) and request.state.sse_wanted
    came_as_events = kind == passthrough.EVENT_STREAM or (kind != JSON and wanted)
    adapter = _ADAPTERS[came_as_events, wanted]
    chunks = passthrough.forward_stream(call, adapter, request, incoming)
    return Reply(content_type=EVENTS if wanted else JSON, chunks=chunks, keep_alive=KEEP_ALIVE if wanted else b"")


class GenerateMeter:
    """Reads the JSON text of each chunk, and raises the error that the upstream ends its stream with."""

    done = False  # what follows a finish reason passes too

    def __init__(self, meter: Meter, text_of: Callable[[bytes], bytes]) -> None:
        self._chunks = ChunkMeter(meter)
        self._text_of = text_of
        self.element_sent = False
        """For an array: whether the next element needs a comma before it."""

    @property
    def finished(self) -> bool:
        return self._chunks.finished

    def note(self, raw: bytes) -> None:
        self._chunks.note(self._text_of(raw))
        if self._chunks.error is not None:
            raise self._chunks.error


class GenerateAdapter(passthrough.StreamAdapter):
    """Server-sent events, for a caller who asked for them. An error in the middle is told in the caller's dialect."""

    def meter(self, call: Call, request: Verbatim) -> passthrough.StreamMeter:
        return GenerateMeter(call.meter, self.text_of)

    def text_of(self, raw: bytes) -> bytes:
        """The JSON text of a frame; b"" for a comment."""
        frame = sse.parse(raw)
        return b"" if frame is None else frame.data

    def has_data(self, raw: bytes) -> bool:
        return bool(self.text_of(raw))

    def parse_error(self, body: Any) -> GateError | None:
        return None  # the meter raises it

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        return frames

    def render_ending(self, call: Call, meter: GenerateMeter, error: GateError | None) -> bytes:
        return b"" if error is None else error_frame(call, error)

    def read_body(self, call: Call, request: Verbatim, raw: bytes, body: Any) -> bytes:
        note_body(call.meter, body)
        return raw


class _FromArray(GenerateAdapter):
    """The upstream sends an array: a frame is an element of it."""

    def splitter(self, meter: GenerateMeter) -> passthrough.Splitter:
        return ArraySplitter()

    def text_of(self, raw: bytes) -> bytes:
        return raw

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        return [sse.render(b"".join(text.splitlines())) for text in frames]


class _ToArray(GenerateAdapter):
    """The caller asked for an array."""

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        chunks: list[bytes] = []
        for text in filter(None, map(self.text_of, frames)):
            chunks += (_before(meter) + text, AFTER_ELEMENT)
            meter.element_sent = True
        return chunks

    def render_ending(self, call: Call, meter: GenerateMeter, error: GateError | None) -> bytes:
        return b"]" if error is None else _before(meter) + error_body(call, error) + b"]"


class _ArrayToArray(_ToArray, _FromArray):
    """Both."""


def _before(meter: GenerateMeter) -> bytes:
    return b"," if meter.element_sent else b"["


_EVENTS: Final = GenerateAdapter()
_ADAPTERS: Final[Mapping[tuple[bool, bool], GenerateAdapter]] = {
    (True, True): _EVENTS,
    (True, False): _ToArray(),
    (False, True): _FromArray(),
    (False, False): _ArrayToArray(),
}
"""By whether the upstream sends events, and whether the caller asked for them."""
