"""Provider for the Gemini API: chat, interactions, token counts, embeddings, images, speech and videos.

The wire formats are in `tornado_gate_gemini.wire`; this module has the URLs and the differences between models.

Source: https://ai.google.dev/api/generate-content, and google-genai 3.4, models.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse
from tornado_gate.errors import GateError, UnsupportedOperation, UpstreamError
from tornado_gate.streams.events import convert_whole, replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    CountTokensRequest,
    EmbeddingRequest,
    ImageRequest,
    Link,
    Request,
    SpeechRequest,
    StoredObjectRequest,
    StreamEvent,
    TokenCount,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    VideoCancel,
    VideoDownload,
    VideoOperation,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.value import replace
from tornado_gate.types.vendors import ListedModel, Vendor
from tornado_gate.wire.fitting import find_dropped, fit_request
from tornado_gate.wire.model_lists import fetch_models
from tornado_gate.wire.server_tools import may_cite
from tornado_gate.wire.tool_names import fit_tools, restore_tools
from tornado_gate_gemini.provider import interactions, videos
from tornado_gate_gemini.provider.address import DEFAULT_BASE_URL, MODELS_PATH, build_url, make_resource_name
from tornado_gate_gemini.provider.inline import inline_links
from tornado_gate_gemini.provider.media import EMBED_BATCH_METHOD, EMBED_METHOD, build_request, iterate_once
from tornado_gate_gemini.provider.settings import OPERATIONS, GeminiSettings, read_settings
from tornado_gate_gemini.wire import embeddings, formats
from tornado_gate_gemini.wire.generate import (
    WIRE_FORMAT,
    GeminiModelFeatures,
    convert_to_camel_case,
    find_error,
    guess_media_type,
    iterate_elements,
    may_have_snake_names,
    parse_image_response,
    parse_response,
    parse_speech_events,
    parse_stream,
    render_count,
    render_request,
    sign_calls,
)
from tornado_gate_gemini.wire.images import parse_predictions
from tornado_gate_gemini.wire.videos import parse_operation

_WHOLE_METHOD: Final = "generateContent"
_STREAM_METHOD: Final = "streamGenerateContent"
_SSE_QUERY: Final = "alt=sse"
_COUNT_METHOD: Final = "countTokens"


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read_settings(entry)
    return Capabilities(
        operations=OPERATIONS,
        models=facts.list_operations(),
        inputs_at_once=embeddings.MAX_BATCH_SIZE,
        speaks=frozenset({WIRE_FORMAT, embeddings.WIRE_FORMAT, formats.GEMINI_INTERACTIONS}),
        base_url=base_url,
        settings=facts,
        signatures=True,
        model_table=facts.model_table,
    )


@provider_impl
def list_vendors() -> list[Vendor]:
    return [Vendor(name="gemini", title="Google Gemini", base_url=DEFAULT_BASE_URL)]


@provider_impl
async def list_models(call: Call) -> list[ListedModel]:
    """List the models. Source: ai.google.dev/api/models (at most 1000); google-genai 3.4, types.py, Model."""
    models = await fetch_models(
        call,
        f"{MODELS_PATH}?pageSize=1000",
        _build_headers(call),
        members=("models",),
        name="name",
        contexts=("inputTokenLimit",),
    )
    return [replace(model, name=model.name.removeprefix("models/")) for model in models]


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest | Coroutine[Any, Any, UpstreamRequest]:
    if call.worker is None and isinstance(request, VerbatimRequest) and request.wire_format == WIRE_FORMAT:
        return _build_forwarded_request(call, request)  # without a coroutine, because nothing waits
    return _translate_request(call, request)


async def _translate_request(call: Call, request: Request) -> UpstreamRequest:
    facts: GeminiSettings = call.target.settings
    model = call.target.upstream_model
    dialect = facts.model_table.find_features(model)
    match request:
        case VerbatimRequest(operation="chat" | "count_tokens") if request.wire_format == WIRE_FORMAT:
            return await call.run(_build_forwarded_request, call, request)
        case VerbatimRequest() | StoredObjectRequest() if request.wire_format == formats.GEMINI_INTERACTIONS:
            return interactions.build_request(call, request, _build_headers(call))
        case VerbatimRequest(operation="embeddings") if request.wire_format == embeddings.WIRE_FORMAT:
            return await call.run(_build_forwarded_embedding, call, request)
        case ChatRequest():
            method = f"{_STREAM_METHOD}?{_SSE_QUERY}" if request.stream else _WHOLE_METHOD
            whole = await inline_links(call, await call.run(_fit_chat, call, request, dialect), _lacks_media_type)
            body = await call.run(partial(render_request, call, whole, dialect=dialect))
            return _build_upstream_request(call, method, json=body)
        case CountTokensRequest(chat=chat):
            fitted = chat if chat.wire_format == WIRE_FORMAT else await call.run(fit_tools, call, chat, dialect)
            whole = await inline_links(call, fitted, _lacks_media_type)
            name = make_resource_name(model)
            body = await call.run(partial(render_count, call, whole, model=name, dialect=dialect))
            return _build_upstream_request(call, _COUNT_METHOD, json=body)
        case EmbeddingRequest() | ImageRequest() | SpeechRequest():
            method, body = await build_request(call, request, dialect)
            return _build_upstream_request(call, method, json=body)
        case VideoRequest() | VideoPoll() | VideoDownload() | VideoCancel():
            return await videos.build_request(call, request, _build_headers(call))
    raise UnsupportedOperation(
        f"The model '{call.model}' does not support this operation. GET /v1beta/models lists what it supports."
    )


def _fit_chat(call: Call, request: ChatRequest, dialect: GeminiModelFeatures) -> ChatRequest:
    if request.wire_format == WIRE_FORMAT:
        return request
    if not dialect.logprobs and (request.logprobs is not None or request.top_logprobs is not None):
        request = replace(request, **find_dropped(call, request, ("logprobs", "top_logprobs")))
    return fit_request(call, fit_tools(call, request, dialect), dialect)


def _lacks_media_type(link: Link) -> bool:
    """The vendor opens public URLs itself, but only with a media type."""
    return not (link.media_type or guess_media_type(link.url))


def _build_upstream_request(call: Call, method: str, **content: Any) -> UpstreamRequest:
    target = call.target
    return UpstreamRequest(
        url=build_url(target.base_url, target.upstream_model, method), headers=_build_headers(call), **content
    )


def _build_headers(call: Call) -> Mapping[str, str]:
    """The request headers, in lower case, so that configured headers replace default ones in any spelling."""
    headers = {"content-type": "application/json"}
    if call.target.api_key:
        headers["x-goog-api-key"] = call.target.api_key
    return headers | {name.lower(): str(value) for name, value in call.target.headers.items()}


def _build_forwarded_request(call: Call, request: VerbatimRequest) -> UpstreamRequest:
    """The verbatim body. A body in snake_case or with a model name is changed: upstreams require camelCase and their own name.

    A call without a signature, such as a call of another vendor's model, gets the dummy signature where the model requires it.
    """
    method = _COUNT_METHOD if request.operation == "count_tokens" else _WHOLE_METHOD
    if request.stream:
        method = f"{_STREAM_METHOD}?{_SSE_QUERY}" if request.path.endswith(f"?{_SSE_QUERY}") else _STREAM_METHOD
    body = dict(request.body)
    camel = convert_to_camel_case(body) if may_have_snake_names(request.raw) else body
    changed = _replace_model(camel, make_resource_name(call.target.upstream_model))
    facts: GeminiSettings = call.target.settings
    if b"function" in request.raw and facts.model_table.find_features(call.target.upstream_model).signature_dummy:
        signed = sign_calls(camel.get("contents"))
        changed |= {} if signed is None else {"contents": signed}
    if camel is body:
        return _build_upstream_request(
            call, method, body=patch_json(request.raw, changed, request.body) if changed else request.raw
        )
    return _build_upstream_request(call, method, json={**camel, **changed})


def _build_forwarded_embedding(call: Call, request: VerbatimRequest) -> UpstreamRequest:
    """The verbatim body with the upstream's model name, which the vendor requires in each request of a batch."""
    name = make_resource_name(call.target.upstream_model)
    body = dict(request.body)
    camel = convert_to_camel_case(body)
    changed: dict[str, Any] = {"model": name} if camel.get("model") not in (None, name) else {}
    batch = request.path.endswith(f":{EMBED_BATCH_METHOD}")
    if batch and any(inner.get("model") != name for inner in camel["requests"]):
        changed["requests"] = [{**inner, "model": name} for inner in camel["requests"]]
    method = EMBED_BATCH_METHOD if batch else EMBED_METHOD
    if camel is body:
        return _build_upstream_request(
            call, method, body=patch_json(request.raw, changed, request.body) if changed else request.raw
        )
    return _build_upstream_request(call, method, json={**camel, **changed})


