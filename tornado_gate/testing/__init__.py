"""Tests for plugins: contract test classes to inherit, and a fake upstream.

A provider's test defines a request, the expected upstream body, recorded chunks and the expected stream events::

    class TestAcme(ProviderContract):
        plugin = tornado_gate_acme
        request = chat("Hello")
        outgoing = {"model": "acme-1", "turns": [{"who": "user", "says": "Hello"}]}
        chunks = [b'data: {"word": "Hi"}\\n\\n', …]
        events = [ResponseStart(model="acme-1"), …]

pytest collects these tests, but this module does not import it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, ClassVar

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tornado_gate.errors import GateError, InvalidField
from tornado_gate.hookspecs import ProviderEntry
from tornado_gate.plugins.host import FormatLane, PluginHost, ProviderLane
from tornado_gate.streams.events import OrderChecker
from tornado_gate.types import (
    Call,
    Caller,
    ChatRequest,
    Message,
    ModelsRequest,
    Request,
    Route,
    StreamEvent,
    Target,
    Text,
    UpstreamResponse,
    WireRequest,
)
from tornado_gate.types.value import State, field

KEY = "secret-of-the-test"


def chat(text: str = "Hello", **fields: Any) -> ChatRequest:
    """Return a chat request with one user message."""
    message = Message(role="user", parts=(Text(text=text),))
    return ChatRequest(**{"model": "test-model", "messages": (message,), **fields})


def call_to(lane: ProviderLane | None = None, entry: ProviderEntry | None = None, **fields: Any) -> Call:
    """Return a call whose target is `entry`, configured by the plugin; its upstream model is "upstream-model"."""
    entry = entry or ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)
    capabilities = lane.configure(entry) if lane else None
    base_url = capabilities.base_url if capabilities and capabilities.base_url is not None else entry.base_url
    target = Target(
        provider=entry.name,
        plugin=lane.name if lane else "",
        model="test-model",
        upstream_model="upstream-model",
        base_url=base_url,
        api_key=entry.api_key,
        headers=entry.headers,
        settings=capabilities.settings if capabilities else entry.settings,
    )
    defaults: dict[str, Any] = {
        "id": "req_test",
        "operation": "chat",
        "format": "test",
        "model": "test-model",
        "caller": Caller(id="key_test", account="test"),
        "target": target,
    }
    return Call(**{**defaults, **fields})


async def chunks_of(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield `pieces`, like the chunks of an upstream's response."""
    for piece in pieces:
        yield piece


def wire_request(route: Route, body: Mapping[str, Any] | None = None, **fields: Any) -> WireRequest:
    """Return a caller's request to `route` with the JSON `body`."""
    defaults: dict[str, Any] = {"path": route.path, "path_arguments": {}, "query": {}, "headers": {}}
    raw = json.dumps(body or {}).encode()
    return WireRequest(**{"route": route, "raw": raw, "json": dict(body or {}), **defaults, **fields})


