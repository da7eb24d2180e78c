"""Gemini's wire format for callers: generateContent, countTokens, embeddings, interactions and the model list.

This module defines the hooks. `lanes` implements them and is imported with the first request of this format, to keep the
start short. The hooks import its functions, because to import a module from a package takes a microsecond each time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

from tornado_gate import format_impl, lazy_import
from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    Reply,
    Request,
    Route,
    RouteDescription,
    StoredObjectRequest,
    StreamEvent,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate_gemini.format import paths

__all__ = [
    "describe_route",
    "forward_request",
    "forward_response",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]

lazy_import(__name__, "lanes")


@format_impl
def routes() -> list[Route]:
    return paths.routes()


@format_impl
def describe_route(route: Route) -> RouteDescription | None:
    from tornado_gate_gemini.fields import descriptions

    return descriptions.describe_route(route)


@format_impl
def translate_request(call: Call, wire: WireRequest) -> Request | Awaitable[Request]:
    from tornado_gate_gemini.format.lanes import translate_request

    return translate_request(call, wire)


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    from tornado_gate_gemini.format.lanes import translate_response

    return translate_response(call, request, events)


@format_impl
def translate_error(call: Call | None, error: GateError, streaming: bool) -> bytes:
    from tornado_gate_gemini.format.lanes import translate_error

    return translate_error(call, error, streaming)


@format_impl
def forward_request(call: Call, wire: WireRequest) -> VerbatimRequest | None:
    from tornado_gate_gemini.format.lanes import forward_request

    return forward_request(call, wire)


@format_impl
def forward_response(call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse) -> Reply:
    from tornado_gate_gemini.format.lanes import forward_response

    return forward_response(call, request, incoming)
