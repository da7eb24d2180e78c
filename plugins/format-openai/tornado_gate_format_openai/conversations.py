"""The routes of the operation `chat`: chat completions, responses and text completions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from tornado_gate import passthrough
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import UnsupportedOperation
from tornado_gate.types import (
    Call,
    ChatRequest,
    IssuedObjects,
    KeepBytes,
    MessageAdapter,
    Reply,
    Request,
    Route,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.wire import formats, openai_chat, openai_completions, openai_responses, other_models
from tornado_gate.wire.prompt_prefix import make_prefix_reader
from tornado_gate.wire.text_maps import openai_chat as chat_texts
from tornado_gate.wire.text_maps import openai_responses as response_texts
from tornado_gate_format_openai.compaction import (
    CompactionState,
    check_compaction,
    make_compaction_reply,
    parse_compaction_request,
)
from tornado_gate_format_openai.completions import (
    CompletionState,
    check_completion,
    make_completion_reply,
    parse_completion_request,
)
from tornado_gate_format_openai.paths import find_keep_alive
from tornado_gate_format_openai.references import list_chat_references, list_response_references
from tornado_gate_format_openai.replies import make_chat_reply
from tornado_gate_format_openai.response_schemas import check_response
from tornado_gate_format_openai.responses import (
    ResponseState,
    check_contract_values,
    make_response_reply,
    parse_response_request,
)
from tornado_gate_format_openai.schemas import check_chat
from tornado_gate_format_openai.storing import apply_chat_rules
from tornado_gate_format_openai.stream_adapters import (
    ADAPTERS,
    AUDIO_ADAPTER,
    IMAGE_ADAPTER,
    forward_compaction,
    forward_response_request,
)
from tornado_gate_format_openai.verbatim import forward_metered


def _open_response_socket(call: Call, keep_bytes: KeepBytes) -> MessageAdapter:
    from tornado_gate_format_openai.response_socket import open_socket

    return open_socket(call, keep_bytes)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/chat/completions",
        "chat",
        wire_format=openai_chat.WIRE_FORMAT,
        references=list_chat_references,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader("tools", "functions", conversation="messages"),
        texts=chat_texts.CHAT,
        other_models=other_models.CHAT,
    ),
    Route(
        "POST",
        "/v1/completions",
        "chat",
        wire_format=openai_completions.WIRE_FORMAT,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader(conversation="prompt"),
        texts=chat_texts.COMPLETIONS,
        other_models=other_models.CHAT,
    ),
    Route(
        "POST",
        "/v1/responses",
        "chat",
        wire_format=openai_responses.WIRE_FORMAT,
        references=list_response_references,
        messages=_open_response_socket,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader("instructions", "tools", conversation="input"),
        texts=response_texts.RESPONSES,
        other_models=other_models.RESPONSES,
    ),
    Route(
        "POST",
        "/v1/responses/compact",
        "chat",
        wire_format=formats.OPENAI_COMPACTIONS,
        references=list_response_references,
        texts=response_texts.COMPACTIONS,
        other_models=other_models.RESPONSES,
    ),
)

_NO_CHANGES: Final[Mapping[str, Any]] = {}
_CHECK_OF_FORMAT: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    openai_chat.WIRE_FORMAT: check_chat,
    openai_completions.WIRE_FORMAT: check_completion,
    openai_responses.WIRE_FORMAT: check_response,
    formats.OPENAI_COMPACTIONS: check_compaction,
}


def parse(call: Call, wire: WireRequest) -> ChatRequest | Awaitable[Request]:
    """Parse the body into the common request. Raises InvalidField."""
    body = _check_body(call, wire)
    match wire.route.wire_format:
        case openai_responses.WIRE_FORMAT:
            return parse_response_request(call, body)
        case formats.OPENAI_COMPACTIONS:
            return parse_compaction_request(call, body)
        case openai_completions.WIRE_FORMAT:
            return parse_completion_request(body)
        case _:
            if body.get("store") and apply_chat_rules(call, body):
                body = {name: value for name, value in body.items() if name != "store"}
            return openai_chat.parse_request(body)


def reply(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the reply to a request that `parse` returned."""
    if not isinstance(request, ChatRequest):
        raise UnsupportedOperation(f"The OpenAI wire format does not support the operation '{call.operation}'.")
    match request.reply_state:
        case ResponseState() as state:
            return make_response_reply(call, request, state, events)
        case CompactionState() as state:
            return make_compaction_reply(call, request, state, events)
        case CompletionState() as state:
            return make_completion_reply(call, request, state, events)
    return make_chat_reply(call, request, events)


def forward(call: Call, wire: WireRequest) -> VerbatimRequest | Awaitable[VerbatimRequest]:
    """Check the body and return the request of the verbatim lane. Raises InvalidField."""
    body = _check_body(call, wire, for_upstream=True)
    if wire.route.wire_format == openai_responses.WIRE_FORMAT:
        return forward_response_request(call, wire)
    if wire.route.wire_format == formats.OPENAI_COMPACTIONS:
        return forward_compaction(call, wire, body)
    changes = apply_chat_rules(call, body) if body.get("store") else _NO_CHANGES
    return forward_metered(wire, changes, IssuedObjects() if body.get("audio") else None)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response, forwarded by the route's passthrough adapter."""
    adapter = ADAPTERS[request.wire_format]
    if request.issued is not None and request.wire_format == openai_chat.WIRE_FORMAT:
        adapter = AUDIO_ADAPTER
    elif "modalities" in request.body and request.wire_format == openai_chat.WIRE_FORMAT:
        adapter = IMAGE_ADAPTER
    return passthrough.forward_answer(call, adapter, request, incoming)


def _check_body(call: Call, wire: WireRequest, *, for_upstream: bool = False) -> Mapping[str, Any]:
    """Return the checked body; a missing `model` is filled with the default model in conf. Raises InvalidField.

    `for_upstream`: unknown words and exceeded limits are left to the upstream, which has the caller's wire format.
    """
    body = wire.json
    if call.model and body.get("model") is None:
        body = {**body, "model": call.model}
    check = _CHECK_OF_FORMAT[wire.route.wire_format]
    if for_upstream:
        check_for_upstream(check, body)
    else:
        check(body)
    if wire.route.wire_format == openai_responses.WIRE_FORMAT:
        check_contract_values(call, body)
    return body