class ProviderContract:
    """The contract tests of a provider plugin. Inherit and set `plugin`, `request`, `outgoing`, `chunks` and `events`."""

    plugin: ClassVar[Any]
    request: ClassVar[Request]
    outgoing: ClassVar[Any]
    chunks: ClassVar[Sequence[bytes]]
    events: ClassVar[Sequence[StreamEvent]]
    entry: ClassVar[ProviderEntry] = ProviderEntry(name="test", base_url="http://upstream.test/v1", api_key=KEY)

    def lane(self) -> ProviderLane:
        host = PluginHost()
        return ProviderLane(host, host.add("under-test", self.plugin), [])

    def read(self, pieces: Iterable[bytes], status: int = 200) -> list[StreamEvent]:
        """Return the events of an upstream response with the chunks `pieces`."""

        async def collect() -> list[StreamEvent]:
            lane = self.lane()
            incoming = UpstreamResponse(chunks=chunks_of(pieces), status=status)
            return [event async for event in lane.translate_response(self.call(), self.request, incoming)]

        return asyncio.run(collect())

    def call(self) -> Call:
        return call_to(self.lane(), self.entry)

    def test_the_request_becomes_the_upstream_body(self) -> None:
        outgoing = asyncio.run(self.lane().translate_request(self.call(), self.request))
        raw = outgoing.body if isinstance(outgoing.body, bytes) else b"null"
        body = outgoing.json if outgoing.json is not None else json.loads(raw)
        assert body == self.outgoing

    def test_the_key_is_in_a_header_and_not_in_the_address(self) -> None:
        outgoing = asyncio.run(self.lane().translate_request(self.call(), self.request))
        assert KEY not in outgoing.url
        assert any(KEY in value for value in outgoing.headers.values())

    def test_recorded_chunks_become_the_events(self) -> None:
        assert self.read(self.chunks) == list(self.events)

    def test_one_byte_at_a_time_gives_the_same_events(self) -> None:
        pieces = [bytes([byte]) for byte in b"".join(self.chunks)]
        assert self.read(pieces) == list(self.events)

    def test_the_order_of_events_is_allowed_and_complete(self) -> None:
        checker = OrderChecker()
        for event in self.read(self.chunks):
            checker.check(event)
        assert checker.is_complete()

    def test_a_request_that_is_not_served_is_refused_cleanly(self) -> None:
        try:
            asyncio.run(self.lane().translate_request(self.call(), ModelsRequest()))
        except GateError as error:
            assert 400 <= error.status < 500
        else:
            raise AssertionError("a provider must raise a GateError for requests of a class that it does not support")


class FormatContract:
    """The contract tests of a format plugin. Inherit and set `plugin`, `body`, `request`, `events` and `reply`."""

    plugin: ClassVar[Any]
    body: ClassVar[Mapping[str, Any]]
    request: ClassVar[Request]
    events: ClassVar[Sequence[StreamEvent]]
    reply: ClassVar[bytes]

    def lane(self) -> FormatLane:
        host = PluginHost()
        return FormatLane(host, host.add("under-test", self.plugin), [])

    def route(self) -> Route:
        """Return the route for `body`: the first one with the method POST."""
        return next(route for route in self.lane().routes if route.method == "POST")

    def test_the_body_becomes_the_common_request(self) -> None:
        wire = wire_request(self.route(), self.body)
        assert asyncio.run(self.lane().translate_request(call_to(), wire)) == self.request

    def test_events_become_the_reply(self) -> None:
        async def collect() -> bytes:
            async def events() -> AsyncIterator[StreamEvent]:
                for event in self.events:
                    yield event

            reply = self.lane().translate_response(call_to(), self.request, events())
            return b"".join([chunk async for chunk in reply.chunks])

        assert asyncio.run(collect()) == self.reply

    def test_errors_have_the_four_strings(self) -> None:
        error = InvalidField("messages.0", "'messages.0' is wrong.")
        body = json.loads(self.lane().translate_error(None, error))
        assert {name: body["error"][name] for name in error.body()} == error.body()

    def test_an_empty_body_is_a_request_error_and_no_crash(self) -> None:
        try:
            asyncio.run(self.lane().translate_request(call_to(), wire_request(self.route(), {})))
        except GateError as error:
            assert error.status == 400
        else:
            raise AssertionError("a format must raise a GateError for an empty body")


class FakeUpstream(State):
    """A real HTTP server that returns `status`, `headers` and `chunks` for every request, and records the requests."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    chunks: Sequence[bytes] = (b"{}",)
    requests: list[HTTPServerRequest] = field(default_factory=list)
    url: str = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeUpstream]:
        """Serve on a free local port inside the context; `url` is the server's address."""
        sockets = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(Application([(r".*", _FakeHandler, {"upstream": self})], log_function=lambda _: None))
        server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        async with AsyncExitStack() as closing:
            closing.push_async_callback(server.close_all_connections)
            closing.callback(server.stop)
            yield self


class _FakeHandler(RequestHandler):
    def initialize(self, upstream: FakeUpstream) -> None:
        self.upstream = upstream

    async def post(self) -> None:
        self.upstream.requests.append(self.request)
        self.set_status(self.upstream.status)
        for name, value in self.upstream.headers.items():
            self.set_header(name, value)
        for chunk in self.upstream.chunks:
            self.write(chunk)
            await self.flush()

    get = post
