"""Connections of aiohttp for WebSockets to upstreams: `http.websocket` makes the handshake on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tornado_gate.http.client.faults import (
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    MalformedResponse,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import aiohttp

    from tornado_gate.config.network import Proxy


def create_session(connect_seconds: float, tls: ssl.SSLContext | None = None) -> aiohttp.ClientSession:
    """Create a session without cookies and a user agent of its own. `tls` replaces the default TLS context."""
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=64 * 1024,
        auto_decompress=False,  # its decompression of one chunk is not bounded
        skip_auto_headers=("User-Agent",),
    )


def make_request_options(url: str, headers: Mapping[str, str], proxy: Proxy | None) -> dict[str, Any]:
    """Return the options of a request with `headers` to `url` that goes through `proxy`; None: directly.

    aiohttp sends `proxy_headers` only to open a tunnel. A request without TLS goes to the proxy itself, with its login.
    """
    if proxy is None:
        return {"headers": headers}
    login = {"Proxy-Authorization": proxy.authorization} if proxy.login else {}
    if url.startswith(("https:", "wss:")):
        return {"headers": headers, "proxy": proxy.url, "proxy_headers": login}
    return {"headers": {**headers, **login}, "proxy": proxy.url}


def as_fault(error: Exception) -> HttpClientError:
    """Map an aiohttp exception raised before the response's head to an exception of `client.faults`."""
    import aiohttp

    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ConnectTimeout("no connection within the connect timeout")
    if isinstance(error, aiohttp.ClientHttpProxyError):  # its text has the whole URL
        return ConnectError(f"the proxy opened no tunnel (status {error.status}); check its login, and what it allows")
    kind: type[HttpClientError] = ConnectionBroken
    if isinstance(error, aiohttp.ClientConnectorError):
        kind = ConnectError
    elif isinstance(error, aiohttp.ClientResponseError):
        kind = MalformedResponse
    return kind(f"{type(error).__name__}: {error}")
