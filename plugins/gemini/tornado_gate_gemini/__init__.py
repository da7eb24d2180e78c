"""Chat, counts of tokens, vectors, pictures, speech and videos at the Gemini API.

The wire formats themselves are in `tornado_gate.wire`: `gemini_generate`, `gemini_embeddings`, `gemini_images` and
`gemini_videos`; here is where requests go and what differs from model to model.

Source: https://ai.google.dev/api/generate-content, and google-genai 3.4, models.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse
from tornado_gate.errors import GateError, UnsupportedOperation, UpstreamError
from tornado_gate.streams.events import replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    EmbeddingRequest,
    ImageRequest,
    Link,
    Request,
    SpeechRequest,
    StreamEvent,
    TokenCount,
    UpstreamRequest,
    UpstreamResponse,
    Verbatim,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.wire import gemini_embeddings
from tornado_gate.wire.gemini_generate import (
    WIRE_FORMAT,
    camelised,
    error_of,
    guessed_media_type,
    json_elements,
    parse_image_response,
    parse_response,
    parse_stream,
    render_count,
    render_request,
    speech_events,
)
from tornado_gate.wire.gemini_images import parse_predictions
from tornado_gate.wire.gemini_videos import parse_operation
from tornado_gate_gemini import videos
from tornado_gate_gemini.address import resource, url_of
from tornado_gate_gemini.facts import OPERATIONS, Facts, is_imagen, read
from tornado_gate_gemini.inline import inlined
from tornado_gate_gemini.media import EMBED, EMBED_BATCH, body_of, one

_WHOLE: Final = "generateContent"
_STREAM: Final = "streamGenerateContent"
_EVENTS: Final = "alt=sse"
_COUNT: Final = "countTokens"


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read(entry)
    return Capabilities(
        operations=frozenset().union(*OPERATIONS.values()),
        models=OPERATIONS,
        inputs_at_once=gemini_embeddings.MOST_AT_ONCE,
        speaks=frozenset({WIRE_FORMAT, gemini_embeddings.WIRE_FORMAT}),
        base_url=base_url,
        settings=facts,
        signatures=True,
    )


@provider_impl
async def translate_request(call: Call, request: Request) -> UpstreamRequest:
    facts: Facts = call.target.settings
    model = call.target.upstream_model
    dialect = facts.dialect(model)
    match request:
        case Verbatim(operation="chat" | "count_tokens") if request.wire_format == WIRE_FORMAT:
            return _forwarded(call, request)
        case Verbatim(operation="embeddings") if request.wire_format == gemini_embeddings.WIRE_FORMAT:
            return _forwarded_embedding(call, request)
        case ChatRequest():
            method = f"{_STREAM}?{_EVENTS}" if request.stream else _WHOLE
            whole = await inlined(call, request, _tells_no_type)
            return _outgoing(call, method, json=render_request(call, whole, dialect=dialect))
        case CountTokensRequest(chat=chat):
            whole = await inlined(call, chat, _tells_no_type)
            return _outgoing(call, _COUNT, json=render_count(call, whole, model=resource(model), dialect=dialect))
        case EmbeddingRequest() | ImageRequest() | SpeechRequest():
            method, body = await body_of(call, request)
            return _outgoing(call, method, json=body)
        case VideoRequest() | VideoPoll() | VideoDownload() | VideoCancel():
            return await videos.asked(call, request, _headers(call))
    raise UnsupportedOperation(f"The model '{call.model}' cannot do this; it does what GET /v1beta/models says.")


def _tells_no_type(link: Link) -> bool:
    """The vendor opens public addresses itself, when it is told what is there."""
    return not (link.media_type or guessed_media_type(link.url))


def _outgoing(call: Call, method: str, **content: Any) -> UpstreamRequest:
    target = call.target
    return UpstreamRequest(
        url=url_of(target.base_url, target.upstream_model, method), headers=_headers(call), **content
    )


def _headers(call: Call) -> Mapping[str, str]:
    """Names in lower case, so that the entry's own headers replace ours however conf spells them."""
    headers = {"content-type": "application/json"}
    if call.target.api_key:
        headers["x-goog-api-key"] = call.target.api_key
    return headers | {name.lower(): str(value) for name, value in call.target.headers.items()}


