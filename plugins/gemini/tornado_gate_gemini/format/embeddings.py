"""The embedding methods: requests and responses of both lanes."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import (
    Call,
    EmbeddingRequest,
    EmbeddingResult,
    Reply,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate_gemini.fields import check_embedding
from tornado_gate_gemini.format.paths import BATCH_METHOD
from tornado_gate_gemini.format.replies import JSON_TYPE
from tornado_gate_gemini.wire.embeddings import note_embeddings, parse_embedding_request, render_embeddings


class GeminiEmbeddingState(Value, frozen=True, kw_only=True):
    """Response state: whether the request was a batch."""

    batch: bool = False


def _is_batch(wire: WireRequest) -> bool:
    return wire.route.path.endswith(f":{BATCH_METHOD}")


def _check_body(wire: WireRequest) -> None:
    check_embedding(wire.json, batch=_is_batch(wire))


def parse_embedding(call: Call, wire: WireRequest) -> EmbeddingRequest:
    """Parse the body into the common request. Raises InvalidField."""
    _check_body(wire)
    request = parse_embedding_request(call, wire.json, model=wire.path_arguments["model"])
    return replace(request, reply_state=GeminiEmbeddingState(batch=_is_batch(wire)))


def make_embedding_reply(request: EmbeddingRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response of the common lane."""
    state = request.reply_state
    return Reply(
        content_type=JSON_TYPE,
        chunks=_render_vectors(not isinstance(state, GeminiEmbeddingState) or state.batch, events),
    )


async def _render_vectors(batch: bool, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        result = await read_single_event(events, EmbeddingResult)
    finally:
        await close(events)
    async for piece in render_embeddings(result, batch=batch):
        yield piece


def forward_embedding(wire: WireRequest) -> VerbatimRequest:
    """Return the request of the verbatim lane. Its `path` ends with the method's name. Raises InvalidField."""
    check_for_upstream(_check_body, wire)
    return VerbatimRequest(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path.rstrip("/"),
        raw=wire.raw,
        body=wire.json,
    )


def forward_embeddings(call: Call, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response body unchanged and record its usage."""
    return Reply(content_type=JSON_TYPE, chunks=_forward_chunks(call, incoming))


async def _forward_chunks(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raw = await incoming.read()
    note_embeddings(call.meter, raw)
    yield raw
