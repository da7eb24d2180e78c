"""The provider of the kit. It serves every operation except videos and sessions, over HTTP or without an upstream, in
both lanes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import msgspec

from tornado_gate import sse
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.hookspecs import Capabilities, ProviderEntry, provider_impl
from tornado_gate.testing.scripted_upstream import ReceivedRequest, UpstreamAnswer, json_answer, sse_answer
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
    ModerationRequest,
    ModerationResult,
    PartDelta,
    PartEnd,
    PartStart,
    Request,
    ResponseStart,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    StreamEvent,
    TokenCount,
    TranscriptionRequest,
    TranscriptionResult,
    UpstreamRequest,
    UpstreamResponse,
    Usage,
    UsageReport,
    VerbatimRequest,
    Verdict,
)

WORDS = ("Grüße ", "vom ", "Prüfstand ", "漢字 ", "🙂.")
USAGE = Usage(input_tokens=7, output_tokens=9)
START = ResponseStart(model="reference", id="ref_1", created=1_700_000_000)
ENDING = (PartEnd(index=0), UsageReport(usage=USAGE), Finish(reason="stop", raw="end"))
ANSWER: tuple[StreamEvent, ...] = (
    START,
    PartStart(index=0, kind="text"),
    *(PartDelta(index=0, data=word) for word in WORDS),
    *ENDING,
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
FAILING_MODEL = "raises"
"""The upstream model whose hook raises an exception that is no GateError."""
OPERATIONS = frozenset(
    {"chat", "count_tokens", "embeddings", "images", "image_edits", "moderation", "speech", "transcription"}
)


class ReferenceProvider:
    """A provider that responds by itself, without an upstream."""

    OPERATIONS: ClassVar[frozenset[str]] = OPERATIONS

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=OPERATIONS, costs_nothing=True)

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


class ReferenceHttpProvider:
    """A provider whose upstream sends the responses of `answer_upstream`. It accepts the wire formats `speaks` unchanged."""

    def __init__(self, speaks: frozenset[str] = frozenset()) -> None:
        self.speaks = speaks

    @provider_impl
    def configure(self, entry: ProviderEntry) -> Capabilities:
        return Capabilities(operations=OPERATIONS, speaks=self.speaks, costs_nothing=True)

    @provider_impl
    def translate_request(self, call: Call, request: Request) -> UpstreamRequest:
        headers = {"authorization": f"Bearer {call.target.api_key}", "content-type": "application/json"}
        if isinstance(request, VerbatimRequest):
            body: bytes | FormBody = FormBody(dict(request.body), list(request.files)) if request.form else request.raw
            if isinstance(body, FormBody):
                headers["content-type"] = body.content_type
            return UpstreamRequest(url=call.target.base_url + request.path, headers=headers, body=body)
        if not isinstance(request, _SERVED):
            raise UnsupportedOperation("The reference provider does not serve this operation.")
        sent = {"kind": type(request).__name__, "stream": bool(getattr(request, "stream", False))}
        if isinstance(request, ChatRequest):
            sent |= {
                "messages": msgspec.to_builtins(request.messages, enc_hook=str),
                "tools": [str(t) for t in request.tools],
            }
        return UpstreamRequest(url=f"{call.target.base_url}/reference", headers=headers, json=sent)

    @provider_impl
    async def translate_response(
        self, call: Call, request: Request, incoming: UpstreamResponse
    ) -> AsyncIterator[StreamEvent]:
        if call.target.upstream_model == FAILING_MODEL:
            raise RuntimeError("the reference provider fails")
        if isinstance(request, ChatRequest) and request.stream:
            async for event in _parse_stream(incoming):
                yield event
            return
        answer = await incoming.read_object()
        words = answer.get("words")
        if not isinstance(words, list):
            raise UpstreamError("The reference upstream sent no words.")
        if isinstance(request, ChatRequest):
            parts = (PartDelta(index=0, data="".join(words)),)
            for event in (START, PartStart(index=0, kind="text"), *parts, *ENDING):
                yield event
            return
        for event in answer_request(request):
            yield event


async def _parse_stream(incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    begun = False
    async for frame in sse.read_json_frames(incoming.chunks):
        if not begun:
            begun = True
            yield START
            yield PartStart(index=0, kind="text")
        if "word" in frame:
            yield PartDelta(index=0, data=frame["word"])
        elif "why" in frame:
            for event in ENDING:
                yield event


def answer_upstream(request: ReceivedRequest) -> UpstreamAnswer:
    """Return the response of the reference provider's upstream."""
    if (request.json or {}).get("stream"):
        return sse_answer(*({"word": word} for word in WORDS), {"why": "end"})
    return json_answer({"words": list(WORDS)})


_SERVED = (
    ChatRequest,
    CountTokensRequest,
    EmbeddingRequest,
    ImageRequest,
    ModerationRequest,
    SpeechRequest,
    TranscriptionRequest,
)


def answer_request(request: Request) -> tuple[StreamEvent, ...]:
    """Return the events with which the reference provider responds to a request."""
    match request:
        case ChatRequest():
            return ANSWER
        case CountTokensRequest():
            return (TokenCount(input_tokens=7),)
        case EmbeddingRequest(inputs=inputs):
            return (EmbeddingResult(vectors=tuple([0.25, -0.5] for _ in inputs), usage=Usage(input_tokens=7)),)
        case ModerationRequest():
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
