"""Traces, metrics and logs for an OpenTelemetry collector: a span for each request, and one for each request to an upstream.

The caller's trace (``traceparent``) is continued, and upstreams receive the trace. Spans have names, numbers and error
codes, but no texts of requests or responses, and no keys. No request waits for the collector. A failure in this plugin
is logged, and the request continues without its span.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any
from weakref import WeakValueDictionary

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tornado_gate import PluginEntry, format_impl, plugin_impl, provider_impl
from tornado_gate.types import Call, Request, UpstreamRequest, UpstreamResponse, WireRequest, replace
from tornado_gate_otel.attributes import describe_request, describe_target
from tornado_gate_otel.exporting import Exporting
from tornado_gate_otel.settings import OtelSettings, read_settings
from tornado_gate_otel.spans import AttemptSpan, RequestSpan, Reserved

log = logging.getLogger(__name__)

_exporters: WeakValueDictionary[tuple[Any, ...], Exporting] = WeakValueDictionary()
"""The exporters of this process by settings. A reload that does not change the settings keeps the thread and its queue."""

_trace_context = TraceContextTextMapPropagator()


def _find_exporting(settings: OtelSettings) -> Exporting:
    values = (getattr(settings, name) for name in settings.__struct_fields__)
    name = tuple(tuple(sorted(value.items())) if isinstance(value, dict) else value for value in values)
    exporting = _exporters.get(name)
    if exporting is None:
        exporting = _exporters[name] = Exporting(settings)
    return exporting


class OpenTelemetry:
    """The plugin with the settings of one configuration."""

    def __init__(self, settings: OtelSettings | None = None) -> None:
        self._settings = settings or OtelSettings()
        self._exporting = _find_exporting(self._settings)

    @plugin_impl
    def configure_plugin(self, entry: PluginEntry) -> OpenTelemetry:
        return OpenTelemetry(read_settings(entry.settings))

    # The request of the caller begins at the first of these hooks

    @format_impl(wrapper=True, tryfirst=True, specname="translate_request")
    def begin_translated(self, call: Call, wire: WireRequest) -> Generator[None, Any, Any]:
        self._find_span(call, wire)
        return (yield)

    @format_impl(wrapper=True, tryfirst=True, specname="forward_request")
    def begin_forwarded(self, call: Call, wire: WireRequest) -> Generator[None, Any, Any]:
        self._find_span(call, wire)
        return (yield)

    @format_impl(wrapper=True, tryfirst=True, specname="open_session")
    def begin_session(self, call: Call, wire: WireRequest) -> Generator[None, Any, Any]:
        self._find_span(call, wire)
        return (yield)

    @format_impl(wrapper=True, tryfirst=True, specname="translate_error")
    def begin_refused(self, call: Call | None) -> Generator[None, Any, Any]:
        """Begin the span of a request that is refused before its format sees it.

        A request without a valid key has no span, because anybody could make spans.
        """
        if call is not None and call.caller.id:
            self._find_span(call, None)
        return (yield)

    # A request to an upstream

    @provider_impl(wrapper=True, tryfirst=True, specname="translate_request")
    def reserve_attempt(self, call: Call, request: Request) -> Generator[None, Any, Any]:
        outgoing = yield
        if inspect.isawaitable(outgoing):
            return self._reserve_later(call, request, outgoing)
        return self._reserve_span(call, request, outgoing)

    @provider_impl(wrapper=True, tryfirst=True)
    def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> Generator[None, Any, Any]:
        pending = yield
        if not inspect.iscoroutine(pending) or not call.caller.id:
            return pending
        return self._watch_call(call, outgoing, pending)

    def _find_span(self, call: Call, wire: WireRequest | None) -> RequestSpan | None:
        """Return the span of the request. If it has none, its span begins here."""
        request_span: RequestSpan | None = call.notes.get(self)
        if request_span is None:
            try:
                request_span = self._begin_span(call, wire)
            except Exception:
                log.exception("the span of a request could not begin", extra={"fields": {"request_id": call.id}})
                return None
            call.notes[self] = request_span
            call.when_ended(request_span.end)
        return request_span

    def _begin_span(self, call: Call, wire: WireRequest | None) -> RequestSpan:
        settings = self._settings
        parent = _trace_context.extract(call.headers, Context()) if settings.accept_parent else Context()
        attributes: dict[str, Any] = {
            "tornado_gate.request_id": call.id,
            "tornado_gate.format": call.format,
            "tornado_gate.operation": call.operation,
        }
        name = f"{call.format} {call.operation}"
        if wire is not None:
            name = f"{wire.route.method} {wire.route.path}"
            attributes |= {"http.request.method": wire.route.method, "http.route": wire.route.path}
        if settings.callers:
            attributes |= {"tornado_gate.key": call.caller.id, "tornado_gate.account": call.caller.account}
        seconds = time.monotonic() - call.started if call.started else 0.0
        began = time.time_ns() - int(seconds * 1e9)
        span = self._exporting.tracer.start_span(
            name, context=parent, kind=SpanKind.SERVER, attributes=attributes, start_time=began
        )
        return RequestSpan(span, set_span_in_context(span, parent), name, attributes, self._exporting.logger)

    async def _reserve_later(
        self, call: Call, request: Request, pending: Awaitable[UpstreamRequest]
    ) -> UpstreamRequest:
        return self._reserve_span(call, request, await pending)

    def _reserve_span(self, call: Call, request: Request, outgoing: UpstreamRequest) -> UpstreamRequest:
        """Choose the id of the span with which `outgoing` will be sent, and name it in its headers."""
        request_span: RequestSpan | None = call.notes.get(self)
        if request_span is None or request_span.span is None or not isinstance(outgoing, UpstreamRequest):
            return outgoing
        try:
            span_id = self._exporting.ids.generate_span_id()
            if self._settings.propagate and outgoing.url:
                outgoing = replace(outgoing, headers={**outgoing.headers, **_make_headers(request_span, span_id)})
            attributes = describe_request(request) if request_span.span.is_recording() else {}
            request_span.reserved[id(outgoing)] = Reserved(outgoing, span_id, attributes)
        except Exception:
            log.exception("a request could not be traced", extra={"fields": {"request_id": call.id}})
        return outgoing

    async def _watch_call(
        self, call: Call, outgoing: UpstreamRequest, pending: Coroutine[Any, Any, UpstreamResponse]
    ) -> UpstreamResponse:
        attempt = self._begin_attempt(call, outgoing)
        if attempt is None:
            return await pending
        try:
            incoming = await pending
        except BaseException as error:
            attempt.fail(error)
            raise
        return attempt.begin(incoming)

    def _begin_attempt(self, call: Call, outgoing: UpstreamRequest) -> AttemptSpan | None:
        try:
            request_span: RequestSpan = call.notes.get(self) or call.notes.setdefault(
                self, RequestSpan(None, None, "", {}, None)
            )
            reserved = request_span.reserved.pop(id(outgoing), None)
            exporting = self._exporting
            tracer = exporting.tracer
            if reserved is not None:
                exporting.ids.reserve_next(reserved.span_id)
            target = describe_target(call, self._settings.provider_names)
            span = tracer.start_span(
                f"{call.operation} {call.target.upstream_model}",
                context=request_span.context or Context(),
                kind=SpanKind.CLIENT,
                attributes=target,
            )
            exporting.ids.reserve_next(0)
            if not span.is_recording() and exporting.measurements is None:
                return None
            if reserved is not None:
                span.set_attributes(reserved.attributes)
            attempt = AttemptSpan(span, call, request_span.sent, target, exporting.measurements)
            call.closing.callback(attempt.close)
            call.when_ended(attempt.end)
        except Exception:
            log.exception("a request could not be traced", extra={"fields": {"request_id": call.id}})
            return None
        return attempt


def _make_headers(request_span: RequestSpan, span_id: int) -> dict[str, str]:
    """Return the trace headers (W3C Trace Context) for an upstream whose span is `span_id`."""
    context = get_current_span(request_span.context).get_span_context()
    headers = {"traceparent": f"00-{context.trace_id:032x}-{span_id:016x}-{context.trace_flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers
