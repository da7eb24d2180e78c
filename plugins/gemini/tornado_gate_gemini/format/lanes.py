"""The hooks' implementation, for the common lane and the verbatim lane.

`tornado_gate_gemini.wire` parses and renders the wire formats; `fields` checks bodies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError, UnsupportedOperation
from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    EmbeddingRequest,
    ImageRequest,
    ModelsRequest,
    Reply,
    Request,
    SpeechRequest,
    StoredObjectRequest,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_gemini.fields import check_count, check_generate
from tornado_gate_gemini.format import interactions, paths
from tornado_gate_gemini.format.embeddings import (
    forward_embedding,
    forward_embeddings,
    make_embedding_reply,
    parse_embedding,
)
from tornado_gate_gemini.format.envelope import render_error_body, render_error_frame
from tornado_gate_gemini.format.media import (
    make_image_reply,
    make_speech_reply,
    parse_image_request,
    parse_speech_request,
)
from tornado_gate_gemini.format.models import parse_page
from tornado_gate_gemini.format.replies import StreamState, count_reply, make_chat_reply, make_models_reply
from tornado_gate_gemini.format.verbatim import forward_answer, forward_body
from tornado_gate_gemini.wire import formats
from tornado_gate_gemini.wire.generate import CALL_SIGNATURE_START, parse_request


def translate_request(call: Call, wire: WireRequest) -> Request | Awaitable[Request]:
    if wire.route.model == "none" and wire.route.operation == "chat":
        return interactions.make_stored_request(wire)
    if wire.route.wire_format == formats.GEMINI_INTERACTIONS:
        raise interactions.refuse_translation(call)
    if wire.route.operation == "models":
        model = wire.path_arguments.get("model")
        if model is None:
            return ModelsRequest(reply_state=parse_page(wire.query))
        return ModelsRequest(model=model.removeprefix("models/"))
    if wire.route.operation == "count_tokens":
        counted = check_count(wire.json)
        model = wire.path_arguments["model"]
        return CountTokensRequest(model=model, chat=parse_request(counted, model=model))
    if wire.route.operation == "embeddings":
        return parse_embedding(call, wire)
    camel_body = check_generate(wire.json)
    state = StreamState(in_chunks=_is_stream(wire), sse_wanted=paths.wants_events(wire))
    if call.operation in ("images", "image_edits"):
        return parse_image_request(call, wire, state)
    if call.operation == "speech":
        return parse_speech_request(call, wire, state)
    return parse_request(
        wire.json,
        model=wire.path_arguments["model"],
        stream=state.in_chunks,
        camel_body=camel_body,
        reply_state=state,
    )


def _is_stream(wire: WireRequest) -> bool:
    return wire.route.path.endswith(f":{paths.STREAM_METHOD}")


def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    match request:
        case ChatRequest():
            return make_chat_reply(call, request, events)
        case CountTokensRequest():
            return count_reply(events)
        case EmbeddingRequest():
            return make_embedding_reply(request, events)
        case ImageRequest():
            return make_image_reply(call, request, events)
        case SpeechRequest():
            return make_speech_reply(call, request, events)
        case ModelsRequest():
            return make_models_reply(request, events)
    raise UnsupportedOperation(f"The Gemini wire format does not support the operation '{call.operation}'.")


def translate_error(call: Call | None, error: GateError, streaming: bool) -> bytes:
    return render_error_frame(call, error) if streaming else render_error_body(call, error)


def forward_request(call: Call, wire: WireRequest) -> VerbatimRequest | None:
    if wire.route.wire_format == formats.GEMINI_INTERACTIONS:
        return interactions.forward_interaction(call, wire)
    if wire.route.operation == "embeddings":
        return forward_embedding(wire)
    if CALL_SIGNATURE_START in wire.raw:
        return None  # only the gateway can read it
    if wire.route.operation == "count_tokens":
        check_for_upstream(check_count, wire.json)
    else:
        check_for_upstream(check_generate, wire.json)
    return forward_body(wire, streams=_is_stream(wire), sse_wanted=paths.wants_events(wire))


def forward_response(call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse) -> Reply:
    if isinstance(request, StoredObjectRequest) or request.wire_format == formats.GEMINI_INTERACTIONS:
        return interactions.forward_answer(call, request, incoming)
    if request.operation == "embeddings":
        return forward_embeddings(call, incoming)
    return forward_answer(call, request, incoming)
