"""Requests of the verbatim lane, and the adapters with which `tornado_gate.passthrough` forwards the responses.

The request to the upstream has the caller's stream form: server-sent events or a JSON array. An error inside the stream is
rendered in the caller's dialect; all other bytes are the upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Reply, UpstreamResponse, VerbatimRequest, WireRequest
from tornado_gate.types.value import Value
from tornado_gate_gemini.format.envelope import render_error_body, render_error_frame
from tornado_gate_gemini.format.paths import KEEP_ALIVE
from tornado_gate_gemini.format.replies import ARRAY_KEEP_ALIVE, EVENT_STREAM_TYPE, JSON_TYPE
from tornado_gate_gemini.wire.generate import ArraySplitter, GenerateStreamMeter, note_body


class GeminiForwardState(Value, frozen=True):
    """State for `forward_response`: whether the caller requested server-sent events."""

    sse_wanted: bool = False


def forward_body(wire: WireRequest, *, streams: bool, sse_wanted: bool) -> VerbatimRequest:
    """Return the request for a checked body. Its `path` ends with ``?alt=sse`` when the caller's query had it."""
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
    """Return the upstream's response; a stream is converted to the form that the caller requested.

    The chunks raise GateError for an upstream error in a JSON body.
    """
    if not request.stream:
        return Reply(content_type=JSON_TYPE, chunks=passthrough.forward_body(call, _EVENTS_ADAPTER, request, incoming))
    kind = incoming.media_type
    wants_sse = isinstance(request.state, GeminiForwardState) and request.state.sse_wanted
    came_as_events = kind == passthrough.EVENT_STREAM or (kind != JSON_TYPE and wants_sse)
    adapter = _ADAPTERS[came_as_events, wants_sse]
    chunks = passthrough.forward_stream(call, adapter, request, incoming)
    return Reply(
        content_type=EVENT_STREAM_TYPE if wants_sse else JSON_TYPE,
        chunks=chunks,
        keep_alive=KEEP_ALIVE if wants_sse else b"",
    )


class GenerateMeter:
    """The meter of chunks as JSON text. It raises the error with which the upstream ends its stream."""

    done = False  # chunks after the finish reason are forwarded too

    def __init__(self, meter: Meter, text_of: Callable[[bytes], bytes]) -> None:
        self._chunks = GenerateStreamMeter(meter)
        self._text_of = text_of
        self.element_sent = False
        """For an array: whether an element was sent, so that the next one needs a comma before it."""

    @property
    def finished(self) -> bool:
        return self._chunks.finished

    def note(self, raw: bytes) -> None:
        self._chunks.note(self._text_of(raw))
        if self._chunks.error is not None:
            raise self._chunks.error


class GenerateAdapter(passthrough.StreamAdapter):
    """Server-sent events on both sides. An error inside the stream is rendered in the caller's dialect."""

    frame_bytes = 400
    produced_member = "candidates"

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return GenerateMeter(call.meter, self.extract_text)

    def extract_text(self, raw: bytes) -> bytes:
        """Return the JSON text of a frame; b"" for a comment."""
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
    """The upstream sends a JSON array; each element is a frame. The caller gets server-sent events."""

    def splitter(self, meter: GenerateMeter) -> passthrough.Splitter:
        return ArraySplitter()

    def extract_text(self, raw: bytes) -> bytes:
        return raw

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        return [sse.render(b"".join(text.splitlines())) for text in frames]


class _ToArrayAdapter(GenerateAdapter):
    """The upstream sends server-sent events. The caller gets a JSON array."""

    def render_frames(self, meter: GenerateMeter, frames: list[bytes]) -> list[bytes]:
        chunks: list[bytes] = []
        for text in filter(None, map(self.extract_text, frames)):
            chunks += (_render_separator(meter) + text, ARRAY_KEEP_ALIVE)
            meter.element_sent = True
        return chunks

    def render_ending(self, call: Call, meter: GenerateMeter, error: GateError | None) -> bytes:
        return b"]" if error is None else _render_separator(meter) + render_error_body(call, error) + b"]"


class _ArrayToArrayAdapter(_ToArrayAdapter, _FromArrayAdapter):
    """A JSON array on both sides."""


def _render_separator(meter: GenerateMeter) -> bytes:
    return b"," if meter.element_sent else b"["


_EVENTS_ADAPTER: Final = GenerateAdapter()
_ADAPTERS: Final[Mapping[tuple[bool, bool], GenerateAdapter]] = {
    (True, True): _EVENTS_ADAPTER,
    (True, False): _ToArrayAdapter(),
    (False, True): _FromArrayAdapter(),
    (False, False): _ArrayToArrayAdapter(),
}
"""Key: whether the upstream sends server-sent events, and whether the caller requested them."""
