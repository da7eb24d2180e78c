"""The embedding methods: the check of their bodies, and replies in both lanes.

The vendor takes 100 contents in one request; more are taken here, because the core sends them in several.

Source: https://ai.google.dev/api/embeddings; google-genai 3.4, types.EmbedContentConfig.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate.codec.checks import missing, need_array, need_object, wrong
from tornado_gate.codec.fields import Body, Boolean, Integer, Object, String, check
from tornado_gate.errors import InvalidField
from tornado_gate.streams.events import close, single
from tornado_gate.types import (
    Call,
    EmbeddingRequest,
    EmbeddingResult,
    Reply,
    StreamEvent,
    UpstreamResponse,
    Verbatim,
    WireRequest,
)
from tornado_gate.types.value import Value, replace
from tornado_gate.wire.gemini_embeddings import note_embeddings, parse_embedding_request, render_embeddings
from tornado_gate_format_gemini.message_checks import check_parts
from tornado_gate_format_gemini.paths import BATCH
from tornado_gate_format_gemini.replies import JSON
from tornado_gate_format_gemini.schemas import in_callers_words

MOST_REQUESTS: Final = 2048


class _Config(Body):
    taskType = String(allow_none=True)
    title = String(allow_none=True)
    outputDimensionality = Integer(least=1, allow_none=True)
    autoTruncate = Boolean(allow_none=True)


class _Embed(_Config):
    model = String(allow_none=True)
    embedContentConfig = Object(_Config, allow_none=True)


_EMBED: Final = _Embed()


class EmbeddingState(Value, frozen=True, kw_only=True):
    """What the answer needs to know: whether the request was a batch."""

    batch: bool = False


def _is_batch(wire: WireRequest) -> bool:
    return wire.route.path.endswith(f":{BATCH}")


def check_embedding(wire: WireRequest) -> None:
    """Raises InvalidField for the first member of a body that is wrong."""
    in_callers_words(wire.json, wire.json, _check_batch if _is_batch(wire) else _check_one)


def _check_batch(body: Mapping[str, Any]) -> None:
    if body.get("requests") is None:
        missing("requests")
    requests = need_array(body["requests"], "requests")
    if not requests:
        wrong("requests", "must not be empty")
    if len(requests) > MOST_REQUESTS:
        wrong("requests", f"has {len(requests)} items; {MOST_REQUESTS} are allowed")
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
        missing("content")
    content = need_object(body["content"], "content")
    if content.get("parts") is None:
        missing("content.parts")
    check_parts(content["parts"], "content.parts")
    if not content["parts"]:
        wrong("content.parts", "must not be empty")
    check(_EMBED, body)


def parse_embedding(call: Call, wire: WireRequest) -> EmbeddingRequest:
    """The common request. Raises InvalidField."""
    check_embedding(wire)
    request = parse_embedding_request(call, wire.json, model=wire.path_arguments["model"])
    return replace(request, reply_state=EmbeddingState(batch=_is_batch(wire)))


def embedding_reply(request: EmbeddingRequest, events: AsyncIterator[StreamEvent]) -> Reply:
    """The reply of the common lane."""
    state = request.reply_state
    return Reply(content_type=JSON, chunks=_vectors(not isinstance(state, EmbeddingState) or state.batch, events))


async def _vectors(batch: bool, events: AsyncIterator[StreamEvent]) -> AsyncIterator[bytes]:
    try:
        result = await single(events, EmbeddingResult)
    finally:
        await close(events)
    async for piece in render_embeddings(result, batch=batch):
        yield piece


def forward_embedding(wire: WireRequest) -> Verbatim:
    """The request of the verbatim lane; `path` says which of the two methods it is. Raises InvalidField."""
    check_embedding(wire)
    return Verbatim(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path.rstrip("/"),
        raw=wire.raw,
        body=wire.json,
    )


def forward_embeddings(call: Call, incoming: UpstreamResponse) -> Reply:
    """The upstream's answer as it came."""
    return Reply(content_type=JSON, chunks=_forward(call, incoming))


async def _forward(call: Call, incoming: UpstreamResponse) -> AsyncIterator[bytes]:
    raw = await incoming.read()
    note_embeddings(call.meter, raw)
    yield raw
