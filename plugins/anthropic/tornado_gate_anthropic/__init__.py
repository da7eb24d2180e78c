"""Chat at Anthropic and at every upstream that speaks its messages API.

The wire format itself is in `tornado_gate.wire.anthropic_messages`; here are the address, the headers and the settings.

Source: anthropic-python 2.11, _client.py and resources/messages/messages.py (2026-11).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from tornado_gate import Capabilities, ProviderEntry, patch_json, provider_impl, sse
from tornado_gate.errors import UnsupportedOperation, UpstreamError
from tornado_gate.streams.events import replay
from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    Request,
    StreamEvent,
    TokenCount,
    UpstreamRequest,
    UpstreamResponse,
    Verbatim,
)
from tornado_gate.wire.anthropic_messages import (
    WIRE_FORMAT,
    error_of,
    max_tokens_for,
    no_threads,
    parse_response,
    parse_stream,
    render_request,
)
from tornado_gate_anthropic.address import COUNT, MESSAGES
from tornado_gate_anthropic.settings import Settings, read

_ENDPOINTS: Final = {"chat": MESSAGES, "count_tokens": COUNT}
_COUNTED: Final = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")
"""The fields that a request for a token count may have."""

_VERSION: Final = "anthropic-version"
_BETA: Final = "anthropic-beta"
_THREADS: Final = "message-threads"  # the beginning of the beta that ``thread`` belongs to


@provider_impl
def configure(entry: ProviderEntry) -> Capabilities:
    base_url, settings = read(entry)
    return Capabilities(
        operations=frozenset(_ENDPOINTS),
        speaks=frozenset({WIRE_FORMAT}),
        base_url=base_url,
        settings=settings,
        signatures=True,
    )


@provider_impl
def translate_request(call: Call, request: Request) -> UpstreamRequest:
    settings: Settings = call.target.settings
    base = call.target.base_url
    match request:
        case Verbatim(operation=operation) if request.wire_format == WIRE_FORMAT and operation in _ENDPOINTS:
            headers = _headers(call, settings, _callers_headers(call, settings))
            if request.body.get("thread") is not None and _THREADS not in headers.get(_BETA, ""):
                raise no_threads()
            body = _patched(call, settings, request)
            return UpstreamRequest(url=base + _ENDPOINTS[operation], headers=headers, body=body)
        case ChatRequest():
            json = _rendered(call, settings, request)
            return UpstreamRequest(url=base + MESSAGES, headers=_headers(call, settings), json=json)
        case CountTokensRequest(chat=chat):
            json = _rendered(call, settings, chat)
            json = {name: json[name] for name in _COUNTED if name in json}
            return UpstreamRequest(url=base + COUNT, headers=_headers(call, settings), json=json)
    raise UnsupportedOperation(f"The model '{call.model}' can only chat and count tokens.")


def _rendered(call: Call, settings: Settings, chat: ChatRequest) -> dict[str, Any]:
    abilities = settings.abilities(call.target.upstream_model)
    return render_request(call, chat, abilities=abilities, default_max_tokens=settings.default_max_tokens)


def _patched(call: Call, settings: Settings, request: Verbatim) -> bytes:
    """The body as it came, under the upstream's name of the model and with the limit that the vendor demands."""
    changed: dict[str, Any] = {}
    if request.body.get("model") != call.target.upstream_model:
        changed["model"] = call.target.upstream_model
    if request.operation == "chat" and request.body.get("max_tokens") is None:
        changed["max_tokens"] = max_tokens_for(call, request.body.get("thinking"), settings.default_max_tokens)
    return patch_json(request.raw, changed, request.body) if changed else request.raw


def _headers(call: Call, settings: Settings, callers: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Names in lower case, so that the entry's own headers replace ours however conf spells them."""
    headers = {"content-type": "application/json", _VERSION: settings.version}
    if call.target.api_key and settings.auth == "bearer":
        headers["authorization"] = f"Bearer {call.target.api_key}"
    elif call.target.api_key:
        headers["x-api-key"] = call.target.api_key
    entrys = {name.lower(): str(value) for name, value in call.target.headers.items()}
    return {**headers, **(callers or {}), **entrys}


def _callers_headers(call: Call, settings: Settings) -> Mapping[str, str]:
    """The version that a caller of this format asks for, and those of its betas that conf allows."""
    headers: dict[str, str] = {}
    if version := call.headers.get(_VERSION, "").strip():
        headers[_VERSION] = version
    betas = [beta.strip() for beta in call.headers.get(_BETA, "").split(",") if beta.strip()]
    allowed = [beta for beta in betas if settings.allows(beta)]
    if len(allowed) < len(betas):
        call.lose(_BETA)
    return headers | ({_BETA: ",".join(allowed)} if allowed else {})


@provider_impl
def translate_response(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    streams = isinstance(request, ChatRequest) and request.stream
    if not isinstance(request, CountTokensRequest) and incoming.is_event_stream(otherwise=streams):
        return parse_stream(sse.json_frames(incoming.chunks))
    return _whole(call, request, incoming)


async def _whole(call: Call, request: Request, incoming: UpstreamResponse) -> AsyncIterator[StreamEvent]:
    body = await incoming.read_object()
    if isinstance(request, CountTokensRequest):
        yield _count(call, body)
        return
    for event in replay(parse_response(body)):
        yield event


def _count(call: Call, body: Mapping[str, Any]) -> TokenCount:
    if (error := error_of(body)) is not None:
        raise error
    tokens = body.get("input_tokens")
    if not isinstance(tokens, int):
        raise UpstreamError(f"The provider '{call.target.provider}' did not say how many tokens there are.")
    return TokenCount(input_tokens=tokens, extra={name: body[name] for name in body if name != "input_tokens"})
