"""Provider for OpenAI and compatible upstreams such as vLLM, Ollama, Groq and Mistral.

Chats are in this module, videos in `videos.py`, all other operations in `media.py`; both are imported at their first use. The
wire formats are in `tornado_gate_openai.wire`. The differences between upstreams are in `settings.py`, from the configuration
and `presets.yaml`. The differences between models are in `models.py`, from `models.yaml`.

Source: OpenAI's API reference, as in openai-python 3.52 (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from tornado_gate import Capabilities, ProviderEntry, lazy_import, patch_json, provider_impl, sse
from tornado_gate.codec.multipart import FormBody
from tornado_gate.errors import UnsupportedOperation
from tornado_gate.http import upstream
from tornado_gate.streams import batches
from tornado_gate.streams.events import convert_whole, replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    CountTokensRequest,
    MediaRequest,
    RealtimeRequest,
    Request,
    StoredObjectRequest,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    VideoCancel,
    VideoDownload,
    VideoPoll,
    VideoRequest,
)
from tornado_gate.types.vendors import ListedModel, Vendor
from tornado_gate.types.wire import require_object
from tornado_gate.wire.model_lists import fetch_models
from tornado_gate.wire.tool_names import restore_tools
from tornado_gate_openai.provider import cross_format
from tornado_gate_openai.provider.body import THINKING, apply_changes, compute_changes, drop_thinking
from tornado_gate_openai.provider.cache_key import CACHE_KEY, make_cache_key
from tornado_gate_openai.provider.endpoints import CHAT, ENDPOINT_OF_FORMAT, INPUT_TOKENS, RESPONSES, Endpoint
from tornado_gate_openai.provider.features import Api
from tornado_gate_openai.provider.models import FORMAT_OF_API, drop_chat_members, drop_tool_members, fit_chat
from tornado_gate_openai.provider.schemas import remove_added_nulls, unwrap_answers
from tornado_gate_openai.provider.settings import OpenAISettings, list_presets, read_settings
from tornado_gate_openai.wire import chat, formats

if TYPE_CHECKING:
    from tornado_gate_openai.provider.videos import AnyVideo

_FIELD_OF_MEMBER: Final = {
    **chat.FIELD_OF_MEMBER,
    "max_output_tokens": "max_tokens",
    "input": "messages",
    "text": "response_format",
}
"""By wire field: the common field, where the names differ."""

lazy_import(__name__, "counts", "media", "realtime", "videos")
lazy_import("tornado_gate_openai.wire", "responses")

_THINKING_MARK: Final = THINKING.encode()
_MADE_HERE: Final = b'_gate"'
"""In the bodies with items of the gateway's about server tools."""

_CONTEXTS: Final = ("context_length", "context_window", "max_context_length", "max_model_len")
_PATH_OF_API: Final = {"chat": CHAT, "responses": RESPONSES}
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "pcm16": "audio/pcm"}


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, facts = read_settings(entry)
    return Capabilities(
        operations=facts.operations,
        models=facts.operations_of_models,
        inputs_at_once=facts.inputs_at_once,
        speaks=_list_wire_formats(facts),
        base_url=base_url,
        settings=facts,
        model_table=facts.model_table,
        signatures=facts.responses or bool(facts.unsigned_thinking),
        unsigned_thinking=facts.unsigned_thinking,
        sends_only_with_context=True,
    )


def _list_wire_formats(facts: OpenAISettings) -> frozenset[str]:
    """The formats with verbatim requests. With ``api: responses``, chat is not one of them, because chats are translated."""
    missing = {
        formats.OPENAI_CHAT: facts.api == "responses",
        formats.OPENAI_COMPLETIONS: not facts.completions,
        formats.OPENAI_RESPONSES: not facts.responses,
        formats.OPENAI_COMPACTIONS: not facts.compact,
    }
    return frozenset(
        wire_format
        for wire_format, endpoint in ENDPOINT_OF_FORMAT.items()
        if endpoint.operation in facts.operations and not missing.get(wire_format, False)
    )


@provider_impl
def list_vendors() -> list[Vendor]:
    return list_presets()


