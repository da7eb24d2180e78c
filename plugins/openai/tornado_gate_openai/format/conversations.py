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
from tornado_gate.wire.prompt_prefix import make_prefix_reader
from tornado_gate_openai.fields import chat_answers, response_answers, route_members
from tornado_gate_openai.fields.chat import check_chat, list_chat_references
from tornado_gate_openai.fields.completions import check_completion
from tornado_gate_openai.fields.responses import check_response
from tornado_gate_openai.format.compaction import (
    CompactionState,
    check_compaction,
    make_compaction_reply,
    parse_compaction_request,
)
from tornado_gate_openai.format.completions import (
    CompletionState,
    make_completion_reply,
    parse_completion_request,
)
from tornado_gate_openai.format.paths import find_keep_alive
from tornado_gate_openai.format.references import list_response_references
from tornado_gate_openai.format.replies import make_chat_reply
from tornado_gate_openai.format.responses import (
    ResponseState,
    check_contract_values,
    make_response_reply,
    parse_response_request,
)
from tornado_gate_openai.format.stored.storing import apply_chat_rules
from tornado_gate_openai.format.stream_adapters import (
    ADAPTERS,
    AUDIO_ADAPTER,
    IMAGE_ADAPTER,
    forward_compaction,
    forward_response_request,
)
from tornado_gate_openai.format.verbatim import forward_metered
from tornado_gate_openai.wire import chat, completions, formats, responses


def _open_response_socket(call: Call, keep_bytes: KeepBytes) -> MessageAdapter:
    from tornado_gate_openai.format.response_socket import open_socket

    return open_socket(call, keep_bytes)


ROUTES: Final = (
    Route(
        "POST",
        "/v1/chat/completions",
        "chat",
        wire_format=chat.WIRE_FORMAT,
        references=list_chat_references,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader("tools", "functions", conversation="messages"),
        texts=chat_answers.CHAT,
        **route_members.CHAT,
    ),
    Route(
        "POST",
        "/v1/completions",
        "chat",
        wire_format=completions.WIRE_FORMAT,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader(conversation="prompt"),
        texts=chat_answers.COMPLETIONS,
        **route_members.COMPLETIONS,
    ),
    Route(
        "POST",
        "/v1/responses",
        "chat",
        wire_format=responses.WIRE_FORMAT,
        references=list_response_references,
        messages=_open_response_socket,
        keep_alive=find_keep_alive,
        prompt_prefix=make_prefix_reader("instructions", "tools", conversation="input"),
        texts=response_answers.RESPONSES,
        **route_members.RESPONSES,
    ),
    Route(
        "POST",
        "/v1/responses/compact",
        "chat",
        wire_format=formats.OPENAI_COMPACTIONS,
        references=list_response_references,
        texts=response_answers.COMPACTIONS,
        **route_members.RESPONSES,
    ),
)

_NO_CHANGES: Final[Mapping[str, Any]] = {}
_CHECK_OF_FORMAT: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    chat.WIRE_FORMAT: check_chat,
    completions.WIRE_FORMAT: check_completion,
    responses.WIRE_FORMAT: check_response,
    formats.OPENAI_COMPACTIONS: check_compaction,
}


_WITH_INPUT: Final = frozenset({responses.WIRE_FORMAT, formats.OPENAI_COMPACTIONS})
"""The formats whose conversation is ``input``."""


def parse(call: Call, wire: WireRequest) -> ChatRequest | Awaitable[Request]:
    """Parse the body into the common request. Raises InvalidField."""
    body = _fill_model(call, wire.json)
    _CHECK_OF_FORMAT[wire.route.wire_format](body)
    match wire.route.wire_format:
        case responses.WIRE_FORMAT:
            check_contract_values(call, body)
            return parse_response_request(call, body)
        case formats.OPENAI_COMPACTIONS:
            return parse_compaction_request(call, body)
        case completions.WIRE_FORMAT:
            return parse_completion_request(body)
        case _:
            if body.get("store") and apply_chat_rules(call, body):
                body = {name: value for name, value in body.items() if name != "store"}
            return chat.parse_request(body)


def reply(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    """Return the response to a request that `parse` returned."""
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
    """Check the body and return the request of the verbatim lane. Raises InvalidField.

    Unknown words and exceeded limits are left to the upstream, which has the caller's wire format.
    """
    wire_format, body = wire.route.wire_format, wire.json
    if body.get("model") is None:
        body = _fill_model(call, body)
    check_for_upstream(_CHECK_OF_FORMAT[wire_format], body)
    if wire_format in _WITH_INPUT:
        if wire_format == formats.OPENAI_COMPACTIONS:
            return forward_compaction(call, wire, body)
        check_contract_values(call, body)
        return forward_response_request(call, wire)
    changes = apply_chat_rules(call, body) if body.get("store") else _NO_CHANGES
    return forward_metered(wire, changes, IssuedObjects() if body.get("audio") else None)


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    """Return the upstream's response, forwarded by the route's passthrough adapter."""
    adapter = ADAPTERS[request.wire_format]
    if request.wire_format == chat.WIRE_FORMAT:
        if request.issued is not None:
            adapter = AUDIO_ADAPTER
        elif "modalities" in request.body:
            adapter = IMAGE_ADAPTER
    return passthrough.forward_answer(call, adapter, request, incoming)


def _fill_model(call: Call, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body; a missing `model` is filled with the default model in conf."""
    return {**body, "model": call.model} if call.model and body.get("model") is None else body
