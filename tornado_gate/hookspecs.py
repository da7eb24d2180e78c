"""The hooks of a plugin: the complete contract.

A plugin is an object that pluggy can register: a module, or a class, which is instantiated without arguments. An entry point in
the group ``tornado_gate`` names it; the entry point's name is the plugin's name in conf. Mark hooks with `format_impl` or
`provider_impl` (`configure_plugin` with `plugin_impl`); declare only the arguments you use. A hook marked ``wrapper=True`` wraps
the hook of every plugin of that kind (format or provider); a plugin with wrappers only is a wrapper. A guard, which reviews the
texts of requests and responses, is a wrapper too: its hooks are marked with `guard_impl`, and it may have wrapper hooks besides.

pluggy does not await hooks: an async hook returns its coroutine or its async generator, and the core awaits it. A wrapper
receives that object from its ``yield`` and may return another object that wraps it.

Errors: a `GateError` that a hook raises is returned to the caller with its status and message. Any other exception is a fault of
the plugin: the caller receives 503 without the exception's text, and the log receives the traceback. A hook that blocks the event
loop for longer than ``server.hook_seconds`` is interrupted and counts as failed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

import pluggy

from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    LimitLevels,
    Operation,
    RealtimeAdapter,
    Reply,
    Request,
    Route,
    RouteDescription,
    Socket,
    StoredObjectRequest,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.model_names import canonicalize_name
from tornado_gate.types.texts import Decision, GuardedText, GuardOptions
from tornado_gate.types.value import Value, field
from tornado_gate.types.vendors import ListedModel, Vendor

FORMAT_PROJECT = "tornado_gate_format"
PROVIDER_PROJECT = "tornado_gate_provider"
PLUGIN_PROJECT = "tornado_gate_plugin"
GUARD_PROJECT = "tornado_gate_guard"

format_spec = pluggy.HookspecMarker(FORMAT_PROJECT)
provider_spec = pluggy.HookspecMarker(PROVIDER_PROJECT)
format_impl = pluggy.HookimplMarker(FORMAT_PROJECT)
provider_impl = pluggy.HookimplMarker(PROVIDER_PROJECT)
plugin_spec = pluggy.HookspecMarker(PLUGIN_PROJECT)
plugin_impl = pluggy.HookimplMarker(PLUGIN_PROJECT)
guard_spec = pluggy.HookspecMarker(GUARD_PROJECT)
guard_impl = pluggy.HookimplMarker(GUARD_PROJECT)


class PluginEntry(Value, frozen=True, kw_only=True):
    """The entry of a plugin under ``plugins:`` in conf; the argument of `configure_plugin`.

    `name` is the plugin's name. `settings` are the keys of the entry that the core does not define; the plugin must check them.
    `required`, the scope of a wrapper (``models``, ``operations``, ``keys``), ``review_timeout`` and ``review_timeout_per_mb`` of
    a guard are applied by the core.
    """

    name: str
    required: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    hidden_fields = frozenset({"settings"})


class ProviderEntry(Value, frozen=True, kw_only=True):
    """One entry under ``providers:`` in conf; the argument of `configure`.

    `name` is the entry's name. `base_url` is as written in conf, "" without one. `api_key` is the key, "" without one; for an
    entry with several keys, `configure` is called for each. `headers` are the entry's headers, which the plugin adds to its
    requests. `settings` are the keys of the entry that the core does not define; the plugin must check them.
    """

    name: str
    base_url: str = ""
    api_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    hidden_fields = frozenset({"api_key", "headers"})


class ModelExplainer(Protocol):
    """The facts of a provider about its models: `tornado_gate.wire.model_table.ModelTable`."""

    def explain(self, model: str) -> dict[str, Any]:
        """Return ``facts`` about an upstream model, and ``rows``, each with ``match``, ``facts`` and ``source``; JSON values."""

    def list_abilities(self, model: str) -> tuple[str, ...]:
        """Return what a chat model can do, for lists of models: ``tools``, ``reasoning``, and the kinds of its input:
        ``images``, ``audio``, ``video``, ``files``. () for a model that the provider has no facts about.
        """


class Capabilities(Value, frozen=True, kw_only=True):
    """The capabilities of a provider entry; the result of `configure`.

    `operations` are the supported operations. `models` narrows them for some models: it maps patterns of upstream model names
    (``*`` matches anything) to operations; the first pattern that matches applies. `inputs_at_once` is the maximum number of
    inputs in one embeddings request: the core splits larger requests and joins the results. `speaks` names the wire formats whose
    bodies the provider accepts unchanged (the verbatim lane). `base_url`, if present, replaces the entry's in every target;
    `settings` becomes `call.target.settings`. `signatures`: responses carry thinking signatures that the next turn must return;
    the core then stores them for clients that drop them. `unsigned_thinking` are patterns of models to which thinking before tool
    calls must be returned even without a signature. `videos_may_repeat`: a video may be started twice without harm; the core then
    restarts a task if a crash left open whether the provider had started it. `model_table` explains the plugin's facts about a
    model, for the command ``models show``. `description` is shown in model lists for models without one in conf. `price_provider`
    is the provider's id in the package ``genai-prices``, which has the default prices of models; without it the provider is found
    there by its base URL. `costs_nothing`: the models run in the gateway, or are made of other models of the gateway, whose
    requests are priced themselves. `sends_only_with_context`: the plugin's own `call_upstream` is for requests with a `context`,
    and the core sends all others without asking it. `missing_operations` are operations that need another distribution, each
    with the advice how to install it, which the errors of such requests repeat.
    """

    operations: frozenset[Operation] = frozenset({"chat"})
    models: Mapping[str, frozenset[Operation]] = field(default_factory=dict)
    inputs_at_once: int | None = None
    speaks: frozenset[str] = frozenset()
    base_url: str | None = None
    settings: Any = None
    signatures: bool = False
    unsigned_thinking: tuple[str, ...] = ()
    videos_may_repeat: bool = False
    model_table: ModelExplainer | None = None
    description: str = ""
    price_provider: str = ""
    costs_nothing: bool = False
    sends_only_with_context: bool = False
    missing_operations: Mapping[Operation, str] = field(default_factory=dict)

    def get_operations(self, model: str) -> frozenset[Operation]:
        """Return the operations that the upstream model named `model` supports."""
        row = self._find_model_operations(model)
        return self.operations if row is None else row & self.operations

    def find_missing(self, model: str, operations: Iterable[Operation]) -> str:
        """Return what to install so that the upstream model named `model` supports one of `operations`, or ""."""
        if not self.missing_operations:
            return ""
        row = self._find_model_operations(model)
        able = (name for name in operations if row is None or name in row)
        return next((self.missing_operations[name] for name in able if name in self.missing_operations), "")

    def _find_model_operations(self, model: str) -> frozenset[Operation] | None:
        """Return the operations of the first row of `models` that matches; None if no row matches."""
        name = canonicalize_name(model)
        return next((row for pattern, row in self.models.items() if _matches(pattern, model, name)), None)

    def needs_unsigned_thinking(self, model: str) -> bool:
        """Return whether thinking without a signature must be returned to the upstream model named `model`."""
        name = canonicalize_name(model)
        return any(_matches(pattern, model, name) for pattern in self.unsigned_thinking)


def _matches(pattern: str, model: str, name: str) -> bool:
    """Return whether a pattern matches a model as it is written, or its canonical `name`."""
    return fnmatchcase(model, pattern) or fnmatchcase(name, pattern.casefold())


class PluginSpec:
    """Hooks of every kind of plugin, marked with `plugin_impl`; none is required."""

    @plugin_spec(firstresult=True)
    def configure_plugin(self, entry: PluginEntry) -> Any:
        """Optional: check the plugin's own settings in conf; return the object whose hooks are called with these settings.

        The object is usually a new instance of the plugin's class; it must implement the same hooks. Each configuration has its
        own object, so a request that started before a reload keeps its settings. May be called several times with equal
        settings. Raises `ConfigError` with paths below the entry; `tornado_gate.config.load_settings` checks settings with a
        schema. Without this hook the plugin accepts no settings.

        When: each time a configuration is read: at the start, at a reload, and by the commands ``check`` and ``plugins list``.
        Where: every kind of plugin; before all other hooks of the configuration.
        Coroutine: no.
        Raises: `ConfigError`, which makes conf invalid. Any other exception is a failure of the plugin.
        """
        raise AssertionError("a specification is never called")


class FormatSpec:
    """A wire format of callers. Required: `routes`, `translate_request`, `translate_response`, `translate_error`."""

    @format_spec(firstresult=True)
    def routes(self) -> list[Route]:
        """Return the routes that this format serves.

        All routes require a key. If two formats serve the same path and method, one of the two routes must have `claims`;
        otherwise conf is invalid.

        When: once for each configuration.
        Where: before the first request of the configuration.
        Coroutine: no.
        Raises: nothing; an exception is a failure of the plugin, whose routes are then not served.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def describe_route(self, route: Route) -> RouteDescription | None:
        """Optional: return the description of a route for /openapi.json and /docs: schemas of its bodies, parameters, examples.

        A route below ``/vendor/`` has the prefix of conf in its path. Import the schemas inside the hook, so that the start does
        not wait for them. A test of the gateway sends the examples. Without this hook, or for None, the description has the route
        without schemas.

        When: once for each route, when the API description is first requested; in a thread.
        Where: /openapi.json and /docs; never for a request for a model.
        Coroutine: no.
        Raises: nothing; after an exception the route is listed without schemas.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_request(self, call: Call, wire: WireRequest) -> Request | Reply:
        """Check the body and return it as a common request.

        `wire.json` is a JSON object without duplicate keys, NaN or excessive depth; the hook checks everything else.
        `wire.path_arguments` holds the named segments of the route's path. The request's model is the name that the caller sent.
        Raises `InvalidField` with the path of the first invalid field. For a route with ``model="none"`` it returns a
        `ModelsRequest`, which the core serves, a `StoredObjectRequest` about an object that an upstream keeps, or a complete
        `Reply`, for example from data in `call.memory`.

        When: at most once for each request and operation of the route, regardless of the number of targets that are tried; in a
        thread for a body above 64 KiB, unless it is a coroutine function.
        Where: the common lane, and routes with ``model="none"``. On the verbatim lane only for a body with signatures of an
        upstream, to find the provider entry that issued them; errors are then ignored.
        Coroutine: it may be a coroutine function.
        Raises: `InvalidField` and other `RequestError`; no target is tried.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_response(self, call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
        """Return the reply for stream events: one chunk for a whole response, one or more for each event of a stream.

        Return without waiting: `Reply.chunks` is an async generator that reads `events` while it is read. The core has checked
        the order of events. A stream that fails after its first event ends with `StreamError`; render it as this format's error
        event, never as a normal finish. `events.collect` returns the whole result, or raises that error. `events.render_json`
        returns the chunk of a whole response, immediately if `events` are `WholeEvents`. `translate_request`
        stores in `request.reply_state` any data for the reply that the request's fields do not hold.

        When: once for each response that an upstream has begun, even if it then fails before its first chunk and the next target
        is tried; and for responses of the core itself, such as a `ModelList`, a `TaskResult` or a `TokenCount`.
        Where: the common lane, all operations.
        Coroutine: no; it returns immediately. `Reply.chunks` is an async generator or another async iterator.
        Raises: nothing while it is called. Before their first chunk, `Reply.chunks` may raise the `GateError` of a `StreamError`.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_error(self, call: Call | None, error: GateError, streaming: bool) -> bytes:
        """Return the body of an error response or, if `streaming`, the frame that ends a stream with the error.

        `error.body()` returns the strings `message`, `type`, `param` and `code`. The core sends status and headers. `call` is
        None if the request failed before it was read.

        When: for each error response and each interrupted stream.
        Where: all routes of the format, both lanes, all operations except messages of realtime sessions.
        Coroutine: no.
        Raises: nothing; after an exception the caller receives the error in the core's own form, ``{"error": {…}}``.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def limit_headers(self, call: Call | None, levels: LimitLevels) -> dict[str, str]:
        """Optional: return this format's headers about the remainder of the caller's limits per minute.

        `levels.requests` and `levels.tokens` are None without a limit. The core itself sends ``x-ratelimit-limit-requests`` and
        the like, and ``Retry-After``. Errors of refused requests have `RateLimited.exceeded`, for `translate_error`.

        When: once for each response of a caller with a limit per minute, and for each request that such a limit refuses.
        Where: all routes of the format.
        Coroutine: no.
        Raises: nothing; after an exception the response is sent without these headers.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def forward_request(self, call: Call, wire: WireRequest) -> VerbatimRequest | None:
        """Optional: the verbatim lane. Check the body and return it unchanged, except for changes that conf requires.

        Called instead of `translate_request` if the target's provider accepts the route's `wire_format`. Return None for a
        request that needs translation (its response must differ from the upstream's): the core then calls `translate_request`.
        Without this hook, the core translates all requests of the route.

        When: once for each target that accepts the route's `wire_format`; in a thread for a body above 1 MiB, or above 64 KiB
        with many values, unless it is a coroutine function.
        Where: the verbatim lane. A request that a required wrapper sees only on the common lane does not come here.
        Coroutine: it may be a coroutine function.
        Raises: `InvalidField` and other `RequestError`; no other target is tried.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def forward_response(
        self, call: Call, request: VerbatimRequest | StoredObjectRequest, incoming: UpstreamResponse
    ) -> Reply:
        """Optional, with `forward_request`: forward the upstream's bytes; record usage and finish reason on `call.meter`.

        Each chunk of a stream ends at the end of a frame. `incoming.chunks` raises a `GateError` if the upstream fails: before
        the first chunk let it propagate; after it, end the stream with this format's error event. A response with ids of objects
        that the upstream keeps adds them to `request.issued`. `tornado_gate.passthrough.forward_answer` implements all of this
        with a `StreamAdapter` of the format.

        When: once for each response that an upstream has begun.
        Where: the verbatim lane, and the responses to a `StoredObjectRequest`.
        Coroutine: no; it returns immediately. `Reply.chunks` is an async generator or another async iterator.
        Raises: nothing while it is called; a `GateError` from `Reply.chunks` before their first chunk, and the next target is
        tried if the error is `retryable`.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def open_session(self, call: Call, wire: WireRequest) -> RealtimeAdapter:
        """Optional, for routes with ``socket=True``: check the handshake's headers and query; return the session's adapter.

        The adapter translates the messages of the session.

        When: once for each WebSocket handshake, before a provider is connected.
        Where: routes with ``socket=True``: the operation "realtime".
        Coroutine: it may be a coroutine function.
        Raises: a `RequestError` instead of the upgrade.
        """
        raise AssertionError("a specification is never called")


class ProviderSpec:
    """A provider: the API of a vendor. Required: `translate_request` and `translate_response`."""

    @provider_spec(firstresult=True)
    def configure(self, entry: ProviderEntry) -> Capabilities:
        """Optional: check one provider entry of conf and return its capabilities.

        Raises `ConfigError` with paths below the entry, e.g. ``[(("base_url",), "is missing; …")]``. Without this hook an entry
        supports chat, has no verbatim lane and accepts no settings.

        When: once for each entry, and for each key of an entry with several, in each configuration.
        Where: before the first request of the configuration, and by the commands ``check`` and ``models show``.
        Coroutine: no.
        Raises: `ConfigError`, which makes conf invalid.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def list_vendors(self) -> list[Vendor]:
        """Optional: return the vendors whose accounts people can add with this plugin, each with its address and settings.

        An empty list: the plugin uses no accounts, so it is not offered. Without this hook it is offered by its name alone.

        When: when an administrator adds a provider entry; also for a plugin that is off.
        Where: the console's page of providers, and the command ``providers add``; never for a request for a model.
        Coroutine: no.
        Raises: nothing; after an exception the plugin is offered without vendors.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    async def list_models(self, call: Call) -> list[ListedModel]:
        """Optional: ask the vendor for the models of the account; a coroutine.

        `tornado_gate.wire.model_lists.fetch_models` asks and reads. `call.target` has address, key and settings, and no model.
        Without this hook, the connection is tested with a short chat.

        When: when an administrator tests the connection of a provider entry.
        Where: the console, /admin/v1 and the command ``providers test``; never for a request for a model.
        Coroutine: yes.
        Raises: an `UpstreamError`, whose message the administrator reads.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def translate_request(self, call: Call, request: Request) -> UpstreamRequest:
        """Translate a common request into the upstream's request.

        Match on the request's class; raise `UnsupportedOperation` for classes that you do not support. A `VerbatimRequest` comes
        only if `Capabilities.speaks` names its wire format: send its `raw` with the model replaced by
        `call.target.upstream_model`. A `StoredObjectRequest`, which has no body, also comes only for those formats. Report every
        field that the upstream does not support with `call.drop_field(request.field_name("top_k"))`. Put keys into headers, never
        into the URL.

        When: once for each target that is tried; for each batch of an embeddings request that is split; for each step of a video
        task (start, poll, download, cancel); for each session; for each active health check; and for a request that is only
        explained (``POST /v1/_explain``). In a thread for a body above 64 KiB, unless it is a coroutine function; on the verbatim
        lane for a body above 1 MiB, or above 64 KiB with many values.
        Where: both lanes, all operations.
        Coroutine: it may be a coroutine function.
        Raises: `UnsupportedOperation` or `InvalidField` for a request that the upstream cannot serve, which ends the request; an
        `UpstreamError` for a failure at the upstream, such as a token that it does not issue, and the next target is tried.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    async def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
        """Optional: send the request; a coroutine. The default sends `outgoing` over HTTP with pooled connections.

        The core owns the pool: a plugin that makes HTTP calls itself uses ``tornado_gate.http.upstream.call_upstream``. Return
        when the response's headers have arrived; `chunks` yields the body. Raise an `UpstreamError` if the upstream fails or
        refuses the request. Push resources to close on `call.closing`. The core enforces the timeouts.

        When: once after each `translate_request`, except for sessions and for requests that are only explained.
        Where: both lanes, all operations except "realtime".
        Coroutine: yes.
        Raises: an `UpstreamError`; the next target is tried if the error is `retryable`.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def translate_upstream_error(
        self, call: Call, status: int, headers: Mapping[str, str], body: bytes
    ) -> GateError | None:
        """Optional: return the error for a refusal of the upstream, if the vendor's codes are more precise than its status.

        Return None for any other refusal: the core's table then decides, by `status` and the usual error bodies
        (`tornado_gate.http.upstream_errors`). `headers` have lower-case names, `body` is at most 64 KiB. Map the vendor's code to
        a status and use the same table: ``error_for_status(status, call.target.provider, text, headers)``. Use
        ``key_refused(call.target.provider)`` for errors of the gateway's own key or account, whose text no caller may see. The
        core masks the target's secrets in the error.

        When: once for each response with a status from 300 on that is not among the `accepted_statuses` of the request, and that
        is not a redirect to follow.
        Where: the core's `call_upstream`, even when the plugin's own hook calls it, and its `open_socket` (with an empty `body`);
        both lanes, all operations, downloads of files from the provider's own host.
        Coroutine: no.
        Raises: nothing; after an exception, which is a failure of the plugin, the table decides.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    async def open_socket(self, call: Call, outgoing: UpstreamRequest) -> Socket:
        """Optional, for the operation "realtime": open a session. `outgoing` is the translated `RealtimeRequest`.

        The default opens a WebSocket to ``outgoing.url`` (ws or wss) with its headers; ``outgoing.context`` is then the
        upstream's dialect. Raise an `UpstreamError` if the upstream refuses the connection.

        When: once for each session and target that is tried.
        Where: the operation "realtime".
        Coroutine: yes.
        Raises: an `UpstreamError`; the next target is tried if the error is `retryable`.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def translate_response(
        self, call: Call, request: Request, incoming: UpstreamResponse
    ) -> AsyncIterator[StreamEvent]:
        """Translate the upstream's response into stream events; usually an async generator. For their order see `types.events`.

        Not called for a `VerbatimRequest`. For a response that is known completely, return `events.WholeEvents` of its
        `ChatResult`: formats then take the result without its events. `events.convert_whole` makes them of a body that has
        arrived completely. `events.replay` returns the events of a whole `ChatResult`. Yield a `StreamError`
        for an error in a stream that has begun. If a stream ends without a finish, the core adds a `StreamError`.

        When: once for each response whose status is below 300 or in `accepted_statuses`.
        Where: the common lane, all operations except "realtime" and the download of a video, whose bytes are not translated.
        Coroutine: no; it is an async generator, or it returns an async iterator.
        Raises: an `UpstreamError` before the first event with content (any but `ResponseStart` and `SpeechStart`), and the next
        target is tried if the error is `retryable`. After it a raised `GateError` ends the stream as a `StreamError` does.
        """
        raise AssertionError("a specification is never called")


class GuardSpec:
    """A guard: it reviews the texts of requests and responses of every wire format. Required: one of the two reviews.

    The core reads the texts where the caller's wire format has them, on both lanes and in streams, and applies the decision: a
    plugin of this kind contains no wire format. Several guards review one after the other, in the order of conf; each sees the
    texts as the previous guard has left them. `types.texts` has the values; docs/how-to/guards.md explains them.

    A review has failed if it raises an exception other than `GateError`, returns anything that is no decision, or takes longer
    than ``review_timeout`` and ``review_timeout_per_mb`` of conf allow. A required guard then refuses the request; any other is
    passed over and named in the header x-gate-loss. Texts above 64 KiB are reviewed in threads, several at a time.
    """

    @guard_spec(firstresult=True)
    def guard_options(self) -> GuardOptions:
        """Optional: return the number of held-back characters of a stream, and the sides that are reviewed.

        When: once for each configuration.
        Where: before the first request of the configuration.
        Coroutine: no.
        Raises: nothing; an exception is a failure of the plugin.
        """
        raise AssertionError("a specification is never called")

    @guard_spec(firstresult=True)
    def review_request(self, call: Call, texts: list[GuardedText]) -> Decision | Awaitable[Decision]:
        """Review all texts of a request before any provider gets it; None allows it.

        `call.target` is not known yet.

        When: once for each request, after its model is known and before a target is tried; once for each message of the caller in
        a realtime session that has texts. In a thread for texts above 64 KiB. A coroutine function runs in the event loop, and
        functions that it passes to `call.run` in a thread.
        Where: both lanes, all operations, in the caller's wire format.
        Coroutine: it may be a coroutine function.
        Raises: a `GateError`, which is the response to the caller. Any other exception is a failure of the guard.
        """
        raise AssertionError("a specification is never called")

    @guard_spec(firstresult=True)
    def review_response(self, call: Call, texts: list[GuardedText]) -> Decision | Awaitable[Decision]:
        """Review texts of a response before the caller gets them; None allows them.

        The windows of a stream overlap: see `GuardedText`. `call.target` is the target that has responded, if any. A `Block` in a
        stream ends it with the error event of the caller's wire format.

        When: once for a whole response, and for each window of a stream.
        Where: both lanes, all operations whose responses have texts, in the caller's wire format.
        Coroutine: it may be a coroutine function.
        Raises: a `GateError`, which is the response to the caller, in a stream its error event. Any other exception is a failure
        of the guard.
        """
        raise AssertionError("a specification is never called")
