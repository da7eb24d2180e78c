"""Tornado's own HTTPServer (``server.http: tornado``), with the limits of connections that it can have.

Tornado reads, parses and writes. Added here are: the number of open connections (`limits`), a time for the head of the first
request, and an end for clients that do not read. Differences to `front`:

- A WebSocket is counted until its handshake. After it, the limits of sessions apply.
- The kernel closes the connection of a client that does not read (TCP_USER_TIMEOUT, Linux only), so it is not counted.
- Malformed requests get Tornado's response, a status line without a body, and Tornado accepts more of them (table in `head`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream
from tornado.web import Application

from tornado_gate.http.server.front import HEADER_BYTES, WAITING_SHARE
from tornado_gate.http.server.head import check_method
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import LINGER_SECONDS, Times, has_unread_input
from tornado_gate.http.server.refusals import Limit, Refusals, Refused, too_many_connections_error

if TYPE_CHECKING:
    import ssl

LINGER_READS: Final = 64
"""The number of chunks of a refused client that are discarded."""
_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)
"""A socket option of Linux only."""


class TornadoServer(HTTPServer):
    """Tornado's HTTPServer as a `Listener` of the server process.

    It cannot close idle connections without losing a request that is on its way. So at a stop they are closed together with all
    others.
    """

    def initialize(  # type: ignore[override]  # Tornado calls it with the constructor's arguments
        self,
        application: Application,
        *,
        times: Times,
        limits: ConnectionLimits,
        refusals: Refusals,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Set the options. `limits` count open connections. `refusals` renders the 503 of excess ones. `tls`: serve HTTPS."""
        super().initialize(
            application,
            ssl_options=tls,
            max_header_size=HEADER_BYTES,
            idle_connection_timeout=times.idle_seconds,
            body_timeout=times.body_seconds,
        )
        self._times = times
        self._limits = limits
        self._refusals = refusals
        self._waiting: dict[IOStream, float] = {}
        """Connections that wait for the head of a request, with the start of the wait."""
        self._first: dict[IOStream, asyncio.TimerHandle] = {}
        """The time limits of connections that wait for the head of their first request."""
        self._refused: set[asyncio.Task[None]] = set()

    # Listener

    def retire(self) -> None:
        """Do nothing: handlers send `Connection: close`."""

    def stop_listening(self) -> None:
        """Accept no new connections."""
        self.stop()

    def close_idle(self) -> None:
        """Do nothing: idle connections are closed by `close_all_connections`."""

    async def wait_closed(self) -> None:
        """Return without waiting."""

    def renew_certificate(self, context: ssl.SSLContext) -> None:
        """Use the certificate of `context` for new connections of a server that has one."""
        self.ssl_options = context

    # Called by Tornado

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Serve a new connection, or refuse it with a 503 if it exceeds a limit."""
        peer = address[0] if isinstance(address, tuple) and address else ""
        if _USER_TIMEOUT is not None and stream.socket.family != socket.AF_UNIX:
            stream.socket.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(self._times.stall_seconds * 1000))
        limit = self._limits.admit(stream, peer)
        if limit is not None:
            self._refusals.on_limit(limit, peer)
            if limit is not Limit.CONNECTIONS or not self._close_waiting():
                self._refuse(stream, self._refusals.answer(too_many_connections_error(), {}, "", ""))
                return
            self._limits.admit(stream, peer)
        loop = asyncio.get_running_loop()
        self._waiting[stream] = loop.time()  # others may arrive before Tornado begins to read
        self._first[stream] = loop.call_later(self._times.first_head_seconds, self._end_first_wait, stream, peer)
        super().handle_stream(stream, address)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Start a request as HTTPServer does. The connection waits for a request until the head has arrived."""
        stream = cast(HTTP1ServerConnection, server_conn).stream
        self._waiting[stream] = asyncio.get_running_loop().time()
        inner = super().start_request(server_conn, request_conn)
        return _HeadWatcher(inner, partial(self._accept_head, cast(HTTP1Connection, request_conn), stream))

    def on_close(self, server_conn: object) -> None:
        """Close as HTTPServer does. Tornado also calls it when a WebSocket has taken the connection."""
        stream = cast(HTTP1ServerConnection, server_conn).stream
        self._end_wait(stream)
        self._limits.release(stream)
        super().on_close(server_conn)

    def _accept_head(
        self, connection: HTTP1Connection, stream: IOStream, start_line: RequestStartLine, headers: HTTPHeaders
    ) -> bool:
        """End the wait for a head. Return False for a method that HTTP does not have; then the connection ends with a 501."""
        self._end_wait(stream)
        try:
            check_method(start_line.method)
        except Refused as refused:
            fields = {name.lower(): value for name, value in headers.items()}
            path = start_line.path.partition("?")[0]
            answer = self._refusals.answer(refused.error, fields, start_line.method, path)
            connection.detach()
            # Later: Tornado calls `on_close` first, which removes the connection from the counts.
            asyncio.get_running_loop().call_soon(self._refuse, stream, answer)
            return False
        return True

    # Waiting connections

    def _end_wait(self, stream: IOStream) -> None:
        """End the wait after the head of a request has arrived, or the connection is closed."""
        self._waiting.pop(stream, None)
        timer = self._first.pop(stream, None)
        if timer is not None:
            timer.cancel()

    def _end_first_wait(self, stream: IOStream, peer: str) -> None:
        """Close the connection because the time for the head of the first request has passed."""
        self._refusals.on_limit(Limit.HEAD_TIME, peer)
        stream.close()

    def _close_waiting(self) -> bool:
        """Close some connections that wait for a request, starting with the longest wait. Return whether any was closed."""
        streams = sorted(self._waiting, key=self._waiting.__getitem__)
        idle = (stream for stream in streams if not has_unread_input(stream.socket))
        has_closed = False
        for stream in islice(idle, max(1, len(self._connections) // WAITING_SHARE)):
            self._end_wait(stream)
            self._limits.release(stream)
            stream.close()
            has_closed = True
        return has_closed

    def _refuse(self, stream: IOStream, answer: bytes) -> None:
        """Close a connection; with `answer`, unless many such connections are already closing."""
        if not self._limits.may_linger(stream):
            stream.close()
            return
        task = asyncio.create_task(self._send_refusal(stream, answer))
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)

    async def _send_refusal(self, stream: IOStream, answer: bytes) -> None:
        """Send `answer` and read until the client has closed: an immediate close would reset the connection and lose it."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await stream.write(answer)
                stream.socket.shutdown(socket.SHUT_WR)
                for _ in range(LINGER_READS):
                    await stream.read_bytes(stream.read_chunk_size, partial=True)
        except (OSError, TimeoutError):
            pass  # the client has closed, or takes too long
        finally:
            self._limits.release(stream)
            stream.close()


class _HeadWatcher(HTTPMessageDelegate):
    """A delegate that passes a request to its handler, unless the server refuses its head."""

    def __init__(
        self, inner: HTTPMessageDelegate, accept_head: Callable[[RequestStartLine, HTTPHeaders], bool]
    ) -> None:
        self._inner = inner
        self._accept_head = accept_head

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        if not self._accept_head(cast(RequestStartLine, start_line), headers):
            return None
        return self._inner.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        self._inner.finish()

    def on_connection_close(self) -> None:
        self._inner.on_connection_close()
