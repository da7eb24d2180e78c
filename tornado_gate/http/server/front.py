"""The fast front: HTTP/1.1 for Tornado's `Application`, on asyncio transports and llhttp instead of Tornado's HTTPServer.

Applications use only the interfaces of `tornado.httputil`, so the same handlers run behind either front. Differences:

- `request.connection` is a `RequestConnection`: it has no `stream`, and its `detach` returns the `ServerConnection`, whose
  `switch_protocol` hands the transport to another protocol. A WebSocketHandler needs the protocol of `http.websocket.server`;
  Tornado's own needs an IOStream.
- TCP_NODELAY is always on.
- Requests are parsed more strictly (table in `head`); a head that is too large gets a 431.
- A client whose request is rejected before its body has arrived receives the response: the rest is discarded for a while.
- A response with `Connection: close` closes its connection. An error in a request after the response has begun closes without
  a 400.
- No TLS, no X-Forwarded-For, no compressed requests: the gateway uses none of them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from tornado.httputil import HTTPServerConnectionDelegate

from tornado_gate.http.server.connection import ServerConnection

HEADER_BYTES = 64 * 1024
BODY_BYTES = 100 * 1024 * 1024
BACKLOG = 128


class HttpServer:
    """Serves an application on listening sockets; on asyncio's loop or on uvloop's."""

    done: asyncio.Future[None]

    def __init__(
        self,
        application: HTTPServerConnectionDelegate,
        *,
        idle_seconds: float = 3600.0,
        body_seconds: float | None = None,
        header_bytes: int = HEADER_BYTES,
        body_bytes: int = BODY_BYTES,
    ) -> None:
        """`idle_seconds`: time until the head of the next request is complete, and time without progress of a client that reads.

        `body_seconds`: time for a whole body; None: no limit. `header_bytes`: maximum size of request line and headers.
        `body_bytes`: maximum size of a request body, unless the handler sets another.
        """
        self.application = application
        self.idle_seconds = idle_seconds
        self.body_seconds = body_seconds
        self.header_bytes = header_bytes
        self.body_bytes = body_bytes
        self.stopping = False
        self._listening: list[asyncio.Server] = []
        self._connections: set[ServerConnection] = set()
        self._empty: asyncio.Event | None = None

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Serve connections of these bound sockets, which the server now owns."""
        loop = asyncio.get_running_loop()
        self.done = loop.create_future()
        self.done.set_result(None)
        for bound in sockets:
            serving = await loop.create_server(lambda: ServerConnection(self, loop), sock=bound, backlog=BACKLOG)
            self._listening.append(serving)

    def stop(self) -> None:
        """Accept no new connections. Idle ones close; running requests are answered with `Connection: close`."""
        self.stopping = True
        for serving in self._listening:
            serving.close()
        self._listening.clear()
        for connection in list(self._connections):
            connection.close_if_idle()

    async def close_all_connections(self) -> None:
        """Close all connections and wait until they are closed. WebSockets stay open, as with Tornado's server."""
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            self._empty = asyncio.Event()
            await self._empty.wait()

    # Called by connections

    def on_connected(self, connection: ServerConnection) -> None:
        """Register a new connection."""
        self._connections.add(connection)
        if self.stopping:
            connection.close_if_idle()

    def on_disconnected(self, connection: ServerConnection) -> None:
        """Unregister a connection that is closed or has switched its protocol."""
        self._connections.discard(connection)
        self.application.on_close(connection)
        if self._empty is not None and not self._connections:
            self._empty.set()
