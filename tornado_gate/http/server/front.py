"""The fast front: HTTP/1.1 for Tornado's `Application`, on asyncio transports and llhttp instead of Tornado's HTTPServer.

Applications meet only `tornado.httputil`'s interfaces, so the same handlers run behind either front. What differs:

- `request.connection` is a `RequestConnection`: it has no `stream`, and its `detach` returns the `ServerConnection`, whose
  `switch_protocol` gives the transport to another protocol. A WebSocketHandler needs the protocol of `sockets.server`;
  Tornado's own wants an IOStream.
- TCP_NODELAY is always on.
- Requests are read more strictly (the table in `server_head`); a head that is too large gets a 431.
- A client that is refused before its body has come gets to see the answer: the rest is read and thrown away for a while.
- An answer with `Connection: close` closes its connection. A fault in a request whose answer has begun closes without a 400.
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
        """`idle_seconds`: until the head of the next request has come whole, and for a client that takes nothing of its answer.

        `body_seconds`: for a whole body; None: no limit. `header_bytes`: request line and headers. `body_bytes`: of a request
        for which the handler says nothing else.
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
        """Serve what comes to these sockets, which are bound, and are ours from now on."""
        loop = asyncio.get_running_loop()
        self.done = loop.create_future()
        self.done.set_result(None)
        for bound in sockets:
            serving = await loop.create_server(lambda: ServerConnection(self, loop), sock=bound, backlog=BACKLOG)
            self._listening.append(serving)

    def stop(self) -> None:
        """Take no new connection. Idle ones close; requests under way are answered, with `Connection: close`."""
        self.stopping = True
        for serving in self._listening:
            serving.close()
        self._listening.clear()
        for connection in list(self._connections):
            connection.close_if_idle()

    async def close_all_connections(self) -> None:
        """Close whatever is open, and wait until it is. WebSockets that are open stay open, as with Tornado's front."""
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            self._empty = asyncio.Event()
            await self._empty.wait()

    # For connections

    def on_connected(self, connection: ServerConnection) -> None:
        """A client has come."""
        self._connections.add(connection)
        if self.stopping:
            connection.close_if_idle()

    def on_disconnected(self, connection: ServerConnection) -> None:
        """It has left, or speaks another protocol now."""
        self._connections.discard(connection)
        self.application.on_close(connection)
        if self._empty is not None and not self._connections:
            self._empty.set()