def _replace_model(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The members of a body that contain the model name, with the upstream's name."""
    changed: dict[str, Any] = {}
    if body.get("model") not in (None, name):
        changed["model"] = name
    inner = body.get("generateContentRequest")
    if isinstance(inner, Mapping) and inner.get("model") != name:  # required there by the vendor
        changed["generateContentRequest"] = {**inner, "model": name}
    return changed


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    match request:
        case SpeechRequest():
            return _parse_speech(call, request, incoming)
        case CountTokensRequest() | EmbeddingRequest() | ImageRequest() | VideoRequest() | VideoPoll():
            return _parse_single(call, request, incoming)
    events = _parse_events(request, incoming)
    if not isinstance(request, ChatRequest) or request.wire_format == WIRE_FORMAT:
        return events
    facts: GeminiSettings = call.target.settings
    return restore_tools(events, request, facts.model_table.find_features(call.target.upstream_model))


async def _parse_single(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Responses that become one event."""
    match request:
        case CountTokensRequest():
            yield await _parse_count(call, incoming)
        case EmbeddingRequest(inputs=inputs):
            yield await embeddings.parse_embeddings(await incoming.read(), len(inputs))
        case ImageRequest():
            facts: GeminiSettings = call.target.settings
            predict = facts.model_table.find_features(call.target.upstream_model).predict
            parse = parse_predictions if predict else parse_image_response
            yield await parse(await incoming.read_json())
        case VideoRequest() | VideoPoll():
            lost = videos.is_lost(request, incoming)
            yield VideoOperation(status="lost") if lost else parse_operation(await incoming.read_json())


async def _parse_speech(call: Call, request: SpeechRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """Audio in chunks as they arrive, or from a whole response."""
    kind = incoming.media_type
    whole = not request.stream or kind == "application/json"
    if kind == "text/event-stream" or not whole:
        whole, bodies = False, sse.read_json_frames(incoming.chunks, incoming.provider)
    else:
        bodies = iterate_once(await incoming.read_json())
    async for event in parse_speech_events(bodies, wav=request.format != "pcm", whole=whole):
        yield event


def _parse_events(request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    """The response's content type decides between stream and whole response, not the request."""
    streams = isinstance(request, ChatRequest) and request.stream
    cites = isinstance(request, ChatRequest) and may_cite(request)
    if incoming.is_event_stream(otherwise=streams):
        return parse_stream(sse.read_json_frames(incoming.chunks, incoming.provider), cites=cites)
    if streams:
        return parse_stream(iterate_elements(incoming.chunks), cites=cites)
    return _parse_whole(request, incoming)


def _parse_whole(request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    audio = request.audio if isinstance(request, ChatRequest) else None
    convert = partial(parse_response, wav=(audio or {}).get("format") == "wav")
    return convert_whole(incoming, convert) or _read_whole(incoming, convert)


async def _read_whole(incoming: UpstreamResponse, convert: Callable[[Any], ChatResult]) -> AsyncIterator[StreamEvent]:
    for event in replay(await incoming.read_converted(convert)):
        yield event


async def _parse_count(call: Call, incoming: UpstreamResponse) -> TokenCount:
    body = await incoming.read_json()
    failure: GateError | None = find_error(body)
    if failure is not None:
        raise failure
    counted = convert_to_camel_case(body) if isinstance(body, dict) else {}
    total = counted.get("totalTokens")
    if isinstance(total, bool) or not isinstance(total, int):
        raise UpstreamError(
            f"The provider '{call.target.provider}' sent a token count without 'totalTokens'.",
            advice="Check its base_url.",
        )
    return TokenCount(
        input_tokens=total, extra={name: value for name, value in counted.items() if name != "totalTokens"}
    )
