"""A small HTTP/1.1 client: connection reuse, one request at a time per connection, response bodies with back-pressure.

Without redirects, cookies and caches, which a gateway does not need towards its upstreams.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

from tornado_gate.http.client.connection import ClientConnection, SizedBody
from tornado_gate.http.client.faults import ConnectError, ConnectionBroken, ConnectTimeout
from tornado_gate.http.client.head import IDLE_SECONDS
from tornado_gate.http.client.lookups import Lookups
from tornado_gate.http.client.request import (
    HeaderPairs,
    Origin,
    PreparedHead,
    finish_head,
    parse_exact_address,
    prepare_head,
    render_header_lines,
)
from tornado_gate.http.client.response import HttpResponse
from tornado_gate.streams.fair_timeouts import limit_running_time

if TYPE_CHECKING:
    from tornado_gate.config.network import Proxy

MAX_CACHED_HEADERS = 64
"""Size of the caches of rendered headers and of prepared heads; requests to one provider differ little in them."""

ATTEMPT_SECONDS = 0.25
"""Delay before the next address is tried in parallel (Happy Eyeballs, RFC 8305 5)."""


@cache
def make_default_ssl_context() -> ssl.SSLContext:
    """Return the context with the system's certificates and host name checks. Created once: it reads files."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    return context


PROVEN_RESPONSES, PROVEN_IDLE_SECONDS = 3, 0.1
"""A connection that has stayed open after so many responses, and was idle for a shorter time, is used without looking at its
socket.

The look would take a system call per request. The upstream does not close after each response, and no known server has an idle
timeout that short.
"""


_Protocol = TypeVar("_Protocol", bound=asyncio.BaseProtocol)


