"""The whole contract of a plugin. Read this file and write one.

A plugin is anything that pluggy can register (a module, or a class, which is instantiated without arguments) under an entry point
of the group ``tornado_gate``. The entry point's name is the plugin's name in conf. Mark hooks with `format_impl` or
`provider_impl`; name only the arguments you use. A hook marked ``wrapper=True`` stands around the hook of every plugin on
that side; a plugin that has nothing else is a wrapper.

Hooks are never awaited by pluggy: an async hook returns its coroutine or its async generator, and the core awaits it. A
wrapper around one gets that object from its ``yield`` and may return another around it.

What a hook may raise: a `GateError` is the caller's answer, with its status and message. Anything else is a fault of the
plugin: the caller gets 503 without its text, the log the traceback. A hook that blocks the event loop for longer than
``server.hook_seconds`` is interrupted and counts as failed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pluggy

from tornado_gate.errors import GateError
from tornado_gate.types import (
    Call,
    Operation,
    RealtimeAdapter,
    Reply,
    Request,
    Route,
    Socket,
    StreamEvent,
    UpstreamRequest,
    UpstreamResponse,
    VerbatimRequest,
    WireRequest,
)
from tornado_gate.types.value import Value, field

FORMAT_PROJECT = "tornado_gate_format"
PROVIDER_PROJECT = "tornado_gate_provider"

format_spec = pluggy.HookspecMarker(FORMAT_PROJECT)
provider_spec = pluggy.HookspecMarker(PROVIDER_PROJECT)
format_impl = pluggy.HookimplMarker(FORMAT_PROJECT)
provider_impl = pluggy.HookimplMarker(PROVIDER_PROJECT)


class ProviderEntry(Value, frozen=True, kw_only=True):
    """One entry under ``providers:`` in conf, as `configure` sees it.

    `settings` are the keys of the entry that the core does not know, which are the plugin's to check.
    """

    name: str
    base_url: str = ""
    api_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    hidden_fields = frozenset({"api_key", "headers"})


class Capabilities(Value, frozen=True, kw_only=True):
    """What a provider entry can do.

    `operations` are those it serves; `models` narrows them for some of its models: patterns of upstream names, where ``*``
    stands for anything, of which the first that fits counts. `inputs_at_once` is how many inputs one embeddings request
    may have there: the core sends more in several requests and joins the answers. `speaks` names the wire formats that it
    takes as they come (the verbatim lane). `base_url`, when given, replaces the entry's in every target; `settings` arrive
    there as `call.target.settings`. `signatures` says that its answers carry signatures of thinking, which the next turn
    must echo: the core then remembers them for clients that drop them. `videos_may_repeat` says that beginning a video twice
    harms nobody: then a task whose beginning is uncertain after a crash is begun again.
    """

    operations: frozenset[Operation] = frozenset({"chat"})
    models: Mapping[str, frozenset[Operation]] = field(default_factory=dict)
    inputs_at_once: int | None = None
    speaks: frozenset[str] = frozenset()
    base_url: str | None = None
    settings: Any = None
    signatures: bool = False
    videos_may_repeat: bool = False

    def get_operations(self, model: str) -> frozenset[Operation]:
        """The operations of the upstream's model of this name."""
        for pattern, operations in self.models.items():
            if fnmatchcase(model, pattern):
                return operations & self.operations
        return self.operations


