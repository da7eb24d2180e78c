"""The fast front: HTTP/1.1 for Tornado's `Application`, on asyncio transports and llhttp instead of Tornado's HTTPServer.

Applications use only the interfaces of `tornado.httputil`, so the same handlers run behind either front. Differences:

- `request.connection` is a `RequestConnection`: it has no `stream`, and its `detach` returns the `ServerConnection`, whose
  `switch_protocol` hands the transport to another protocol. A WebSocketHandler needs the protocol of `http.websocket.server`;
  Tornado's own needs an IOStream.
- TCP_NODELAY is always on.
- Requests are parsed more strictly (table in `head`).
- A request that is refused here, such as a head that is too large, gets an error body (`refusals`).
- The number of open connections is limited (`limits`), and a client that stops reading its response is disconnected.
- A client whose request is rejected before its body has arrived receives the response: further data is discarded for a while.
- A response with `Connection: close` closes its connection. An error in a request after the response has begun closes without
  a 400.
- No X-Forwarded-For, no compressed requests: the gateway uses none of them. TLS is in `tls`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from tornado.httputil import HTTPServerConnectionDelegate

from tornado_gate.http.server.connection import Application, ServerConnection
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import Limit, PlainRefusals, Refusals

if TYPE_CHECKING:
    import ssl

HEADER_BYTES = 64 * 1024
BODY_BYTES = 100 * 1024 * 1024
BACKLOG = 128
ACCEPTED_AT_ONCE = 16
"""The number of connections that asyncio accepts before excess ones are closed; it uses its `backlog` for this too."""
WAITING_SHARE = 16
"""When the limit of connections is reached, up to one in this many is closed."""


class HttpServer:
    """A server of an application on listening sockets; on asyncio's loop or on uvloop's."""

    done: asyncio.Future[None]

    def __init__(
        self,
        application: HTTPServerConnectionDelegate,
        *,
        times: Times | None = None,
        header_bytes: int = HEADER_BYTES,
        body_bytes: int = BODY_BYTES,
        limits: ConnectionLimits | None = None,
        refusals: Refusals | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Create a server.

        `header_bytes`: maximum size of request line and headers. `body_bytes`: maximum size of a request body, unless the handler
        sets another. `limits` count open connections. `refusals` renders the server's own responses.
        `tls`: serve HTTPS with this certificate.
        """
        self.application = cast(
            Application, application
        )  # `take_again` is called only if it notes something about a head
        self.times = times or Times()
        self.header_bytes = header_bytes
        self.body_bytes = body_bytes
        self.limits = limits or ConnectionLimits()
        self.refusals = refusals or PlainRefusals()
        self._tls = tls
        self.retiring = False
        """If set, each connection gets at most one more response, with `Connection: close`."""
        self.stopping = False
        """If set, a connection without a request is closed, at the latest after `LAST_SECONDS`."""
        self._listening: list[asyncio.Server] = []
        self._connections: set[ServerConnection] = set()
        self._empty: asyncio.Event | None = None

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Serve connections of these bound sockets, which the server now owns."""
        loop = asyncio.get_running_loop()
        self.done = loop.create_future()
        self.done.set_result(None)
        make_protocol = self._make_protocol_factory(loop)
        for bound in sockets:
            create = loop.create_server
            if bound.family == socket.AF_UNIX and not isinstance(loop, asyncio.BaseEventLoop):
                create = loop.create_unix_server  # type: ignore[assignment]  # uvloop; asyncio's would delete the socket's file
            serving = await create(make_protocol, sock=bound, backlog=ACCEPTED_AT_ONCE)
            bound.listen(BACKLOG)
            self._listening.append(serving)

    def _make_protocol_factory(self, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.Protocol]:
        if self._tls is None:
            return lambda: ServerConnection(self, loop)
        from tornado_gate.http.server.tls import make_connection

        return lambda: make_connection(cast("ssl.SSLContext", self._tls), self, loop)

    def stop(self) -> None:
        """Accept no new connections. Idle ones close; running requests get a response with `Connection: close`."""
        self.retire()
        self.stop_listening()
        self.close_idle()

    def retire(self) -> None:
        """Respond to each further request with `Connection: close`. New connections are still accepted."""
        self.retiring = True

    def stop_listening(self) -> None:
        """Accept no new connections. If another process has the same sockets, it accepts the connections in their queues."""
        for serving in self._listening:
            serving.close()
        self._listening.clear()

    def close_idle(self) -> None:
        """Close connections without a request: idle ones now, others soon after their response."""
        self.stopping = True
        for connection in list(self._connections):
            connection.close_if_idle()

    def renew_certificate(self, context: ssl.SSLContext) -> None:
        """Use the certificate of `context` for new connections of a server that has one."""
        self._tls = context

    async def wait_closed(self) -> None:
        """Wait until no connection is open, except WebSockets."""
        if self._connections:
            self._empty = asyncio.Event()
            await self._empty.wait()

    async def close_all_connections(self) -> None:
        """Close all connections and wait until they are closed. WebSockets stay open, as with Tornado's server."""
        for connection in list(self._connections):
            connection.abort()
        await self.wait_closed()

    # Called by connections

    def on_connected(self, connection: ServerConnection, address: str) -> bool:
        """Register a new connection. Return False if it exceeds a limit."""
        limit = self.limits.admit(connection, address)
        if limit is not None:
            self.refusals.on_limit(limit, address)
            if limit is not Limit.CONNECTIONS or not self._close_waiting():
                return False
            self.limits.admit(connection, address)
        self._connections.add(connection)
        return True

    def _close_waiting(self) -> bool:
        """Close some connections that wait for a request, starting with the least time left. Return whether any was closed.

        So connections without requests do not lock out others. Several are closed, because the search looks at all.
        """
        waiting = [
            (until, connection) for connection in self._connections if (until := connection.waits_until) is not None
        ]
        has_closed = False
        for _, connection in nsmallest(max(1, len(self._connections) // WAITING_SHARE), waiting, key=itemgetter(0)):
            if connection.abort_if_idle():
                self.limits.release(connection)
                has_closed = True
        return has_closed

    def on_disconnected(self, connection: ServerConnection) -> None:
        """Unregister a connection that is closed or has switched its protocol. `limits` still counts it until it is closed."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self.application.on_close(connection)
        if self._empty is not None and not self._connections:
            self._empty.set()
