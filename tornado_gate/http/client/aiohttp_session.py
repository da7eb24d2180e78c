"""Connections of aiohttp for WebSockets to upstreams: `http.websocket` makes the handshake on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tornado_gate.http.client.faults import (
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    MalformedResponse,
)

if TYPE_CHECKING:
    import aiohttp


def create_session(connect_seconds: float) -> aiohttp.ClientSession:
    """Create a session without cookies, proxies and a user agent of its own."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=64 * 1024,
        auto_decompress=False,  # its decompression of one chunk is not bounded
        skip_auto_headers=("User-Agent",),
    )


def as_fault(error: Exception) -> HttpClientError:
    """Map an aiohttp exception raised before the response's head to an exception of `client.faults`."""
    import aiohttp

    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectTimeout("no connection within the connect timeout")
    kind: type[HttpClientError] = ConnectionBroken
    if isinstance(error, aiohttp.ClientConnectorError):
        kind = ConnectError
    elif isinstance(error, aiohttp.ClientResponseError):
        kind = MalformedResponse
    return kind(f"{type(error).__name__}: {error}")
