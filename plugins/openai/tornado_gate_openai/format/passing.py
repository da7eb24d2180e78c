"""The verbatim lane of the routes other than chat.

`ResultAdapter` is the passthrough adapter of one route: it checks JSON bodies and recognises the last event of a stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Usage, VerbatimRequest, WireRequest
from tornado_gate_openai.format.verbatim import OpenAIAdapter
from tornado_gate_openai.wire.speech import find_frame_error

_DONE: Final = b"[DONE]"

UsageParser = Callable[[Any], Usage | None]


def make_media_verbatim(
    wire: WireRequest, *, raw: bytes, body: Mapping[str, Any], stream: bool = False
) -> VerbatimRequest:
    """Return the request of the verbatim lane: sent as `raw`, or as a form of the fields in `body` and the request's files."""
    return VerbatimRequest(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=stream,
        files=wire.files,
        form=wire.form,
    )


def _list_markers(last: str) -> tuple[bytes, ...]:
    """Return byte strings: each frame that must be parsed contains at least one."""
    return (f'"{last}"'.encode(), b'"error"', _DONE)


class EndMeter:
    """The search of one stream's frames for its last event, its error and its usage. Only these frames are parsed.

    Quotation marks are escaped in JSON strings and do not occur in base64, so no content contains a searched string.
    """

    def __init__(self, meter: Meter, last: str, parse_usage: UsageParser) -> None:
        self.finished = False
        self.done = False
        self._meter = meter
        self._last = last
        self._marks = _list_markers(last)
        self._parse_usage = parse_usage

    def note(self, raw: bytes) -> bool:
        """Record one frame. Returns False: no frame is hidden from the caller."""
        if not any(mark in raw for mark in self._marks):
            return False
        frame = sse.parse(raw)
        if frame is not None and frame.data.strip() == _DONE:
            self.finished = self.done = True
            return False
        body = sse.parse_json(raw)
        if find_frame_error(body) is not None:
            self.done = True
        elif isinstance(body, Mapping) and body.get("type") == self._last:
            self.finished = True
            self._meter.record_usage(self._parse_usage(body.get("usage")))
        return False


class ResultAdapter(OpenAIAdapter):
    """Passthrough adapter of one route.

    `check` raises GateError for a body that is not a valid response. `last` is the type of a stream's last event. `events_of`
    returns the stream's events for a JSON body, when the caller requested a stream and the upstream sent none.
    """

    def __init__(
        self,
        check: Callable[[Any], Any],
        parse_usage: UsageParser,
        last: str = "",
        events_of: Callable[[Any], Iterable[Mapping[str, Any]]] = lambda body: (),
    ) -> None:
        self._check = check
        self._parse_usage = parse_usage
        self._last = last
        self._marks = _list_markers(last)
        self._events_of = events_of

    def meter(self, call: Call, request: VerbatimRequest) -> passthrough.StreamMeter:
        return EndMeter(call.meter, self._last, self._parse_usage)

    def is_quiet(self, frames: bytes) -> bool:
        return not any(mark in frames for mark in self._marks)

    def parse_error(self, body: Any) -> GateError | None:
        return find_frame_error(body)

    def read_body(self, call: Call, request: VerbatimRequest, raw: bytes, body: Any) -> bytes:
        self._check(body)
        call.meter.record_usage(self._parse_usage(body.get("usage")))
        return raw

    async def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        for event in self._events_of(body):
            yield sse.render_json(event)
