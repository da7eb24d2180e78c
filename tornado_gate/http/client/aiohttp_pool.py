"""The same client interface on aiohttp: slower, with more features."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tornado_gate.http.client.connection import SizedBody
from tornado_gate.http.client.faults import (
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    MalformedResponse,
)
from tornado_gate.http.client.request import HeaderPairs, add_default_headers
from tornado_gate.http.client.response import return_unchanged

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL


def create_session(connect_seconds: float) -> aiohttp.ClientSession:
    """Create a session that keeps connections open and marks reused ones for `AiohttpClient`."""
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_mark_reused)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=64 * 1024,
        trace_configs=[trace],
        skip_auto_headers=("User-Agent",),
    )


async def _mark_reused(_session: Any, context: SimpleNamespace, _parameters: Any) -> None:
    if context.trace_request_ctx is not None:  # None for a WebSocket, whose handshake is not retried
        context.trace_request_ctx.reused = True


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


class AiohttpResponse:
    """Interface of `client.response.HttpResponse` on an aiohttp response."""

    __slots__ = ("_response", "explain", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: dict[str, str] = {}
        self.explain: Callable[[HttpClientError], Exception] = return_unchanged
        self._response = response
        for name, value in response.headers.items():
            key = name.lower()
            self.headers[key] = f"{self.headers[key]}, {value}" if key in self.headers else value

    def __aiter__(self) -> AiohttpResponse:
        return self

    async def __anext__(self) -> bytes:
        import aiohttp

        try:
            piece = await self._response.content.readany()
        except (asyncio.CancelledError, GeneratorExit):
            self.close()
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self.explain(ConnectionBroken(f"{type(error).__name__}: {error}")) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    def take_complete_body(self) -> bytes:
        """Return b"": aiohttp does not tell whether a body is complete."""
        return b""

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._response.close()


class AiohttpClient:
    """Interface of `client.pool.HttpClient` on an aiohttp session."""

    __slots__ = ("_session",)

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | SizedBody | None = None,
        usual: HeaderPairs = (),
        *,
        exact: bool = False,
    ) -> AiohttpResponse:
        """As `HttpClient.request`; raises the same exceptions."""
        import aiohttp
        from yarl import URL

        try:
            place = URL(url, encoded=exact and url.isascii())
            return AiohttpResponse(
                await self._request_with_retry(method, place, add_default_headers(headers, usual), body)
            )
        except aiohttp.InvalidURL:
            raise  # it is a ValueError, as of `HttpClient`
        except (aiohttp.ClientError, OSError) as error:
            raise as_fault(error) from error

    async def _request_with_retry(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | SizedBody | None
    ) -> aiohttp.ClientResponse:
        """Send a request; send it again once if a reused connection was closed by the upstream before a response."""
        import aiohttp

        if body is not None and not isinstance(body, bytes):  # otherwise aiohttp sends it chunked
            headers = {**headers, "Content-Length": str(body.length)}
        for last_try in (False, True):
            context = SimpleNamespace(reused=False)
            try:
                return await self._session.request(
                    method,
                    url,
                    data=body if body is None or isinstance(body, bytes) else body.chunks(),
                    headers=headers,
                    allow_redirects=False,
                    trace_request_ctx=context,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError):
                if last_try or not context.reused:
                    raise
        raise AssertionError("the loop returns or raises")
