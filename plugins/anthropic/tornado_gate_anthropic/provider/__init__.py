"""Provider for chat and token counts at Anthropic and at upstreams with its Messages API.

The wire format is in `tornado_gate_anthropic.wire.messages`; this module has the URLs, the headers and the settings.

Source: anthropic-python 2.11, _client.py and resources/messages/messages.py (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.streams.events import convert_whole, replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    ChatResult,
    CountTokensRequest,
    Link,
    Request,
    StreamEvent,
    TokenCount,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
)
from tornado_gate.types.value import replace
from tornado_gate.types.vendors import ListedModel, Vendor
from tornado_gate.types.wire import require_object
from tornado_gate.wire.fitting import fit_request
from tornado_gate.wire.inline_links import has_link, inline_links
from tornado_gate.wire.model_lists import fetch_models
from tornado_gate.wire.tool_names import fit_tools, restore_tools
from tornado_gate_anthropic.provider.address import COUNT_PATH, DEFAULT_BASE_URL, MESSAGES_PATH, MODELS_PATH
from tornado_gate_anthropic.provider.foreign_citations import remove_foreign_citations
from tornado_gate_anthropic.provider.foreign_thinking import remove_foreign_thinking
from tornado_gate_anthropic.provider.settings import THREADS_BETA, AnthropicSettings, read_settings
from tornado_gate_anthropic.wire.json_mode import keep_json, wants_json
from tornado_gate_anthropic.wire.messages import (
    BETA_HEADER,
    BINDING_BETA,
    WIRE_FORMAT,
    choose_max_tokens,
    find_error,
    parse_response,
    parse_stream,
    render_request,
    threads_unsupported_error,
)
from tornado_gate_anthropic.wire.messages.version import VERSION_HEADER

_PATH_OF_OPERATION: Final = {"chat": MESSAGES_PATH, "count_tokens": COUNT_PATH}
_COUNT_MEMBERS: Final = (
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "cache_control",
)
"""The fields that a token count request may have."""


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, settings = read_settings(entry)
    return Capabilities(
        operations=frozenset(_PATH_OF_OPERATION),
        speaks=frozenset({WIRE_FORMAT}),
        base_url=base_url,
        settings=settings,
        signatures=True,
        model_table=settings.model_table,
    )


@provider_impl
def list_vendors() -> list[Vendor]:
    return [Vendor(name="anthropic", title="Anthropic", base_url=DEFAULT_BASE_URL)]


@provider_impl
async def list_models(call: Call) -> list[ListedModel]:
    """List the models. Source: anthropic-python 2.11, types/model_info.py and types/model_list_params.py (at most 1000)."""
    headers = _build_headers(call, call.target.settings)
    return await fetch_models(
        call, f"{MODELS_PATH}?limit=1000", headers, members=("data",), contexts=("max_input_tokens",)
    )


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    chat = request.chat if isinstance(request, CountTokensRequest) else request
    if isinstance(chat, ChatRequest) and chat.wire_format != WIRE_FORMAT and has_link(chat, _is_insecure):
        return _translate_with_files(call, request, chat)  # type: ignore[return-value]  # the core awaits it
    return _translate_request(call, request)


async def _translate_with_files(call: Call, request: Request, chat: ChatRequest) -> UpstreamRequest:
    """Translate like `_translate_request`, with the files at addresses that the vendor rejects in the request itself."""
    whole = await inline_links(call, chat, _is_insecure)
    return _translate_request(call, replace(request, chat=whole) if isinstance(request, CountTokensRequest) else whole)


def _is_insecure(link: Link) -> bool:
    """The vendor opens https addresses only: platform.claude.com/docs/en/api/messages (read 2026-11-22)."""
    return link.url[:7].lower() == "http://"


def _translate_request(call: Call, request: Request) -> UpstreamRequest:
    settings: AnthropicSettings = call.target.settings
    base = call.target.base_url
    match request:
        case VerbatimRequest(operation=operation) if (
            request.wire_format == WIRE_FORMAT and operation in _PATH_OF_OPERATION
        ):
            headers = _build_headers(call, settings, _select_caller_headers(call, settings))
            if request.body.get("thread") is not None and not _may_use_threads(settings, headers):
                raise threads_unsupported_error()
            body = _patch_body(call, settings, request)
            return UpstreamRequest(url=base + _PATH_OF_OPERATION[operation], headers=headers, body=body)
        case ChatRequest():
            headers, request = _take_betas(call, settings, request)
            json = _render_body(call, settings, request, auto_cache=settings.prompt_cache == "auto")
            return UpstreamRequest(url=base + MESSAGES_PATH, headers=_add_betas(headers, json), json=json)
        case CountTokensRequest(chat=chat):
            headers, chat = _take_betas(call, settings, chat)
            json = _render_body(call, settings, chat)
            json = {name: json[name] for name in _COUNT_MEMBERS if name in json}
            return UpstreamRequest(url=base + COUNT_PATH, headers=_add_betas(headers, json), json=json)
    raise UnsupportedOperation(f"The model '{call.model}' supports only chat and token counts.")


def _may_use_threads(settings: AnthropicSettings, headers: Mapping[str, str]) -> bool:
    return settings.allows_threads and THREADS_BETA in headers.get(BETA_HEADER, "")


def _render_body(
    call: Call, settings: AnthropicSettings, chat: ChatRequest, *, auto_cache: bool = False
) -> dict[str, Any]:
    abilities = settings.model_table.find_features(call.target.upstream_model)
    if chat.wire_format != WIRE_FORMAT:
        json_mode = {"response_format": chat.response_format} if wants_json(chat) else {}
        chat = replace(chat, response_format=None) if json_mode else chat  # the instruction suits every model
        chat = replace(fit_request(call, fit_tools(call, chat, abilities), abilities), **json_mode)
    return render_request(
        call, chat, abilities=abilities, default_max_tokens=settings.default_max_tokens, auto_cache=auto_cache
    )


def _patch_body(call: Call, settings: AnthropicSettings, request: VerbatimRequest) -> bytes:
    """The verbatim body with the upstream's model name, and with ``max_tokens``, which the vendor requires.

    It has no blocks that only the vendor can make and another model made.
    """
    changed = remove_foreign_thinking(call, request)
    remove_foreign_citations(call, request, changed)
    if request.body.get("model") != call.target.upstream_model:
        changed["model"] = call.target.upstream_model
    if request.operation == "chat" and request.body.get("max_tokens") is None:
        abilities = settings.model_table.find_features(call.target.upstream_model)
        effort = (request.body.get("output_config") or {}).get("effort")
        changed["max_tokens"] = choose_max_tokens(
            call, request.body.get("thinking"), effort, abilities, settings.default_max_tokens
        )
    return patch_json(request.raw, changed, request.body) if changed else request.raw


def _build_headers(
    call: Call, settings: AnthropicSettings, callers: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """The request headers, in lower case, so that configured headers replace default ones in any spelling."""
    headers = {"content-type": "application/json", VERSION_HEADER: settings.version}
    if call.target.api_key and settings.auth == "bearer":
        headers["authorization"] = f"Bearer {call.target.api_key}"
    elif call.target.api_key:
        headers["x-api-key"] = call.target.api_key
    entrys = {name.lower(): str(value) for name, value in call.target.headers.items()}
    return {**headers, **(callers or {}), **entrys}


def _select_caller_headers(call: Call, settings: AnthropicSettings) -> Mapping[str, str]:
    """The caller's API version, and its betas that the configuration allows."""
    headers: dict[str, str] = {}
    if version := call.headers.get(VERSION_HEADER, "").strip():
        headers[VERSION_HEADER] = version
    return headers | _select_betas(call, settings, call.headers.get(BETA_HEADER, ""))


