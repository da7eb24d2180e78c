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
from tornado_gate.http.client.request import Origin

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    import aiohttp

    from tornado_gate.config.network import Proxy
    from tornado_gate.http.client.pool import HttpClient


def create_session(
    connect_seconds: float, tls: ssl.SSLContext | None = None, tunnels: HttpClient | None = None
) -> aiohttp.ClientSession:
    """Create a session without cookies and a user agent of its own. `tls` replaces the default TLS context.

    `tunnels` is a client with a proxy that opens the connections, all of them through tunnels.
    """
    import aiohttp

    connector = aiohttp.TCPConnector if tunnels is None else make_tunnel_connector(tunnels)
    return aiohttp.ClientSession(
        connector=connector(limit=0, keepalive_timeout=30, ssl=tls or True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=64 * 1024,
        auto_decompress=False,  # its decompression of one chunk is not bounded
        skip_auto_headers=("User-Agent",),
    )


def make_tunnel_connector(client: HttpClient) -> type[aiohttp.TCPConnector]:
    """Return a connector whose connections `client` opens. aiohttp itself sends a request without TLS to the proxy instead.

    A WebSocket needs a tunnel (RFC 6455 4.1), because proxies do not forward an upgrade.
    """
    import aiohttp

    class TunnelConnector(aiohttp.TCPConnector):
        async def _create_connection(self, req: Any, *_: Any) -> Any:
            scheme = "https" if req.is_ssl() else "http"
            return await client.open_tunneled(Origin(scheme, req.url.raw_host, req.url.port), self._factory)

    return TunnelConnector


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
    kind: type[HttpClientError] = ConnectionBroken
    if isinstance(error, aiohttp.ClientConnectorError):
        kind = ConnectError
    elif isinstance(error, aiohttp.ClientResponseError):
        kind = MalformedResponse
    return kind(f"{type(error).__name__}: {error}")
