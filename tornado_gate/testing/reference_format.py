"""The wire format of the kit: the simplest format that has whole responses and streams, in both lanes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError, InvalidField, UpstreamError
from tornado_gate.hookspecs import format_impl
from tornado_gate.streams import events as stream_events
from tornado_gate.types import (
    Call,
    ChatRequest,
    Finish,
    Message,
    PartDelta,
    Reply,
    Request,
    Route,
    StreamError,
    StreamEvent,
    Text,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.text_maps import WORD, Object, TextMap
from tornado_gate.types.text_maps import Text as TextShape

_ANSWER = TextShape(kind="assistant")
_PIECE = TextShape(kind="assistant", delta=True, place="answer")
_TEXTS = TextMap(
    request=Object(members={"model": WORD, "ask": TextShape(kind="user")}),
    response=Object(members={"answer": _ANSWER}),
    event=Object(members={"word": _PIECE, "why": WORD}, ends={"why": ("answer",)}),
)
WIRE_FORMAT = "reference"
PATH = "/reference"


class ReferenceFormat:
    """The format: ``POST /reference`` with ``{"model", "ask", "stream"}``.

    The response is ``{"answer": "…"}``, or events with a word each. The verbatim lane is supported too.
    """

    @format_impl
    def routes(self) -> list[Route]:
        return [Route("POST", PATH, "chat", wire_format=WIRE_FORMAT, texts=_TEXTS)]

    @format_impl
    def translate_request(self, wire: WireRequest) -> Request:
        check_body(wire)
        message = Message(role="user", parts=(Text(text=wire.json["ask"]),))
        return ChatRequest(
            model=wire.json["model"],
            messages=(message,),
            stream=wire.json.get("stream") is True,
            wire_format=WIRE_FORMAT,
        )

    @format_impl
    def translate_response(self, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
        if getattr(request, "stream", False):
            return Reply(content_type="text/event-stream", chunks=_render_stream(events))
        return Reply(content_type="application/json", chunks=_render_whole(events))

    @format_impl
    def translate_error(self, error: GateError, streaming: bool) -> bytes:
        body = {"error": error.body()}
        return sse.render_json(body) if streaming else json.dumps(body).encode()

    @format_impl
    def forward_request(self, call: Call, wire: WireRequest) -> VerbatimRequest:
        check_body(wire)
        return VerbatimRequest(
            wire_format=WIRE_FORMAT, operation=call.operation, path=wire.path, raw=wire.raw, body=wire.json,
            stream=wire.json.get("stream") is True,
        )  # fmt: skip

    @format_impl
    def forward_response(self, call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
        return passthrough.forward_answer(call, _ADAPTER, request, incoming)


def check_body(wire: WireRequest) -> None:
    """Check a body. Raises InvalidField for a body without a text."""
    if not isinstance(wire.json.get("ask"), str):
        raise InvalidField("ask", "'ask' must be a string.")


async def _render_stream(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if isinstance(event, PartDelta):
            yield sse.render_json({"word": event.data})
        elif isinstance(event, StreamError):
            yield sse.render_json({"error": event.error.body()})
        elif isinstance(event, Finish):
            yield sse.render_json({"why": event.reason})


async def _render_whole(events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    result = await stream_events.collect(events)
    text = "".join(part.text for part in result.choices[0].parts if isinstance(part, Text))
    yield json.dumps({"answer": text}, ensure_ascii=False).encode()


class _Meter:
    """A meter of the frames of a stream. A frame with ``why`` ends the stream."""

    def __init__(self, meter: Any) -> None:
        self.meter = meter
        self.finished = self.done = False

    def note(self, raw: bytes) -> None:
        frame = sse.parse(raw)
        body = json.loads(frame.data) if frame else {}
        if "why" in body:
            self.meter.record_finish(body["why"])
            self.finished = self.done = True
        elif "error" in body:
            self.done = True


class _Adapter(passthrough.StreamAdapter):
    def meter(self, call: Call, request: Any) -> Any:
        return _Meter(call.meter)

    def is_quiet(self, frames: bytes) -> bool:
        return b'"why"' not in frames and b'"error"' not in frames

    def parse_error(self, body: Any) -> GateError | None:
        failed = isinstance(body, dict) and "error" in body
        return UpstreamError("The reference upstream failed.") if failed else None

    def render_ending(self, call: Call, meter: Any, error: GateError | None) -> bytes:
        return sse.render_json({"error": error.body()}) if error else b""

    def read_body(self, call: Call, request: Any, raw: bytes, body: Any) -> bytes:
        if error := self.parse_error(body):
            raise error
        return raw


_ADAPTER = _Adapter()
