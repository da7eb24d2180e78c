"""A provider and a wire format of the kit: the simplest ones that serve every operation, whole and streamed, in both lanes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from tornado_gate import passthrough, sse
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation, UpstreamError
from tornado_gate.hookspecs import Capabilities, ProviderEntry, format_impl, provider_impl
from tornado_gate.streams import events as stream_events
from tornado_gate.types import (
    BufferedBody,
    Call,
    ChatRequest,
    CountTokensRequest,
    EmbeddingRequest,
    EmbeddingResult,
    Finish,
    GeneratedImage,
    ImageRequest,
    ImageResult,
    Message,
    ModerationRequest,
    ModerationResult,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Request,
    ResponseStart,
    Route,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamError,
    StreamEvent,
    Text,
    TokenCount,
    TranscriptionRequest,
    TranscriptionResult,
    UpstreamRequest,
    UpstreamResponse,
    Usage,
    UsageReport,
    VerbatimRequest,
    WireRequest,
)

WORDS = ("Grüße ", "vom ", "Prüfstand ", "漢字 ", "🙂.")
WIRE_FORMAT = "reference"
USAGE = Usage(input_tokens=7, output_tokens=9)
ANSWER: tuple[StreamEvent, ...] = (
    ResponseStart(model="reference", id="ref_1", created=1_700_000_000),
    PartStart(index=0, kind="text"),
    *(PartDelta(index=0, data=word) for word in WORDS),
    PartEnd(index=0),
    UsageReport(usage=USAGE),
    Finish(reason="stop", raw="end"),
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


class ReferenceProvider:
    """Serves every operation of the vocabulary without an upstream, except videos and realtime sessions."""

    OPERATIONS: ClassVar[frozenset[str]] = frozenset(
        {"chat", "count_tokens", "embeddings", "images", "image_edits", "moderation", "speech", "transcription"}
    )

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=self.OPERATIONS, costs_nothing=True)

    @provider_impl
    def translate_request(self, request: Request) -> UpstreamRequest:
        return UpstreamRequest(context=request)

    @provider_impl
    async def call_upstream(self, outgoing: UpstreamRequest) -> UpstreamResponse:
        return UpstreamResponse(chunks=BufferedBody(b""), context=outgoing.context)

    @provider_impl
    async def translate_response(self, request: Request) -> AsyncIterator[StreamEvent]:
        for event in answer_request(request):
            yield event


def answer_request(request: Request) -> tuple[StreamEvent, ...]:
    """The events with which the reference provider answers a request."""
    match request:
        case ChatRequest():
            return ANSWER
        case CountTokensRequest():
            return (TokenCount(input_tokens=7),)
        case EmbeddingRequest(inputs=inputs):
            return (EmbeddingResult(vectors=tuple([0.25, -0.5] for _ in inputs), usage=Usage(input_tokens=7)),)
        case ModerationRequest():
            from tornado_gate.types import Verdict

            verdict = Verdict(flagged=False, categories={"violence": False}, scores={"violence": 0.0})
            return (ModerationResult(verdicts=(verdict,) * len(request.inputs)),)
        case ImageRequest():
            return (ImageResult(images=(GeneratedImage(data=PNG, media_type="image/png"),), usage=USAGE),)
        case SpeechRequest():
            return (
                SpeechStart(media_type="audio/wav"),
                SpeechChunk(data=b"RIFF"),
                SpeechChunk(data=bytes(64)),
                SpeechEnd(),
            )
        case TranscriptionRequest():
            return (TranscriptionResult(text="".join(WORDS), duration=1.0),)
    raise UnsupportedOperation("The reference provider does not serve this operation.")


class ReferenceFormat:
    """``POST /reference`` with ``{"model", "ask", "stream"}``: ``{"answer": "…"}``, or events with a word each. Also verbatim."""

    @format_impl
    def routes(self) -> list[Route]:
        return [Route("POST", "/reference", "chat", wire_format=WIRE_FORMAT)]

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
    """Raises InvalidField for a body without a text."""
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
    """Reads the frames of a stream: ``why`` ends it."""

    def __init__(self, meter: Any) -> None:
        self.meter = meter
        self.finished = self.done = False

    def note(self, raw: bytes) -> None:
        frame = sse.parse(raw)
        body = json.loads(frame.data) if frame else {}
        if "why" in body:
            self.meter.finish_reason = body["why"]
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
