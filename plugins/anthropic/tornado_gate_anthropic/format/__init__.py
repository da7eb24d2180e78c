"""Anthropic's wire format for callers: messages, token counts and the model list.

This module defines the hooks. `lanes` implements them and is imported with the first request of this format, to keep the
start short. The hooks import its functions, because to import a module from a package takes a microsecond each time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from tornado_gate import format_impl, lazy_import
from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    LimitLevels,
    Reply,
    Request,
    Route,
    RouteDescription,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.wire.conversation_formats import ANTHROPIC_MESSAGES
from tornado_gate.wire.prompt_prefix import make_prefix_reader
from tornado_gate_anthropic import fields
from tornado_gate_anthropic.fields import route_members
from tornado_gate_anthropic.wire.messages.version import VERSION_HEADER

__all__ = [
    "describe_route",
    "forward_request",
    "forward_response",
    "limit_headers",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]

lazy_import(__name__, "lanes", "limits")


@format_impl
def routes() -> list[Route]:
    return [
        *(
            Route(
                "POST",
                path,
                operation,
                wire_format=ANTHROPIC_MESSAGES,
                references=fields.list_references,
                keep_alive=_find_keep_alive,
                prompt_prefix=make_prefix_reader("tools", "system", conversation="messages"),
                texts=texts,
                **route_members.MESSAGES,
            )
            for path, operation, texts in (
                ("/v1/messages", "chat", fields.MESSAGES),
                ("/v1/messages/count_tokens", "count_tokens", fields.COUNT),
            )
        ),
        Route("GET", "/v1/models", "models", model="none", claims=_is_ours),
        Route("GET", "/v1/models/{model}", "models", model="none", claims=_is_ours),
    ]


def _find_keep_alive(wire: WireRequest) -> bytes:
    """Return what keeps a stream of this request alive before its first event."""
    from tornado_gate_anthropic.format.replies import KEEP_ALIVE

    return KEEP_ALIVE if wire.json.get("stream") is True else b""


def _is_ours(headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    """Return whether a model list request comes from a client of this format; other formats serve the same path."""
    return VERSION_HEADER in headers


@format_impl
def describe_route(route: Route) -> RouteDescription | None:
    from tornado_gate_anthropic.fields import descriptions

    return descriptions.describe_route(route)


@format_impl
def translate_request(call: Call, wire: WireRequest) -> Request:
    from tornado_gate_anthropic.format.lanes import translate_request as implementation

    return implementation(call, wire)


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    from tornado_gate_anthropic.format.lanes import translate_response as implementation

    return implementation(call, request, events)


@format_impl
def limit_headers(levels: LimitLevels) -> dict[str, str]:
    from tornado_gate_anthropic.format import limits

    return limits.render_limit_headers(levels)


@format_impl
def translate_error(call: Call | None, error: GateError, streaming: bool) -> bytes:
    from tornado_gate_anthropic.format.lanes import translate_error as implementation

    return implementation(call, error, streaming)


@format_impl
def forward_request(call: Call, wire: WireRequest) -> VerbatimRequest:
    from tornado_gate_anthropic.format.lanes import forward_request as implementation

    return implementation(call, wire)


@format_impl
def forward_response(call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
    from tornado_gate_anthropic.format.lanes import forward_response as implementation

    return implementation(call, request, incoming)
