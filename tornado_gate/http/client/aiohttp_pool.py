"""The same client interface on aiohttp: slower, with more features."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tornado_gate.http.client.connection import SizedBody
from tornado_gate.http.client.content_coding import Inflater, make_inflater
from tornado_gate.http.client.faults import (
    ConnectError,
    ConnectionBroken,
    ConnectTimeout,
    HttpClientError,
    MalformedResponse,
    ResponseTooLarge,
)
from tornado_gate.http.client.request import HeaderPairs, add_default_headers, is_idempotent
from tornado_gate.http.client.response import (
    RELEASE_SECONDS,
    UNBOUNDED,
    SizeBound,
    check_announced_length,
    return_unchanged,
)

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
        auto_decompress=False,  # its decompression of one piece is not bounded
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
    """A response with the interface of `client.response.HttpResponse` on an aiohttp response."""

    __slots__ = ("_bound", "_inflater", "_left", "_released", "_response", "explain", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        """Create a response. Raises MalformedResponse for an unsupported content coding."""
        self.status = response.status
        self._bound = UNBOUNDED
        self._left = sys.maxsize
        self.headers: dict[str, str] = {}
        self.explain: Callable[[HttpClientError], Exception] = return_unchanged
        self._response = response
        self._released = False
        for name, value in response.headers.items():
            key = name.lower()
            self.headers[key] = f"{self.headers[key]}, {value}" if key in self.headers else value
        self._inflater = make_inflater(self.headers.get("content-encoding", ""))

    def limit_size(self, bound: SizeBound) -> None:
        """Limit the size as `HttpResponse.limit_size`."""
        self._bound, self._left = bound, bound.most
        check_announced_length(self.headers, bound)

    def __aiter__(self) -> AiohttpResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await (self._read() if self._inflater is None else self._read_inflated(self._inflater))
            self._left -= len(piece)
            if self._left < 0:
                raise ResponseTooLarge(*self._bound)
        except HttpClientError as fault:
            self.close()
            raise self.explain(fault) from fault
        except (asyncio.CancelledError, GeneratorExit):
            self.close()
            raise
        if not piece:
            raise StopAsyncIteration
        return piece

    async def _read(self) -> bytes:
        """Return the next data as received, b"" at the end. Raises ConnectionBroken."""
        import aiohttp

        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ConnectionBroken(f"{type(error).__name__}: {error}") from error

    async def _read_inflated(self, inflater: Inflater) -> bytes:
        """Return the next decompressed piece, b"" at the end. Raises HttpClientError."""
        if inflater.has_more:
            await asyncio.sleep(0)  # a small body may hold seconds of decompression
        piece = inflater.take(b"")
        while not piece:
            packed = await self._read()
            if not packed:
                inflater.finish()
                return b""
            piece = inflater.take(packed)
        return piece

    def take_complete_body(self) -> bytes:
        """Return b"": aiohttp does not report whether a body is complete."""
        return b""

    async def aclose(self) -> None:
        self.close()

    async def release(self) -> None:
        """Release as `HttpResponse.release`."""
        if not self._released:
            self._released = True
            asyncio.get_running_loop().call_later(RELEASE_SECONDS, self._response.close)

    def close(self) -> None:
        if not self._released:
            self._response.close()


def _make_response(response: aiohttp.ClientResponse) -> AiohttpResponse:
    """Wrap `response`; close it if its head is refused."""
    try:
        return AiohttpResponse(response)
    except HttpClientError:
        response.close()
        raise


def _is_repeatable(method: str, error: Exception) -> bool:
    import aiohttp

    return is_idempotent(method) or isinstance(error, aiohttp.ClientConnectionResetError)


class AiohttpClient:
    """A client with the interface of `client.pool.HttpClient` on an aiohttp session."""

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
        """Send a request as `HttpClient.request`; raises the same exceptions."""
        import aiohttp
        from yarl import URL

        try:
            target = URL(url, encoded=exact and url.isascii())
            return _make_response(
                await self._request_with_retry(method, target, add_default_headers(headers, usual), body)
            )
        except aiohttp.InvalidURL:
            raise  # it is a ValueError, as of `HttpClient`
        except (aiohttp.ClientError, OSError) as error:
            raise as_fault(error) from error

    async def _request_with_retry(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | SizedBody | None
    ) -> aiohttp.ClientResponse:
        """Send a request; send it again once on a new connection, by the rule of `HttpClient.request`.

        aiohttp itself repeats idempotent requests. For the others it only reports whether any byte was written.
        """
        import aiohttp

        for _ in range(2):  # lets the loop report connections that the upstream has closed: the pool then drops them
            await asyncio.sleep(0)
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
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionResetError) as error:
                if last_try or not context.reused or not _is_repeatable(method, error):
                    raise
        raise AssertionError("the loop returns or raises")