def _forwarded(call: Call, request: Verbatim) -> UpstreamRequest:
    """The body as it came, unless it is in snake_case or names the model: upstreams want camelCase and their own name."""
    method = _COUNT if request.operation == "count_tokens" else _WHOLE
    if request.stream:
        method = f"{_STREAM}?{_EVENTS}" if request.path.endswith(f"?{_EVENTS}") else _STREAM
    body = dict(request.body)
    camel = camelised(body)
    changed = _with_model(camel, resource(call.target.upstream_model))
    if camel is body:
        return _outgoing(call, method, body=patch_json(request.raw, changed, request.body) if changed else request.raw)
    return _outgoing(call, method, json={**camel, **changed})


def _forwarded_embedding(call: Call, request: Verbatim) -> UpstreamRequest:
    """The body as it came, with the upstream's name of the model, which the vendor demands in each request of a batch."""
    name = resource(call.target.upstream_model)
    body = dict(request.body)
    camel = camelised(body)
    changed: dict[str, Any] = {"model": name} if camel.get("model") not in (None, name) else {}
    batch = request.path.endswith(f":{EMBED_BATCH}")
    if batch and any(inner.get("model") != name for inner in camel["requests"]):
        changed["requests"] = [{**inner, "model": name} for inner in camel["requests"]]
    method = EMBED_BATCH if batch else EMBED
    if camel is body:
        return _outgoing(call, method, body=patch_json(request.raw, changed, request.body) if changed else request.raw)
    return _outgoing(call, method, json={**camel, **changed})


def _with_model(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The members of a body that name the model, with the upstream's name in them."""
    changed: dict[str, Any] = {}
    if body.get("model") not in (None, name):
        changed["model"] = name
    inner = body.get("generateContentRequest")
    if isinstance(inner, Mapping) and inner.get("model") != name:  # the vendor demands it there
        changed["generateContentRequest"] = {**inner, "model": name}
    return changed


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    match request:
        case SpeechRequest():
            return _speech(call, request, incoming)
        case CountTokensRequest() | EmbeddingRequest() | ImageRequest() | VideoRequest() | VideoPoll():
            return _alone(call, request, incoming)
    return _events(call, request, incoming)


async def _alone(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Answers that are one event."""
    match request:
        case CountTokensRequest():
            yield await _count(call, incoming)
        case EmbeddingRequest(inputs=inputs):
            yield await gemini_embeddings.parse_embeddings(await incoming.read(), len(inputs))
        case ImageRequest():
            parse = parse_predictions if is_imagen(call.target.upstream_model) else parse_image_response
            yield await parse(await incoming.read_json())
        case VideoRequest() | VideoPoll():
            lost = videos.is_lost(request, incoming)
            yield VideoOperation(status="lost") if lost else parse_operation(await incoming.read_json())


async def _speech(call: Call, request: SpeechRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Sound in chunks as they come, or from a whole answer."""
    kind = incoming.media_type
    whole = not request.stream or kind == "application/json"
    if kind == "text/event-stream" or not whole:
        whole, bodies = False, sse.json_frames(incoming.chunks)
    else:
        bodies = one(await incoming.read_json())
    async for event in speech_events(bodies, wav=request.format != "pcm", whole=whole):
        yield event


def _events(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """What the upstream says it sends counts for more than what it was asked for."""
    streams = isinstance(request, ChatRequest) and request.stream
    if incoming.is_event_stream(otherwise=streams):
        return parse_stream(sse.json_frames(incoming.chunks))
    if streams:
        return parse_stream(json_elements(incoming.chunks))
    return _whole(call, request, incoming)


async def _whole(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    audio = request.audio if isinstance(request, ChatRequest) else None
    result = parse_response(await incoming.read_json(), wav=(audio or {}).get("format") == "wav")
    for event in replay(result):
        yield event


async def _count(call: Call, incoming: UpstreamResponse) -> TokenCount:
    body = await incoming.read_json()
    failure: GateError | None = error_of(body)
    if failure is not None:
        raise failure
    counted = camelised(body) if isinstance(body, dict) else {}
    total = counted.get("totalTokens")
    if isinstance(total, bool) or not isinstance(total, int):
        raise UpstreamError(f"The provider '{call.target.provider}' sent a count that holds no totalTokens.")
    return TokenCount(
        input_tokens=total, extra={name: value for name, value in counted.items() if name != "totalTokens"}
    )
