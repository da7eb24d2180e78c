"""OpenAI's wire format for callers: chat completions, responses, text completions and the model list.

The hooks only; the wire formats are `tornado_gate.wire.openai_chat` and its siblings, the checks are in `schemas` and its.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from tornado_gate import format_impl
from tornado_gate.errors import GateError, UnsupportedOperation
from tornado_gate.types import (
    Call,
    ChatRequest,
    ModelsRequest,
    Reply,
    Request,
    Route,
    StreamEvent,
    UpstreamResponse,
    Verbatim,
    WireRequest,
)
from tornado_gate.wire import openai_chat, openai_completions, openai_responses
from tornado_gate_format_openai import stored
from tornado_gate_format_openai.completions import (
    AskedCompletion,
    check_completion,
    completion_reply,
    parse_completion_request,
)
from tornado_gate_format_openai.manners import MANNERS, forward_response_request
from tornado_gate_format_openai.replies import chat_reply, error_frame, models_reply
from tornado_gate_format_openai.response_schemas import check_response
from tornado_gate_format_openai.responses import AskedResponse, parse_response_request, response_reply
from tornado_gate_format_openai.schemas import check_chat
from tornado_gate_format_openai.verbatim import forward_answer, forward_metered

__all__ = [
    "forward_request",
    "forward_response",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]

_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], None]]] = {
    openai_chat.WIRE_FORMAT: check_chat,
    openai_completions.WIRE_FORMAT: check_completion,
    openai_responses.WIRE_FORMAT: check_response,
}


@format_impl
def routes() -> list[Route]:
    return [
        Route("POST", "/v1/chat/completions", "chat", wire_format=openai_chat.WIRE_FORMAT),
        Route("POST", "/v1/completions", "chat", wire_format=openai_completions.WIRE_FORMAT),
        Route("POST", "/v1/responses", "chat", wire_format=openai_responses.WIRE_FORMAT),
        *stored.ROUTES,
        Route("GET", "/v1/models", "models", model="none"),
        Route("GET", "/v1/models/{model}", "models", model="none"),
    ]


@format_impl
def translate_request(call: Call, wire: WireRequest) -> Request | Awaitable[Request | Reply]:
    if wire.route in stored.ROUTES:
        return stored.reply(call, wire)
    if wire.route.operation == "models":
        return ModelsRequest(model=wire.path_arguments.get("model"))
    body = _checked_body(call, wire)
    match wire.route.wire_format:
        case openai_responses.WIRE_FORMAT:
            return parse_response_request(call, body)
        case openai_completions.WIRE_FORMAT:
            return parse_completion_request(body)
        case _:
            return openai_chat.parse_request(body)


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    match request:
        case AskedResponse():
            return response_reply(call, request, events)
        case AskedCompletion():
            return completion_reply(call, request, events)
        case ChatRequest():
            return chat_reply(call, request, events)
        case ModelsRequest():
            return models_reply(events)
    raise UnsupportedOperation(f"This format has no answer for the operation '{call.operation}'.")


@format_impl
def translate_error(error: GateError, streaming: bool) -> bytes:
    return error_frame(error) if streaming else orjson.dumps({"error": error.body()})


@format_impl
def forward_request(call: Call, wire: WireRequest) -> Verbatim | Awaitable[Verbatim]:
    _checked_body(call, wire)
    if wire.route.wire_format == openai_responses.WIRE_FORMAT:
        return forward_response_request(call, wire)
    return forward_metered(wire)


@format_impl
def forward_response(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    return forward_answer(call, MANNERS[request.wire_format], request, incoming)


def _checked_body(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    """The body with its model, which may be the conf's default. Raises InvalidField."""
    body = wire.json
    if body.get("model") is None and call.model:
        body = {**body, "model": call.model}
    _CHECKS[wire.route.wire_format](body)
    return body