class FormatSpec:
    """A wire format that callers speak. Required: `routes`, `translate_request`, `translate_response`, `translate_error`."""

    @format_spec(firstresult=True)
    def routes(self) -> list[Route]:
        """The routes that this format serves. Called once for each configuration.

        All of them need a key. A path and method that another format serves too is an error in conf unless one of the two
        routes `claims` its requests.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_request(self, call: Call, wire: WireRequest) -> Request | Reply:
        """Check the body and turn it into a common request.

        `wire.json` is a JSON object without duplicate keys, NaN or excessive depth; everything else is yours to check.
        `wire.path_arguments` holds the segments named in the route. The model in the request is the one the caller
        named. Raises `InvalidField` with the path of the first field that is wrong. Called at most once for each request, and
        not at all for one that takes the verbatim lane. May be a coroutine function. For a route with ``model="none"`` it returns
        a `ModelsRequest`, which the core answers, or at once a `Reply`, as for something that it kept in `call.memory`.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_response(self, call: Call, request: Request, events: AsyncIterator[StreamEvent]) -> Reply:
        """Turn events into the reply: one chunk for a whole answer, one or more for each event of a stream.

        Return at once: `Reply.chunks` is an async generator that reads `events` when it is read. The order of events has
        been checked; a stream that failed after its first event ends with `StreamError`, which must become this format's
        error event and never a normal finish. `stream.collect` makes a whole result of events, and raises the error instead.
        What the reply depends on and no field of the request says, `translate_request` puts into `request.reply_state`.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def translate_error(self, call: Call | None, error: GateError, streaming: bool) -> bytes:
        """The body of an error answer, or, when `streaming`, the frame that ends a stream with it.

        `error.body()` has the four strings. Status and headers are the core's. `call` is None when the request failed before
        it was read.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def forward_request(self, call: Call, wire: WireRequest) -> VerbatimRequest | None:
        """Optional: the verbatim lane. Check the body and return it as it came, patched only where conf demands.

        None is for a request that must be taken apart all the same, because its answer is to be another than what the
        upstream would give: `translate_request` follows. Called instead of `translate_request` when the target's
        provider speaks the route's `wire_format`. Without this hook the route never takes the verbatim lane. May be a
        coroutine function.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def forward_response(self, call: Call, request: VerbatimRequest, incoming: UpstreamResponse) -> Reply:
        """Optional, with `forward_request`: pass the upstream's bytes on, and note usage and finish reason on `call.meter`.

        The chunks of a stream end at frame borders. `incoming.chunks` raises a `GateError` when the upstream breaks off:
        before the first chunk let it rise, later end the stream with this format's error event.
        `tornado_gate.passthrough.forward_answer` does all of this for a `StreamAdapter` of the format.
        """
        raise AssertionError("a specification is never called")

    @format_spec(firstresult=True)
    def open_session(self, call: Call, wire: WireRequest) -> RealtimeAdapter:
        """Optional, for routes with ``socket=True``: check the handshake's headers and query, and give the caller's end.

        Raises what the caller is to get instead of an upgrade. May be a coroutine function.
        """
        raise AssertionError("a specification is never called")


class ProviderSpec:
    """A vendor's API. Required: `translate_request` and `translate_response`."""

    @provider_spec(firstresult=True)
    def configure(self, entry: ProviderEntry) -> Capabilities:
        """Optional: check one conf entry and say what it can do. Called for each entry and configuration, never per request.

        Raises `ConfigError` with paths below the entry, e.g. ``[(("base_url",), "is missing; …")]``. Without this hook an entry
        serves chat, speaks no wire format and takes no settings.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def translate_request(self, call: Call, request: Request) -> UpstreamRequest:
        """Turn a common request into what the upstream is sent.

        Match on the request's class and raise `UnsupportedOperation` for what you do not serve. A `Verbatim` request comes
        only if `configure` said so: send its `raw` with the model patched to `call.target.upstream_model`. Name every field
        that cannot be honoured with `call.lose(request.field_name("top_k"))`. Keys go into headers, never into the address.
        May be a coroutine function.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    async def call_upstream(self, call: Call, outgoing: UpstreamRequest) -> UpstreamResponse:
        """Optional: the only I/O, a coroutine. The default sends `outgoing` over HTTP with pooled connections. These are the
        core's: a plugin that calls an upstream itself does it by ``tornado_gate.http.upstream.call_upstream``.

        Return as soon as the upstream has begun to answer; `chunks` brings the rest. Raise an `UpstreamError` for an upstream
        that failed or refused. Push what must be closed on `call.closing`. Deadlines are kept by the core.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    async def open_socket(self, call: Call, outgoing: UpstreamRequest) -> Socket:
        """Optional, for the operation "realtime": a conversation, begun by what `translate_request` made of a RealtimeRequest.

        The default connects by WebSocket to ``outgoing.url`` (ws or wss) with its headers; ``outgoing.context`` is then the
        dialect that the upstream speaks. Raise an `UpstreamError` for one that refused.
        """
        raise AssertionError("a specification is never called")

    @provider_spec(firstresult=True)
    def translate_response(
        self, call: Call, request: Request, incoming: UpstreamResponse
    ) -> AsyncIterator[StreamEvent]:
        """Turn the upstream's answer into events; usually an async generator. Order: see `types.events`.

        Not called for a `Verbatim` request. `stream.replay` makes events of a whole `ChatResult`. An error inside a stream
        that began well is a `StreamError` event. A stream that just stops is made one by the core.
        """
        raise AssertionError("a specification is never called")
