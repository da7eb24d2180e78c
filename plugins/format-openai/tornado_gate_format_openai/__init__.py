"""OpenAI's wire format for callers: chat completions and the model list.

The hooks only; the wire format is `tornado_gate.wire.openai_chat`, the checks are in `schemas`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

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
from tornado_gate.wire.openai_chat import WIRE_FORMAT, parse_request
from tornado_gate_format_openai.replies import chat_reply, error_frame, models_reply
from tornado_gate_format_openai.schemas import check_chat
from tornado_gate_format_openai.verbatim import forward_answer, forward_chat

__all__ = [
    "forward_request",
    "forward_response",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]


@format_impl
def routes() -> list[Route]:
    return [
        Route("POST", "/v1/chat/completions", "chat", wire_format=WIRE_FORMAT),
        Route("GET", "/v1/models", "models", model="none"),
        Route("GET", "/v1/models/{model}", "models", model="none"),
    ]


@format_impl
def translate_request(call: Call, wire: WireRequest) -> Request:
    if wire.route.operation == "models":
        return ModelsRequest(model=wire.path_arguments.get("model"))
    return parse_request(_checked_body(call, wire))


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    match request:
        case ChatRequest():
            return chat_reply(call, request, events)
        case ModelsRequest():
            return models_reply(events)
    raise UnsupportedOperation(f"This format has no answer for the operation '{call.operation}'.")


@format_impl
def translate_error(error: GateError, streaming: bool) -> bytes:
    return error_frame(error) if streaming else orjson.dumps({"error": error.body()})


@format_impl
def forward_request(call: Call, wire: WireRequest) -> Verbatim:
    _checked_body(call, wire)
    return forward_chat(wire)


@format_impl
def forward_response(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    return forward_answer(call.meter, request, incoming)


def _checked_body(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    """The body with its model, which may be the conf's default. Raises InvalidField."""
    body = wire.json
    if body.get("model") is None and call.model:
        body = {**body, "model": call.model}
    check_chat(body)
    return body
