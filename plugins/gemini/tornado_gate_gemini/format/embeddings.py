"""The embedding methods: checks of their bodies, and the responses of both lanes.

The vendor accepts 100 contents in one request. The gateway accepts more, because the core splits them into several requests.

Source: https://ai.google.dev/api/embeddings; google-genai 3.4, types.EmbedContentConfig.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import need_array, need_object, raise_invalid, raise_missing, refuse_value
from tornado_gate.codec.fields import BodySchema, Boolean, Integer, Object, String, check
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import InvalidField
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
from tornado_gate_gemini.fields.generate import check_with_caller_paths
from tornado_gate_gemini.fields.message_checks import check_parts
from tornado_gate_gemini.format.paths import BATCH_METHOD
from tornado_gate_gemini.format.replies import JSON_TYPE
from tornado_gate_gemini.wire.embeddings import note_embeddings, parse_embedding_request, render_embeddings

MAX_REQUESTS: Final = 2048


class _EmbedConfigSchema(BodySchema):
    taskType = String(allow_none=True)
    title = String(allow_none=True)
    outputDimensionality = Integer(least=1, allow_none=True)
    autoTruncate = Boolean(allow_none=True)


class _EmbedSchema(_EmbedConfigSchema):
    model = String(allow_none=True)
    embedContentConfig = Object(_EmbedConfigSchema, allow_none=True)


_EMBED_SCHEMA: Final = _EmbedSchema()


class GeminiEmbeddingState(Value, frozen=True, kw_only=True):
    """Response state: whether the request was a batch."""

    batch: bool = False


def _is_batch(wire: WireRequest) -> bool:
    return wire.route.path.endswith(f":{BATCH_METHOD}")


def check_embedding(wire: WireRequest) -> None:
    """Raise InvalidField for the first invalid member of the body."""
    check_with_caller_paths(wire.json, wire.json, _check_batch if _is_batch(wire) else _check_one)


def _check_batch(body: Mapping[str, Any]) -> None:
    if body.get("requests") is None:
        raise_missing("requests")
    requests = need_array(body["requests"], "requests")
    if not requests:
        raise_invalid("requests", "must not be empty")
    if len(requests) > MAX_REQUESTS:
        refuse_value("requests", f"has {len(requests)} items; at most {MAX_REQUESTS} are allowed")
    for number, request in enumerate(requests):
        path = f"requests.{number}"
        need_object(request, path)
        try:
            _check_one(request)
        except InvalidField as error:
            message = error.message.replace(f"'{error.param}'", f"'{path}.{error.param}'", 1)
            raise InvalidField(f"{path}.{error.param}", message, code=error.code) from None


def _check_one(body: Mapping[str, Any]) -> None:
    if body.get("content") is None:
        raise_missing("content")
    content = need_object(body["content"], "content")
    if content.get("parts") is None:
        raise_missing("content.parts")
    check_parts(content["parts"], "content.parts")
    if not content["parts"]:
        raise_invalid("content.parts", "must not be empty")
    check(_EMBED_SCHEMA, body)


def parse_embedding(call: Call, wire: WireRequest) -> EmbeddingRequest:
    """Parse the body into the common request. Raises InvalidField."""
    check_embedding(wire)
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
    check_for_upstream(check_embedding, wire)
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
