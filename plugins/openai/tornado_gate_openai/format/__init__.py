"""OpenAI's wire format for callers: every route of the vendor's API that the gateway supports.

This module defines the hooks. Each module in `_ROUTES` has four functions: `parse` and `reply` for the common lane, `forward` and
`forward_response` for the verbatim lane. `tornado_gate_openai.wire` parses and renders the wire formats.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import cache
from typing import Any, Final, Protocol

import orjson

from tornado_gate import format_impl, lazy_import
from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    ModelsRequest,
    RealtimeAdapter,
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
from tornado_gate_openai.format import conversations, paths
from tornado_gate_openai.format.replies import make_models_reply, render_error_frame
from tornado_gate_openai.format.stored import conversation_objects, responses

__all__ = [
    "describe_route",
    "forward_request",
    "forward_response",
    "open_session",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]


class _RouteModule(Protocol):
    """The functions of each module in `_ROUTES`."""

    def parse(self, call: Call, wire: WireRequest) -> Any: ...
    def reply(self, call: Call, request: Any, events: AsyncIterator[StreamEvent]) -> Reply: ...
    def forward(self, call: Call, wire: WireRequest) -> Any: ...
    def forward_response(self, call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply: ...


_ROUTES: Final[Mapping[str, tuple[Route, ...]]] = {
    "conversations": conversations.ROUTES,
    "counting": paths.COUNT_ROUTES,
    "embeddings": paths.EMBEDDING_ROUTES,
    "images": paths.IMAGE_ROUTES,
    "moderations": paths.MODERATION_ROUTES,
    "realtime": paths.REALTIME_ROUTES,
    "speech": paths.SPEECH_ROUTES,
    "transcriptions": paths.TRANSCRIPTION_ROUTES,
    "videos": paths.VIDEO_ROUTES,
}
"""The routes of each module, by the module's name."""
_MODULE_OF_FORMAT: Final = {route.wire_format: name for name, found in _ROUTES.items() for route in found}
_MODULE_OF_OPERATION: Final = {route.operation: name for name, found in _ROUTES.items() for route in found}

lazy_import(__name__, *_ROUTES, "response_socket")


@cache
def _load_module(name: str) -> _RouteModule:
    """Return a module of `_ROUTES`. It is imported with the first request for it, because most gateways serve few of them."""
    match name:
        case "counting":
            from tornado_gate_openai.format import counting

            return counting
        case "embeddings":
            from tornado_gate_openai.format import embeddings

            return embeddings
        case "images":
            from tornado_gate_openai.format import images

            return images
        case "moderations":
            from tornado_gate_openai.format import moderations

            return moderations
        case "realtime":
            from tornado_gate_openai.format import realtime

            return realtime
        case "speech":
            from tornado_gate_openai.format import speech

            return speech
        case "transcriptions":
            from tornado_gate_openai.format import transcriptions

            return transcriptions
        case "videos":
            from tornado_gate_openai.format import videos

            return videos
    return conversations


@format_impl
def routes() -> list[Route]:
    return [
        *(route for module_routes in _ROUTES.values() for route in module_routes),
        *responses.ROUTES,
        *conversation_objects.ROUTES,
        Route("GET", "/v1/models", "models", model="none"),
        Route("GET", "/v1/models/{model}", "models", model="none"),
    ]


@format_impl
def describe_route(route: Route) -> RouteDescription | None:
    from tornado_gate_openai.fields import descriptions

    return descriptions.describe_route(route)


@format_impl
def translate_request(call: Call, wire: WireRequest) -> Request | Awaitable[Request | Reply]:
    if wire.route.model == "none":
        if wire.route in responses.ROUTES:
            return responses.answer(call, wire)
        if wire.route in conversation_objects.ROUTES:
            return conversation_objects.answer(call, wire)
    if wire.route.operation == "models":
        return ModelsRequest(model=wire.path_arguments.get("model"))
    name = "realtime" if wire.route.path == paths.SECRETS_PATH else _MODULE_OF_FORMAT[wire.route.wire_format]
    parsed: Request | Awaitable[Request | Reply] = _load_module(name).parse(call, wire)
    return parsed


@format_impl
def open_session(call: Call, wire: WireRequest) -> RealtimeAdapter:
    from tornado_gate_openai.format import realtime

    return realtime.open_session(call, wire)


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    if isinstance(request, ModelsRequest):
        return make_models_reply(events)
    return _load_module(_MODULE_OF_OPERATION[call.operation]).reply(call, request, events)


@format_impl
def translate_error(error: GateError, streaming: bool) -> bytes:
    return render_error_frame(error) if streaming else orjson.dumps({"error": error.body()})


@format_impl
def forward_request(call: Call, wire: WireRequest) -> VerbatimRequest | Awaitable[VerbatimRequest | None] | None:
    request: VerbatimRequest | Awaitable[VerbatimRequest | None] | None = _load_module(
        _MODULE_OF_FORMAT[wire.route.wire_format]
    ).forward(call, wire)
    return request


@format_impl
def forward_response(call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse) -> Reply:
    if isinstance(request, StoredObjectRequest):
        return responses.forward_response(call, request, incoming)
    return _load_module(_MODULE_OF_FORMAT[request.wire_format]).forward_response(call, request, incoming)
