"""OpenAI's wire format for callers: every route of the vendor's API that the gateway has.

The hooks only. Each module in `_MODULES` has its routes and four functions: `parse` and `reply` for the common lane, `forward`
and `forwarded` for the verbatim one. The wire formats are in `tornado_gate.wire`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, Final, Protocol

import orjson

from tornado_gate import format_impl
from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    ModelsRequest,
    RealtimeSide,
    Reply,
    Request,
    Route,
    StreamEvent,
    UpstreamResponse,
    Verbatim,
    WireRequest,
)
from tornado_gate_format_openai import (
    conversations,
    embeddings,
    images,
    moderations,
    realtime,
    speech,
    stored,
    transcriptions,
    videos,
)
from tornado_gate_format_openai.replies import error_frame, models_reply

__all__ = [
    "forward_request",
    "forward_response",
    "open_session",
    "routes",
    "translate_error",
    "translate_request",
    "translate_response",
]


class _Module(Protocol):
    """What each module of a kind of routes has."""

    @property
    def ROUTES(self) -> tuple[Route, ...]: ...  # a constant of a module
    def parse(self, call: Call, wire: WireRequest) -> Any: ...
    def reply(self, call: Call, request: Any, events: AsyncIterator[StreamEvent]) -> Reply: ...
    def forward(self, call: Call, wire: WireRequest) -> Any: ...
    def forwarded(self, call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply: ...


_MODULES: Final[tuple[_Module, ...]] = (
    conversations,
    embeddings,
    images,
    moderations,
    realtime,
    speech,
    transcriptions,
    videos,
)
_OF_FORMAT: Final[Mapping[str, _Module]] = {route.wire_format: module for module in _MODULES for route in module.ROUTES}
_OF_OPERATION: Final[Mapping[str, _Module]] = {
    route.operation: module for module in _MODULES for route in module.ROUTES
}


@format_impl
def routes() -> list[Route]:
    return [
        *(route for module in _MODULES for route in module.ROUTES),
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
    if wire.route.path == realtime.SECRETS:
        return realtime.parse(call, wire)
    parsed: Request | Awaitable[Request | Reply] = _OF_FORMAT[wire.route.wire_format].parse(call, wire)
    return parsed


@format_impl
def open_session(call: Call, wire: WireRequest) -> RealtimeSide:
    return realtime.open_session(call, wire)


@format_impl
def translate_response(call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
    if isinstance(request, ModelsRequest):
        return models_reply(events)
    return _OF_OPERATION[call.operation].reply(call, request, events)


@format_impl
def translate_error(error: GateError, streaming: bool) -> bytes:
    return error_frame(error) if streaming else orjson.dumps({"error": error.body()})


@format_impl
def forward_request(call: Call, wire: WireRequest) -> Verbatim | Awaitable[Verbatim | None] | None:
    request: Verbatim | Awaitable[Verbatim | None] | None = _OF_FORMAT[wire.route.wire_format].forward(call, wire)
    return request


@format_impl
def forward_response(call: Call, request: Verbatim, incoming: UpstreamResponse) -> Reply:
    return _OF_FORMAT[request.wire_format].forwarded(call, request, incoming)
