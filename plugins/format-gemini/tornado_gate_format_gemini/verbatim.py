"""What goes up on the verbatim lane, and what the answers mean there: their way down is `tornado_gate.passthrough`.

The upstream is asked in the form that the caller asked in: server-sent events or an array. What it says in the middle about an
error of its own is told in the caller's dialect; everything else is the upstream's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, VerbatimRequest, WireRequest
from tornado_gate.types.value import Value
from tornado_gate.wire.gemini_generate import ArraySplitter, GenerateStreamMeter, note_body
from tornado_gate_format_gemini.envelope import render_error_body, render_error_frame
from tornado_gate_format_gemini.replies import ARRAY_KEEP_ALIVE, EVENT_STREAM_TYPE, JSON_TYPE, KEEP_ALIVE


class GeminiForwardState(Value, frozen=True):
    """What `forward_response` must know of the request: whether the caller asked for server-sent events."""

    sse_wanted: bool = False


def forward_body(wire: WireRequest, *, streams: bool, sse_wanted: bool) -> VerbatimRequest:
    """The request for a body that was checked. `path` has ``alt=sse`` when the caller's had it."""
    return VerbatimRequest(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=f"{wire.path}?alt=sse" if streams and sse_wanted else wire.path,
        raw=wire.raw,
        body=wire.json,
        stream=streams,
        state=GeminiForwardState(sse_wanted),
    )


def forward_answer(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer. A stream keeps the form that was asked for.

    One that is there as a whole is looked at here: raises the error that it may be.
    """
    if not request.stream:
        return Reply(content_type=JSON_TYPE, chunks=passthrough.forward_body(call, _EVENTS_ADAPTER, request, incoming))
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = isinstance(request.state, GeminiForwardState) and request.state.sse_wanted
    came_as_events = kind == passthrough.EVENT_STREAM or (kind != JSON_TYPE and wanted)
    adapter = _ADAPTERS[came_as_events, wanted]
    chunks = passthrough.forward_stream(call, adapter, request, incoming)
    return Reply(
        content_type=EVENT_STREAM_TYPE if wanted else JSON_TYPE, chunks=chunks, keep_alive=KEEP_ALIVE if wanted else b""
    )


class GenerateMeter:
    """Reads the JSON text of each chunk, and raises the error that the upstream ends its stream with."""

    done = False  # what follows a finish reason passes too

    def __init__(self, meter: Meter, text_of: Callable[[bytes], bytes]) -> None:
        self._chunks = GenerateStreamMeter(meter)
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

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return GenerateMeter(call.meter, self.extract_text)

    def extract_text(self, raw: bytes) -> bytes:
        """The JSON text of a frame; b"" for a comment."""
        frame = sse.parse(raw)
        return b"" if frame is None else frame.data

    def has_data(self, raw: bytes) -> bool:
        return bool(self.extract_text(raw))

    def parse_error(self, body: Any) -> GateError | None:
        return None  # the meter raises it

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        return frames

    def render_ending(self, call: Call, meter: GenerateMeter, error: GateError | None) -> bytes:
        return b"" if error is None else render_error_frame(call, error)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        note_body(call.meter, body)
        return raw


class _FromArrayAdapter(GenerateAdapter):
    """The upstream sends an array: a frame is an element of it."""

    def splitter(self, meter: GenerateMeter) -> passthrough.Splitter:
        return ArraySplitter()

    def extract_text(self, raw: bytes) -> bytes:
        return raw

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        return [sse.render(b"".join(text.splitlines())) for text in frames]


class _ToArrayAdapter(GenerateAdapter):
    """The caller asked for an array."""

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        chunks: list[bytes] = []
        for text in filter(None, map(self.extract_text, frames)):
            chunks += (_render_separator(meter) + text, ARRAY_KEEP_ALIVE)
            meter.element_sent = True
        return chunks

    def render_ending(self, call: Call, meter: GenerateMeter, error: GateError | None) -> bytes:
        return b"]" if error is None else _render_separator(meter) + render_error_body(call, error) + b"]"


class _ArrayToArrayAdapter(_ToArrayAdapter, _FromArrayAdapter):
    """Both."""


def _render_separator(meter: GenerateMeter) -> bytes:
    return b"," if meter.element_sent else b"["


_EVENTS_ADAPTER: Final = GenerateAdapter()
_ADAPTERS: Final[Mapping[tuple[bool, bool], GenerateAdapter]] = {
    (True, True): _EVENTS_ADAPTER,
    (True, False): _ToArrayAdapter(),
    (False, True): _FromArrayAdapter(),
    (False, False): _ArrayToArrayAdapter(),
}
"""By whether the upstream sends events, and whether the caller asked for them."""
