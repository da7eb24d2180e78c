"""The hooks' implementation, for the common lane and the verbatim lane.

`tornado_gate_anthropic.wire.messages` parses and renders the wire format; `fields` checks bodies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import orjson

from tornado_gate import passthrough
from tornado_gate.codec.byte_search import contains_any
from tornado_gate.codec.value_limits import check_for_upstream
from tornado_gate.errors import GateError, InvalidField, UnsupportedOperation
from tornado_gate.types import (
    Call,
    ChatRequest,
    CountTokensRequest,
    IssuedObjects,
    ModelsRequest,
    Reply,
    Request,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import replace
from tornado_gate_anthropic.fields import check_messages_body
from tornado_gate_anthropic.format.models import parse_models_request
from tornado_gate_anthropic.format.replies import count_reply, make_chat_reply, make_models_reply, render_error_frame
from tornado_gate_anthropic.format.thinking import read_state
from tornado_gate_anthropic.format.verbatim import ADAPTER
from tornado_gate_anthropic.wire.messages import BETA_HEADER, parse_request, render_error, threads_unsupported_error
from tornado_gate_anthropic.wire.messages.version import check_version

_CONTAINER_MEMBERS: Final = (b'"container"', b"code_execution")
"""Of these, one occurs in each request whose response may have a container."""


def translate_request(call: Call, wire: WireRequest) -> Request:
    if wire.route.operation == "models":
        return parse_models_request(wire)
    body = _read_body(call, wire)
    check_messages_body(body)
    if body.get("thread") is not None:
        raise threads_unsupported_error()
    if body.get("max_tokens") == 0 and wire.route.operation == "chat":
        raise InvalidField(
            "max_tokens", "'max_tokens' must be 1 or more for this model: it has no prompt cache to fill."
        )
    chat = parse_request(body)
    if betas := call.headers.get(BETA_HEADER):
        chat = replace(chat, extra={**chat.extra, BETA_HEADER: betas})
    if wire.route.operation == "count_tokens":
        return CountTokensRequest(model=chat.model, chat=chat)
    state = read_state(body)
    return chat if state is None else replace(chat, reply_state=state)


def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    match request:
        case ChatRequest():
            return make_chat_reply(call, request, events)
        case CountTokensRequest():
            return count_reply(events)
        case ModelsRequest():
            return make_models_reply(request, events)
    raise UnsupportedOperation(f"The Anthropic wire format does not support the operation '{call.operation}'.")


def translate_error(call: Call | None, error: GateError, streaming: bool) -> bytes:
    request_id = call.id if call is not None else ""
    return render_error_frame(error, request_id) if streaming else orjson.dumps(render_error(error, request_id))


def forward_request(call: Call, wire: WireRequest) -> VerbatimRequest:
    check_for_upstream(check_messages_body, _read_body(call, wire))
    return VerbatimRequest(
        wire_format=wire.route.wire_format,
        operation=wire.route.operation,
        path=wire.path,
        raw=wire.raw,
        body=wire.json,
        stream=wire.json.get("stream") is True,
        issued=IssuedObjects() if contains_any(wire.raw, _CONTAINER_MEMBERS) else None,
    )


def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    return passthrough.forward_answer(call, ADAPTER, request, incoming)


def _read_body(call: Call, wire: WireRequest) -> Mapping[str, Any]:
    """Return the body; a missing `model` is filled with the default model in conf. Raises InvalidField for the version header."""
    check_version(wire.headers)
    body = wire.json
    if body.get("model") is None and call.model:
        body = {**body, "model": call.model}
    return body
