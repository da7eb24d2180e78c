"""The lanes: one `FormatLane` or `ProviderLane` per plugin, through which the pipeline calls its hooks."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Mapping
from typing import Any

from msgspec import Struct

from tornado_gate.errors import ContractError, GateError, PluginError
from tornado_gate.hookspecs import (
    FORMAT_PROJECT,
    PROVIDER_PROJECT,
    Capabilities,
    ProviderEntry,
)
from tornado_gate.http import upstream
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.plugins.hook_calls import Lane
from tornado_gate.plugins.host import Plugin, PluginHost
from tornado_gate.plugins.route_checks import find_route_fault
from tornado_gate.plugins.wrappers import (
    sees_provider_requests,
    sees_sessions,
    sees_verbatim_requests,
)
from tornado_gate.streams.event_order import OrderError
from tornado_gate.telemetry.redaction import redact_answer, redact_error
from tornado_gate.types import (
    Call,
    ChatRequest,
    ClientSecretRequest,
    CountTokensRequest,
    LimitLevels,
    MediaRequest,
    ModelsRequest,
    RealtimeAdapter,
    Reply,
    Request,
    Route,
    RouteDescription,
    Socket,
    StoredObjectRequest,
    StreamEvent,
    TaskRequest,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.field_checks import find_wrong_field
from tornado_gate.types.vendors import ListedModel, Vendor
from tornado_gate.types.wire import WHOLE_BYTES, BufferedBody

REQUEST_TYPES = (ChatRequest, ClientSecretRequest, CountTokensRequest, MediaRequest, ModelsRequest, TaskRequest)
_OPTIONAL_DESCRIPTION = (RouteDescription, type(None))
_OPTIONAL_ERROR = (GateError, type(None))
_OPTIONAL_LIST = (list, type(None))
_OPTIONAL_VERBATIM = (VerbatimRequest, type(None))


class FormatLane(Lane):
    """A wire format. `routes` are the routes it serves; `forwards` is whether it supports the verbatim lane."""

    def __init__(self, host: PluginHost, plugin: Plugin, wrappers: Iterable[Plugin]) -> None:
        super().__init__(host, plugin, FORMAT_PROJECT, wrappers)
        names = plugin.hooks["format"]
        self.forwards = "forward_request" in names and "forward_response" in names
        self._has_limit_headers = "limit_headers" in names
        self.routes = self._list_routes()

    def _surround(self, wrappers: list[Plugin]) -> None:
        super()._surround(wrappers)
        self._common_lane_only = [wrapper for wrapper in self.required if not sees_verbatim_requests(wrapper.hooks)]

    def _list_routes(self) -> tuple[Route, ...]:
        routes: tuple[Route, ...] = tuple(self.call("routes", list))
        for route in routes:
            if fault := find_route_fault(route):
                raise self.contract_error(f"routes returned a wrong value: {fault}")
        return routes

    def describe_route(self, route: Route) -> RouteDescription | None:
        result: RouteDescription | None = self.call("describe_route", _OPTIONAL_DESCRIPTION, route=route)
        return result

    def translate_request(self, call: Call, wire: WireRequest) -> Coroutine[Any, Any, Request]:
        return self.invoke_async("translate_request", REQUEST_TYPES, call=call, wire=wire)

    def invoke_translate_request(self, call: Call, wire: WireRequest) -> Request | Awaitable[Request]:
        """Call `translate_request`, but return a result that needs no waiting directly."""
        result: Request | Awaitable[Request] = self.invoke("translate_request", REQUEST_TYPES, call=call, wire=wire)
        return result

    def check_request(self, request: Request) -> None:
        """Raise PluginError if a request of the format is wrong, after the core has failed to process it."""
        if wrong := find_wrong_field(request):
            raise self.contract_error(f"translate_request returned a wrong value: {wrong}")

    async def translate_modelless_request(
        self, call: Call, wire: WireRequest
    ) -> ModelsRequest | ClientSecretRequest | StoredObjectRequest | TaskRequest | Reply:
        """Call `translate_request` of a route without a model. Return a request to the core, or the reply."""
        kinds = (ModelsRequest, ClientSecretRequest, StoredObjectRequest, TaskRequest, Reply)
        result: (
            ModelsRequest | ClientSecretRequest | StoredObjectRequest | TaskRequest | Reply
        ) = await self.invoke_async("translate_request", kinds, call=call, wire=wire)
        return result

    async def forward_request(self, call: Call, wire: WireRequest) -> VerbatimRequest | None:
        request = self.invoke_forward_request(call, wire)
        return request if request is None or isinstance(request, VerbatimRequest) else await request

    def invoke_forward_request(
        self, call: Call, wire: WireRequest
    ) -> VerbatimRequest | Awaitable[VerbatimRequest | None] | None:
        """Return the request for the verbatim lane, an awaitable of it, or None for a request that needs the common lane.

        A request also needs the common lane if a required wrapper covers it that sees bodies only there.
        """
        if self._common_lane_only and any(wrapper.scope.covers(call) for wrapper in self._common_lane_only):
            return None
        result: VerbatimRequest | Awaitable[VerbatimRequest | None] | None = self.invoke(
            "forward_request", _OPTIONAL_VERBATIM, call=call, wire=wire
        )
        return result

    def translate_response(self, call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
        result: Reply = self.call("translate_response", Reply, call=call, request=request, events=events)
        return result

    def forward_response(
        self, call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse
    ) -> Reply:
        """Return the reply of the verbatim lane. The target's secrets are masked in the response that the format receives."""
        incoming = redact_answer(call.target, incoming)
        result: Reply = self.call("forward_response", Reply, call=call, request=request, incoming=incoming)
        return result

    async def open_session(self, call: Call, wire: WireRequest) -> RealtimeAdapter:
        self.refuse_unseen(call, sees_sessions, "the messages of realtime sessions")
        side: RealtimeAdapter = await self.invoke_async("open_session", object, call=call, wire=wire)
        if side is None:
            raise self.contract_error("it has a WebSocket route, but open_session returned None")
        return side

    def limit_headers(self, call: Call | None, levels: LimitLevels) -> dict[str, str]:
        """Return the format's own headers about limits; {} for a format without any, and for one whose hook fails."""
        if not self._has_limit_headers:
            return {}
        try:
            result: dict[str, str] = self.call("limit_headers", dict, call=call, levels=levels)
        except GateError:
            return {}  # the lane has logged it
        return result

    def translate_error(self, call: Call | None, error: GateError, streaming: bool = False) -> bytes:
        result: bytes = self.call("translate_error", bytes, call=call, error=error, streaming=streaming)
        return result


