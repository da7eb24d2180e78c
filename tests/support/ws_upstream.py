"""A realtime upstream in the event loop of the test: an HTTP server that accepts WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler


@dataclass
class WsUpstream:
    """What the upstream receives, and how it responds.

    `refuses` is the status that rejects the handshake; `greeting` is sent on connection; `answers` returns the events
    that are sent for each received one.
    """

    refuses: int = 0
    greeting: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    uris: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    connections: list[_Connection] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    answers: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None

    def start(self, port: int = 0) -> None:
        """Listen in the running event loop, on a free port unless `port` is given."""
        sockets = bind_sockets(port, "127.0.0.1")
        self.port = sockets[0].getsockname()[1]
        self._server = HTTPServer(Application([(r".*", _Connection, {"upstream": self})]))
        self._server.add_sockets(sockets)

    async def stop(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready` returns true; it is called again after each change."""
        while not ready():
            self.news.clear()
            await self.news.wait()


class _Connection(WebSocketHandler):
    def initialize(self, upstream: WsUpstream) -> None:
        self.upstream = upstream
        self.closed = asyncio.Event()

    def prepare(self) -> None:
        self.upstream.headers.append({name.lower(): value for name, value in self.request.headers.items()})
        self.upstream.uris.append(self.request.uri or "")
        if self.upstream.refuses:
            self.set_status(self.upstream.refuses)
            self.finish({"error": {"message": "refused by the test"}})

    def check_origin(self, origin: str) -> bool:
        return True

    def open(self, *_: str, **__: str) -> None:
        self.upstream.connections.append(self)
        for event in self.upstream.greeting:
            self.write_message(json.dumps(event))
        self.upstream.news.set()

    async def on_message(self, message: str | bytes) -> None:
        assert isinstance(message, str)
        self.upstream.received.append(message)
        self.upstream.news.set()
        if self.upstream.answers is not None:
            for event in self.upstream.answers(json.loads(message)):
                await self.write_message(json.dumps(event))

    def on_close(self) -> None:
        self.closed.set()
        self.upstream.news.set()
