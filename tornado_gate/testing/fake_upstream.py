"""An upstream for tests: a real HTTP server with a scripted response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from tornado_gate.types.value import State, field


class FakeUpstream(State):
    """A real HTTP server that sends `status`, `headers` and `chunks` in response to every request, and records the
    requests.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    chunks: Sequence[bytes] = (b"{}",)
    requests: list[HTTPServerRequest] = field(default_factory=list)
    url: str = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[FakeUpstream]:
        """Serve on a free port of this machine; `url` is its address."""
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