class HttpClient:
    """A client with connections to any number of origins, one per concurrent request. It belongs to one event loop.

    `connect_seconds` covers everything until a request can be sent: DNS, TCP, the tunnel of a proxy, TLS. `tls` replaces the
    default TLS context.
    """

    def __init__(self, connect_seconds: float, tls: ssl.SSLContext | None = None, proxy: Proxy | None = None) -> None:
        self._connect_seconds = connect_seconds
        self._tls = tls
        self._proxy = proxy
        # One cache per client, so that keys are dropped with it. URLs of one provider may differ while its headers are equal.
        lines = lru_cache(maxsize=MAX_CACHED_HEADERS)(render_header_lines)
        self._opening = lru_cache(maxsize=MAX_CACHED_HEADERS)(partial(prepare_head, lines=lines))
        self._exact_opening: Callable[..., PreparedHead] = partial(prepare_head, find=parse_exact_address)
        if proxy is not None:
            from tornado_gate.http.client.proxy import prepare_proxied_head

            self._opening = lru_cache(maxsize=MAX_CACHED_HEADERS)(partial(prepare_proxied_head, proxy))
            self._exact_opening = partial(prepare_proxied_head, proxy, exact=True)
        self._prepared: dict[str, tuple[Mapping[str, str], HeaderPairs, PreparedHead]] = {}
        """By URL, the head of the last POST whose headers were a read-only mapping, which a provider reuses for its requests."""
        self._loop = asyncio.get_running_loop()
        self._lookups = Lookups(self._loop)
        self._open: set[ClientConnection] = set()
        # Per origin, most recently used last.
        self._idle: defaultdict[Origin, dict[ClientConnection, float]] = defaultdict(dict)
        self._sweep: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | SizedBody | None = None,
        usual: HeaderPairs = (),
        *,
        exact: bool = False,
    ) -> HttpResponse:
        """Send a request and return the response when its head has arrived.

        Method and headers are sent unchanged; with `exact` also the URL, which is then not cached. `usual` are defaults for names
        that `headers` lacks. Raises ValueError for a request that cannot be sent, ConnectError, ConnectionBroken and
        MalformedResponse.

        If a reused connection is closed before any byte of a response, the request may be sent again on a new one. The condition
        is that the upstream cannot have processed it twice with an effect: it was not sent completely, or its method is
        idempotent. Go's net/http has the same rule (transport.go, shouldRetryRequest). Other requests raise ConnectionBroken.
        """
        make = self._exact_opening if exact else self._opening
        origin, start, bodiless, sized, idempotent = make(method, url, tuple(headers.items()), usual)
        if body is None:
            head, body = finish_head(start, 0 if sized else None), b""
        else:
            head = finish_head(start, len(body) if isinstance(body, bytes) else body.length)
        kept = self._take_idle_connection(origin)
        if kept is not None:
            try:
                return await kept.begin_request(head, body, bodiless=bodiless).wait_for_head()
            except ConnectionBroken as broken:
                if not (broken.unsent or (broken.unanswered and idempotent)):
                    raise
        connection = await self._connect_in_time(origin)
        return await connection.begin_request(head, body, bodiless=bodiless).wait_for_head()

    def begin_post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        usual: HeaderPairs,
        check: Callable[[], None],
    ) -> HttpResponse | None:
        """Send a POST as `request`, on an idle connection. Return its response before its head has arrived; None if no
        connection is idle. `check` is called unless it was called for the same URL and read-only mapping of headers.
        Raises its exceptions, and ValueError for a request that cannot be sent.

        If the connection breaks before the request is sent completely, the fault of the response is `unsent`, and the
        request may be sent again.
        """
        known = self._prepared.get(url)
        if known is None or known[0] is not headers or known[1] is not usual:
            check()
            prepared = self._prepare_post(url, headers, usual)
        else:
            prepared = known[2]
        kept = self._take_idle_connection(prepared.origin)
        if kept is None:
            return None
        return kept.begin_request(b"%bContent-Length: %d\r\n\r\n" % (prepared.start, len(body)), body)

    def _prepare_post(self, url: str, headers: Mapping[str, str], usual: HeaderPairs) -> PreparedHead:
        prepared = self._opening("POST", url, tuple(headers.items()), usual)
        if type(headers) is MappingProxyType:
            if len(self._prepared) >= MAX_CACHED_HEADERS:
                self._prepared.clear()
            self._prepared[url] = headers, usual, prepared
        return prepared

    async def close(self) -> None:
        """Close every connection, including busy ones; return when all are closed."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._closed = self._loop.create_future()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await self._closed

    # Called by connections.

    def on_connection_idle(self, connection: ClientConnection) -> None:
        if self._closed is not None:
            connection.abort()
            return
        self._idle[connection.origin][connection] = self._loop.time()
        if self._sweep is None:
            self._sweep = self._loop.call_later(IDLE_SECONDS, self._close_idle)

    def on_connection_lost(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        self._idle.get(connection.origin, {}).pop(connection, None)
        if self._closed is not None and not self._open and not self._closed.done():
            self._closed.set_result(None)

    def _take_idle_connection(self, origin: Origin) -> ClientConnection | None:
        """Return the most recently used idle connection, so that unneeded ones reach the idle timeout.

        Connections that the upstream has closed, or is about to close, are dropped: a request must not be lost on them.
        """
        idle = self._idle.get(origin)
        now = self._loop.time() if idle else 0.0
        while idle:
            connection, since = idle.popitem()
            if not connection.is_usable:
                continue
            seconds = now - since
            if seconds < connection.idle_seconds and (
                (seconds < PROVEN_IDLE_SECONDS and connection.answered >= PROVEN_RESPONSES)
                or not connection.has_input()
            ):
                return connection
            connection.abort()
        return None

    def _close_idle(self) -> None:
        now, oldest = self._loop.time(), []
        for origin, idle in list(self._idle.items()):
            for connection in [
                idle_connection for idle_connection, since in idle.items() if now - since >= IDLE_SECONDS
            ]:
                del idle[connection]
                connection.abort()
            if idle:
                oldest.append(next(iter(idle.values())))
            else:
                del self._idle[origin]
        self._sweep = self._loop.call_at(min(oldest) + IDLE_SECONDS, self._close_idle) if oldest else None

    # New connections.

    async def open_tunneled(self, origin: Origin, make: Callable[[], _Protocol]) -> _Protocol:
        """Connect a protocol of the caller to an origin, through a tunnel of the proxy even without TLS.

        The caller closes the connection. Raises ConnectError.
        """
        return await self._limit_time(self._open_protocol(origin, lambda _opened: make(), needs_tunnel=True))

    async def _connect_in_time(self, origin: Origin) -> ClientConnection:
        return await self._limit_time(self._connect(origin))

    async def _limit_time(self, connecting: Awaitable[_Protocol]) -> _Protocol:
        try:
            async with limit_running_time(self._connect_seconds):
                return await connecting
        except TimeoutError as error:
            raise ConnectTimeout(f"no connection within {self._connect_seconds:g} s") from error
        except (OSError, ValueError) as error:  # ValueError: invalid host names
            raise ConnectError(f"{type(error).__name__}: {error}") from error

    async def _connect(self, origin: Origin) -> ClientConnection:
        connection = await self._open_protocol(
            origin, lambda opened: ClientConnection(self, origin, self._loop, opened)
        )
        # Only now: uvloop does not report the end of a connection whose creation was cancelled.
        if connection.is_open:
            self._open.add(connection)
        if self._closed is not None:
            connection.abort()
        return connection

    async def _open_protocol(
        self, origin: Origin, make: Callable[[socket.socket], _Protocol], *, needs_tunnel: bool = False
    ) -> _Protocol:
        trust = (self._tls or make_default_ssl_context()) if origin.scheme == "https" else None
        proxy = self._proxy if self._proxy is not None and self._proxy.covers(origin.host) else None
        hop = origin if proxy is None else Origin("http", proxy.host, proxy.port)
        addresses = await self._resolve_origin(hop)
        opened = await start_connection(addresses, happy_eyeballs_delay=ATTEMPT_SECONDS, interleave=1, loop=self._loop)
        _set_options(opened)
        if proxy is not None and (needs_tunnel or trust is not None):
            await self._open_tunnel(opened, proxy, origin)
        server_name = origin.host.rstrip(".") if trust else None
        _, protocol = await self._loop.create_connection(
            lambda: make(opened), sock=opened, ssl=trust, server_hostname=server_name
        )
        return protocol

    async def _open_tunnel(self, opened: socket.socket, proxy: Proxy, origin: Origin) -> None:
        from tornado_gate.http.client.proxy import open_tunnel

        try:
            await open_tunnel(self._loop, opened, proxy, origin)
        except BaseException:
            opened.close()
            raise

    async def _resolve_origin(self, origin: Origin) -> Sequence[AddrInfoType]:
        try:
            return socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:  # not an IP address but a name; the lookup may block
            return await self._lookups.find_addresses(origin.host, origin.port)


KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""A vanished upstream is noticed after a minute, even while a response is awaited that takes long to begin."""


def _set_options(opened: socket.socket) -> None:
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        if hasattr(socket, name):  # not on every system
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