class ProviderLane(Lane):
    """A provider plugin; one lane for all its entries.

    Its requests are not checked on their way: the core sends them, and `blame` finds the fault of a request that it cannot send.
    """

    def __init__(self, host: PluginHost, plugin: Plugin, wrappers: Iterable[Plugin]) -> None:
        super().__init__(host, plugin, PROVIDER_PROJECT, wrappers)
        self._has_own_sender = "call_upstream" in plugin.hooks["provider"]

    def _surround(self, wrappers: list[Plugin]) -> None:
        super()._surround(wrappers)
        hooks = self.plugin.hooks["provider"]
        self._sends = "call_upstream" in hooks or bool(self.list_wrappers("call_upstream"))
        self.checked = frozenset({"configure", "call_upstream"} if self._sends else {"configure"})
        explains = "translate_upstream_error"
        self._explains = explains in hooks or bool(self.list_wrappers(explains))

    def leaves_sending_to_core(self, capabilities: Capabilities) -> bool:
        """Return whether the core sends all requests without a `context`, so that no hook and no wrapper sees them there."""
        return not self._sends or (
            self._has_own_sender and capabilities.sends_only_with_context and not self.list_wrappers("call_upstream")
        )

    def blame(self, error: BaseException, hook: str, arguments: dict[str, Any]) -> GateError:
        """Record an exception like `Lane.blame`.

        A request that the provider cannot translate may be a fault of the format. A request that cannot be sent may be a fault of
        the provider.
        """
        request, outgoing = arguments.get("request"), arguments.get("outgoing")
        if isinstance(request, Struct) and (wrong := find_wrong_field(request)):
            culprit = arguments["call"].format or self.name  # without a format, the core has made the request
            detail = f"translate_request returned a wrong value: {wrong}"
            self.host.record_failure(culprit, detail, error)
            return PluginError(culprit, detail)
        if isinstance(outgoing, UpstreamRequest) and (wrong := find_wrong_field(outgoing)):
            error = ContractError(wrong)
            hook = "translate_request returned a wrong value"
        return self.record_exception(error, hook)

    def record_wrong_event(self, error: OrderError, where: str) -> GateError:
        """Record a forbidden event of the plugin, or of a wrapper around it. Return the PluginError for it."""
        wrappers = self.list_wrappers("translate_response")
        return self.record_exception(error, f"{where} (wrapped by {', '.join(wrappers)})" if wrappers else where)

    def configure(self, entry: ProviderEntry) -> Capabilities:
        result: Capabilities = self.call("configure", Capabilities, entry=entry)
        return result

    def list_vendors(self) -> list[Vendor] | None:
        """Return the vendors of the plugin; None for a plugin without the hook."""
        result: list[Vendor] | None = self.call("list_vendors", _OPTIONAL_LIST)
        return result

    async def list_models(self, call: Call) -> list[ListedModel] | None:
        """Return the models that the vendor lists; None for a plugin without the hook. Errors are masked."""
        if "list_models" not in self.plugin.hooks["provider"]:
            return None
        if self._explains:
            call = call.replace(explain_refusal=self._explain_refusal)
        try:
            result: list[ListedModel] = await self.invoke_async("list_models", list, call=call)
        except GateError as error:
            redact_error(call.target, error)
            raise
        return result

    def check_unseen_request(self, call: Call, seen: Call | None = None) -> None:
        """Raise PluginUnavailable if a required wrapper covers a request that it cannot see on the provider's side.

        This concerns requests that a format has not translated, or, with `seen`, has translated before the model was known.
        """
        self.refuse_unseen(call, sees_provider_requests, "requests that reach a model without a format", seen)

    def translate_request(self, call: Call, request: Request) -> Coroutine[Any, Any, UpstreamRequest]:
        return self.invoke_async("translate_request", UpstreamRequest, call=call, request=request)

    def invoke_translate_request(self, call: Call, request: Request) -> UpstreamRequest | Awaitable[UpstreamRequest]:
        """Call `translate_request`, but return a result that needs no waiting directly."""
        result: UpstreamRequest | Awaitable[UpstreamRequest] = self.invoke(
            "translate_request", UpstreamRequest, call=call, request=request
        )
        return result

    async def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
        """Return the upstream's response unchanged. The target's secrets are masked in errors."""
        if self._explains:
            call = call.replace(explain_refusal=self._explain_refusal)
        try:
            response = self.invoke("call_upstream", UpstreamResponse, call=call, outgoing=outgoing)
            incoming: UpstreamResponse = (await response) if inspect.iscoroutine(response) else response
        except GateError as error:
            redact_error(call.target, error)
            raise
        if not self._sends or incoming.reader is not None:
            return incoming
        chunks = incoming.chunks
        if chunks.__class__ is BufferedBody and len(chunks.data) <= WHOLE_BYTES:
            return incoming  # nearly all of them
        return upstream.add_reader(call, incoming)

    async def end_call(self, call: Call, outgoing: UpstreamRequest, response: HttpResponse) -> UpstreamResponse:
        """Return the upstream's response to a request that the core has sent (`http.upstream.begin_call`), as `call_upstream`."""
        if self._explains:
            call = call.replace(explain_refusal=self._explain_refusal)
        try:
            return await upstream.end_call(call, outgoing, response)
        except GateError as error:
            redact_error(call.target, error)
            raise

    async def open_socket(self, call: Call, outgoing: UpstreamRequest) -> Socket:
        """Open the provider's end of a realtime session. The target's secrets are masked in errors."""
        if self._explains:
            call = call.replace(explain_refusal=self._explain_refusal)
        try:
            socket: Socket = await self.invoke_async("open_socket", object, call=call, outgoing=outgoing)
        except GateError as error:
            redact_error(call.target, error)
            raise
        return socket

    def _explain_refusal(self, call: Call, status: int, headers: Mapping[str, str], body: bytes) -> GateError | None:
        """Return the provider's own error for a refusal; None if it leaves that to the table of the core, or fails."""
        arguments = {"call": call, "status": status, "headers": headers, "body": body}
        try:
            result: GateError | None = self.call("translate_upstream_error", _OPTIONAL_ERROR, **arguments)
        except PluginError:
            return None  # the failure is recorded
        except GateError as error:
            return error
        return result

    def translate_response(
        self, call: Call, request: Request, incoming: UpstreamResponse
    ) -> AsyncIterator[StreamEvent]:
        """Return the events of a response. The target's secrets are masked in the response that the provider receives."""
        incoming = redact_answer(call.target, incoming)
        events: AsyncIterator[StreamEvent] = self.call(
            "translate_response", object, call=call, request=request, incoming=incoming
        )
        if not hasattr(events, "__aiter__"):
            if inspect.iscoroutine(events):
                events.close()
            raise self.contract_error("translate_response must return an async iterator, such as an async generator")
        return events
