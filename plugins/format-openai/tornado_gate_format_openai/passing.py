"""The verbatim lane of the routes beyond chat: their answers as they came, with what must be known of them.

`ResultAdapter` is one route's adapter: what a whole answer must look like, and, for a route that streams, which event ends it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError
from tornado_gate.types import Call, Meter, Usage, Verbatim, WireRequest
from tornado_gate.wire.openai_chat import frame_json
from tornado_gate.wire.openai_speech import failure_of
from tornado_gate_format_openai.verbatim import OpenAIAdapter

_DONE: Final = b"[DONE]"

ParseUsage = Callable[[Any], Usage | None]


def verbatim(wire: WireRequest, *, raw: bytes, body: Mapping[str, Any], stream: bool = False) -> Verbatim:
    """The request that goes up as `raw`, or as the form that `body` and the files are."""
    return Verbatim(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path,
        raw=raw,
        body=body,
        stream=stream,
        files=wire.files,
        form=wire.form,
    )


def _marks(last: str) -> tuple[bytes, ...]:
    """What is in every frame that must be looked into."""
    return (f'"{last}"'.encode(), b'"error"', _DONE)


class EndMeter:
    """Watches the frames of one stream, all but the last of which are passed without being parsed.

    In base64 and in JSON strings a quotation mark is escaped, so that no content can look like what is searched for.
    """

    def __init__(self, meter: Meter, last: str, parse_usage: ParseUsage) -> None:
        self.finished = False
        self.done = False
        self._meter = meter
        self._last = last
        self._marks = _marks(last)
        self._parse_usage = parse_usage

    def note(self, raw: bytes) -> bool:
        """Take one frame. False: nothing comes here because the gateway asked for it."""
        if not any(mark in raw for mark in self._marks):
            return False
        frame = sse.parse(raw)
        if frame is not None and frame.data.strip() == _DONE:
            self.finished = self.done = True
            return False
        body = frame_json(raw)
        if failure_of(body) is not None:
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
        parse_usage: ParseUsage,
        last: str = "",
        events_of: Callable[[Any], Iterable[Mapping[str, Any]]] = lambda body: (),
    ) -> None:
        self._check = check
        self._parse_usage = parse_usage
        self._last = last
        self._marks = _marks(last)
        self._events_of = events_of

    def meter(self, call: Call, request: Verbatim) -> passthrough.StreamMeter:
        return EndMeter(call.meter, self._last, self._parse_usage)

    def is_quiet(self, frames: bytes) -> bool:
        return not any(mark in frames for mark in self._marks)

    def parse_error(self, body: Any) -> GateError | None:
        return failure_of(body)

    def read_body(self, call: Call, request: Verbatim, raw: bytes, body: Any) -> bytes:
        self._check(body)
        call.meter.usage = self._parse_usage(body.get("usage")) or call.meter.usage
        return raw

    async def render_stream(self, call: Call, request: Verbatim, body: Any) -> AsyncIterator[bytes]:
        for event in self._events_of(body):
            yield sse.render_json(event)
