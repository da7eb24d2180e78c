"""The verbatim lane of the routes beyond chat: their answers as they came, with what must be known of them.

`ResultAdapter` is one route's adapter: what a whole answer must look like, and, for a route that streams, which event ends it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Usage, VerbatimRequest, WireRequest
from tornado_gate.wire.openai_chat import parse_frame
from tornado_gate.wire.openai_speech import find_frame_error
from tornado_gate_format_openai.verbatim import OpenAIAdapter

_DONE: Final = b"[DONE]"

UsageParser = Callable[[Any], Usage | None]


def make_media_verbatim(
    wire: WireRequest, *, raw: bytes, body: Mapping[str, Any], stream: bool = False
) -> VerbatimRequest:
    """The request that goes up as `raw`, or as the form that `body` and the files are."""
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
    """What is in every frame that must be looked into."""
    return (f'"{last}"'.encode(), b'"error"', _DONE)


class EndMeter:
    """Watches the frames of one stream, all but the last of which are passed without being parsed.

    In base64 and in JSON strings a quotation mark is escaped, so that no content can look like what is searched for.
    """

    def __init__(self, meter: Meter, last: str, parse_usage: UsageParser) -> None:
        self.finished = False
        self.done = False
        self._meter = meter
        self._last = last
        self._marks = _list_markers(last)
        self._parse_usage = parse_usage

    def note(self, raw: bytes) -> bool:
        """Take one frame. False: nothing comes here because the gateway asked for it."""
        if not any(mark in raw for mark in self._marks):
            return False
        frame = sse.parse(raw)
        if frame is not None and frame.data.strip() == _DONE:
            self.finished = self.done = True
            return False
        body = parse_frame(raw)
        if find_frame_error(body) is not None:
            self.done = True
        elif isinstance(body, Mapping) and body.get("type") == self._last:
            self.finished = True
            self._meter.usage = self._parse_usage(body.get("usage")) or self._meter.usage
        return False


class ResultAdapter(OpenAIAdapter):
    """One route. `check` raises for a body that is no answer; `last` is the type of a stream's last event.

    `events_of` makes the events of a stream of a whole answer.
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
        call.meter.usage = self._parse_usage(body.get("usage")) or call.meter.usage
        return raw

    async def render_stream(self, call: Call, request: VerbatimRequest, body: Any) -> AsyncIterator[bytes]:
        for event in self._events_of(body):
            yield sse.render_json(event)