@provider_impl
async def list_models(call: Call) -> list[ListedModel]:
    """List the models. Source: openai-python 3.52, resources/models.py; Together returns the list itself (docs.together.ai).

    Contexts: openrouter.ai/docs/api/api-reference/models (context_length), console.groq.com/docs/models (context_window),
    docs.mistral.ai/api (max_context_length), vLLM's ModelCard (max_model_len).
    """
    facts: OpenAISettings = call.target.settings
    headers = facts.get_headers(call.target)
    return await fetch_models(call, "/models", headers, members=("data",), contexts=_CONTEXTS)


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest | Coroutine[Any, Any, UpstreamRequest]:
    facts: OpenAISettings = call.target.settings
    if isinstance(request, VerbatimRequest):
        endpoint = ENDPOINT_OF_FORMAT.get(request.wire_format)
        if endpoint is not None and endpoint.operation == request.operation:
            return _build_forwarded_request(call, facts, request, endpoint)
    match request:
        case StoredObjectRequest() if request.wire_format == formats.OPENAI_RESPONSES and facts.responses:
            return _build_stored_response_request(call, facts, request)
        case ChatRequest():
            api = facts.choose_api(call.target.upstream_model, request)
            body = _render_body(call, facts, request, api)
            changed = compute_changes(
                facts, body, lambda name: call.drop_field(request.field_name(_FIELD_OF_MEMBER.get(name, name)))
            )
            return _build_upstream_request(call, facts, _PATH_OF_API[api], apply_changes(changed, body))
        case CountTokensRequest() if facts.input_tokens:
            from tornado_gate_openai.provider import counts

            return _build_upstream_request(call, facts, INPUT_TOKENS, counts.render_body(call, facts, request.chat))
        case VideoRequest() | VideoPoll() | VideoDownload() | VideoCancel():
            return _build_video_request(call, facts, request)
        case RealtimeRequest():
            from tornado_gate_openai.provider import realtime

            return realtime.build_connection_request(call, facts.get_headers(call.target), facts.realtime_dialect)
        case MediaRequest():
            return _build_media_request(call, facts, request)
    raise UnsupportedOperation(
        f"The model '{call.model}' does not support this operation. Use a model that supports it."
    )


def _build_stored_response_request(call: Call, facts: OpenAISettings, request: StoredObjectRequest) -> UpstreamRequest:
    path = f"{RESPONSES}/{quote(request.reference.id, safe='')}" + (f"/{request.action}" if request.action else "")
    query = f"?{urlencode(request.query)}" if request.query else ""
    headers = {name: value for name, value in facts.get_headers(call.target).items() if name != "content-type"}
    return UpstreamRequest(method=request.method, url=call.target.base_url + path + query, headers=headers)


async def _build_media_request(call: Call, facts: OpenAISettings, request: MediaRequest) -> UpstreamRequest:
    from tornado_gate_openai.provider import media

    path, body = await media.build_request(call, facts, request)
    return _build_upstream_request(call, facts, path, body)


async def _build_video_request(call: Call, facts: OpenAISettings, request: AnyVideo) -> UpstreamRequest:
    from tornado_gate_openai.provider import videos

    upstream_request = await videos.build_request(call, facts, request)
    if upstream_request.body is not None:
        return _build_upstream_request(call, facts, upstream_request.path, upstream_request.body)
    headers = {name: value for name, value in facts.get_headers(call.target).items() if name != "content-type"}
    url = call.target.base_url + upstream_request.path
    return UpstreamRequest(
        method=upstream_request.method,
        url=url,
        headers=headers,
        context=upstream_request.context,
        file_types=upstream_request.file_types,
    )


def _build_forwarded_request(
    call: Call, facts: OpenAISettings, request: VerbatimRequest, endpoint: Endpoint
) -> UpstreamRequest:
    paths, target = endpoint.paths, call.target
    path = paths[0] if len(paths) == 1 else endpoint.choose_path(request.path)
    if not request.form:
        raw = _patch_body(call, facts, request)
        return UpstreamRequest(
            url=target.base_url + path, headers=facts.sent.get_headers(target, facts.headers), body=raw
        )
    changed = compute_changes(facts, request.body, call.drop_field)
    files = [file for file in request.files if file.field.removesuffix("[]") not in facts.drop]
    for file in request.files:
        if file not in files:
            call.drop_field(file.field.removesuffix("[]"))
    fields = apply_changes({**changed, "model": target.upstream_model}, request.body)
    return _build_upstream_request(call, facts, path, FormBody(fields, files))


def _build_upstream_request(
    call: Call, facts: OpenAISettings, path: str, body: dict[str, Any] | FormBody
) -> UpstreamRequest:
    url, headers = call.target.base_url + path, facts.get_headers(call.target)
    if isinstance(body, dict):
        return UpstreamRequest(url=url, headers=headers, json=body)
    headers = {**headers, "content-type": body.content_type}  # includes the multipart boundary
    return UpstreamRequest(url=url, headers=headers, body=body)


def _render_body(call: Call, facts: OpenAISettings, request: ChatRequest, api: Api) -> dict[str, Any]:
    features = facts.model_table.find_features(call.target.upstream_model)
    request = fit_chat(call, request, features, api)
    if api == "responses":
        from tornado_gate_openai.wire.responses import INCLUDE_ENCRYPTED

        body = cross_format.render_response_body(call, request, features)
        body["store"] = False  # the gateway stores the turns
        reasons = request.reasoning is not None if features.efforts is None else bool(features.efforts)
        if reasons:  # needed to continue a turn; models without reasoning reject it
            body["include"] = sorted({*body.get("include", ()), INCLUDE_ENCRYPTED})
    else:
        body = cross_format.render_chat_body(call, request, features)
        if _must_refuse_storing(call, facts):
            body.setdefault("store", False)
        if request.wire_format != FORMAT_OF_API[api]:
            drop_chat_members(call, request, features, body)
        elif facts.rejects_thinking:
            body["messages"] = drop_thinking(body["messages"], call.drop_field) or body["messages"]
    drop_tool_members(call, request, body, api)
    if facts.prompt_cache == "auto" and request.wire_format != FORMAT_OF_API[api] and body.get(CACHE_KEY) is None:
        body[CACHE_KEY] = make_cache_key(call, request)
    return body