def _take_betas(call: Call, settings: AnthropicSettings, chat: ChatRequest) -> tuple[Mapping[str, str], ChatRequest]:
    """The request headers of a chat, with the betas of a caller of this format, and the chat without them."""
    if BETA_HEADER not in chat.extra or chat.wire_format != WIRE_FORMAT:
        return _build_headers(call, settings), chat
    rest = {name: value for name, value in chat.extra.items() if name != BETA_HEADER}
    betas = _select_betas(call, settings, str(chat.extra[BETA_HEADER]))
    return _build_headers(call, settings, betas), replace(chat, extra=rest)


def _add_betas(headers: Mapping[str, str], body: Mapping[str, Any]) -> Mapping[str, str]:
    """`headers` with the beta that a member of the translated body needs."""
    betas = headers.get(BETA_HEADER, "")
    if "block_binding" not in (body.get("thinking") or {}) or BINDING_BETA in betas:
        return headers
    return {**headers, BETA_HEADER: f"{betas},{BINDING_BETA}" if betas else BINDING_BETA}


def _select_betas(call: Call, settings: AnthropicSettings, value: str) -> dict[str, str]:
    """The header with the allowed betas of `value`, which stays unchanged if all are allowed. Others are reported as dropped.

    A beta that cannot be sent as an HTTP header is not allowed.
    """
    betas = [beta.strip() for beta in value.split(",") if beta.strip()]
    allowed = [beta for beta in betas if beta.isascii() and beta.isprintable() and settings.allows(beta)]
    if len(allowed) < len(betas):
        call.drop_field(BETA_HEADER)
        value = ",".join(allowed)
    return {BETA_HEADER: value} if allowed else {}


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    if isinstance(request, CountTokensRequest):
        return convert_whole(incoming, partial(_parse_count, call)) or _read_count(call, incoming)
    if not isinstance(request, ChatRequest):
        return _read_whole(incoming)
    if incoming.is_event_stream(otherwise=request.stream):
        events = parse_stream(sse.read_json_frames(incoming.chunks, incoming.provider))
    else:
        events = convert_whole(incoming, partial(_convert, incoming.provider)) or _read_whole(incoming)
    if request.wire_format == WIRE_FORMAT:
        return events
    if wants_json(request):
        events = keep_json(events)
    settings: AnthropicSettings = call.target.settings
    return restore_tools(events, request, settings.model_table.find_features(call.target.upstream_model))


def _convert(provider: str, body: Any) -> ChatResult:
    return parse_response(require_object(body, provider))


async def _read_count(call: Call, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    yield _parse_count(call, await incoming.read_object())


async def _read_whole(incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    for event in replay(await incoming.read_converted(partial(_convert, incoming.provider))):
        yield event


def _parse_count(call: Call, body: Any) -> TokenCount:
    if (error := find_error(body)) is not None:
        raise error
    tokens = body.get("input_tokens")
    if not isinstance(tokens, int):
        raise UpstreamError(
            f"The provider '{call.target.provider}' sent a token count without 'input_tokens'.",
            advice="Check its base_url.",
        )
    return TokenCount(input_tokens=tokens, extra={name: body[name] for name in body if name != "input_tokens"})