def _must_refuse_storing(call: Call, facts: OpenAISettings) -> bool:
    """Return whether a chat without ``store`` needs ``store: false``, because conf forbids the vendor's own default.

    The vendors with stored responses also store chats of new accounts by default. Source: OpenAI's guide "Migrate to the
    Responses API".
    """
    return call.responses.store != "default" and facts.responses


def _patch_body(call: Call, facts: OpenAISettings, request: VerbatimRequest) -> bytes:
    model, body, raw, wire_format = call.target.upstream_model, request.body, request.raw, request.wire_format
    if facts.forwards_chats and wire_format == formats.OPENAI_CHAT and body.get("model") == model:
        return raw
    changed = {} if facts.changes_nothing else compute_changes(facts, body, call.drop_field)
    if body.get("model") != model:
        changed["model"] = model
    if wire_format == formats.OPENAI_CHAT:
        if facts.responses and _must_refuse_storing(call, facts) and body.get("store") is None:
            changed["store"] = False
        if facts.rejects_thinking and _THINKING_MARK in raw:
            messages = drop_thinking(changed.get("messages", body.get("messages")), call.drop_field)
            changed |= {} if messages is None else {"messages": messages}
    elif wire_format == formats.OPENAI_RESPONSES and _MADE_HERE in raw:
        _drop_items_of_gateway(call, request, changed)
    return patch_json(raw, changed, body) if changed else raw


def _drop_items_of_gateway(call: Call, request: VerbatimRequest, changed: dict[str, Any]) -> None:
    """Set ``changed["input"]`` without the items about server tools of other vendors, and report them."""
    from tornado_gate_openai.wire.responses import is_made_here

    items = changed.get("input", request.body.get("input"))
    if not isinstance(items, list):
        return
    lost = [number for number, item in enumerate(items) if is_made_here(item)]
    for number in lost:
        call.drop_field(f"input.{number}")
    if lost:
        changed["input"] = [item for number, item in enumerate(items) if number not in lost]


@provider_impl
def call_upstream(call: Call, outgoing: UpstreamRequest) -> Coroutine[Any, Any, UpstreamResponse]:
    if outgoing.context is None:
        return upstream.call_upstream(call, outgoing)
    from tornado_gate_openai.provider import videos

    return videos.call_about_job(call, outgoing)


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    if isinstance(request, ChatRequest):
        return _translate_chat(call, request, incoming)
    if isinstance(request, VideoRequest | VideoPoll | VideoCancel):
        from tornado_gate_openai.provider import videos

        return videos.parse_events(call, request, incoming)
    if isinstance(request, MediaRequest):
        from tornado_gate_openai.provider import media

        return media.parse_events(call, request, incoming)
    if isinstance(request, CountTokensRequest):
        from tornado_gate_openai.provider import counts

        return counts.parse_events(call, incoming)
    raise TypeError(f"a response to {type(request).__name__} is not translated")


def _translate_chat(call: Call, request: ChatRequest, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    facts: OpenAISettings = call.target.settings
    model = call.target.upstream_model
    responses = facts.choose_api(model, request) == "responses"
    sound = _get_audio_type(request)
    if incoming.is_event_stream(otherwise=request.stream):
        events = _parse_stream(incoming, responses, sound)
    else:
        events = _parse_whole(call, incoming, responses, sound)
    features = facts.model_table.find_features(model)
    events = restore_tools(unwrap_answers(events, request, features), request, features)
    return remove_added_nulls(events, request, features)


def _parse_whole(call: Call, incoming: UpstreamResponse, responses: bool, sound: str) -> AsyncIterator[StreamEvent]:
    def convert(body: Any) -> ChatResult:
        return _parse_result(require_object(body, call.target.provider), responses, sound)

    async def read() -> Iterator[StreamEvent]:
        return replay(await incoming.read_converted(convert, call.target.provider))

    return convert_whole(incoming, convert) or batches.DeferredItems(read, incoming.chunks)


def _parse_stream(incoming: UpstreamResponse, responses: bool, sound: str) -> AsyncIterator[StreamEvent]:
    chunks, provider = incoming.chunks, incoming.provider
    if responses:
        from tornado_gate_openai.wire import responses as openai_responses

        return openai_responses.parse_stream(sse.read_json_frames(chunks, provider))
    return chat.parse_stream(sse.read_data(chunks, provider), audio_media_type=sound, provider=provider)


def _parse_result(body: dict[str, Any], responses: bool, sound: str) -> ChatResult:
    if responses:
        from tornado_gate_openai.wire import responses as openai_responses

        return openai_responses.parse_response(body)
    return chat.parse_response(body, audio_media_type=sound)


def _get_audio_type(request: ChatRequest) -> str:
    """The media type of the requested audio; the response does not contain it."""
    audio_format = (request.audio or {}).get("format")
    return _AUDIO_TYPES.get(audio_format, f"audio/{audio_format}") if isinstance(audio_format, str) else ""
