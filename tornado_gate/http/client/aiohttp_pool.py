"""The same client on aiohttp: slower, and general. Also the way of plugins that put a session of their own between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tornado_gate.http.client.connection import Body
from tornado_gate.http.client.faults import Broken, Fault, NotConnected, NotConnectedInTime
from tornado_gate.http.client.request import Pairs, completed
from tornado_gate.http.client.response import same

if TYPE_CHECKING:
    import aiohttp


def session(connect_seconds: float) -> aiohttp.ClientSession:
    """A session that keeps connections and notes, for `AiohttpClient`, when it uses one again."""
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(_note_reuse)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=64 * 1024,
        trace_configs=[trace],
        skip_auto_headers=("User-Agent",),
    )


async def _note_reuse(_session: Any, context: SimpleNamespace, _parameters: Any) -> None:
    if context.trace_request_ctx is not None:  # as for a WebSocket, whose handshake is not tried again
        context.trace_request_ctx.reused = True


class AiohttpAnswer:
    """As `client_answer.Answer`."""

    __slots__ = ("_response", "explain", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: dict[str, str] = {}
        self.explain: Callable[[Fault], Exception] = same
        self._response = response
        for name, value in response.headers.items():
            key = name.lower()
            self.headers[key] = f"{self.headers[key]}, {value}" if key in self.headers else value

    def __aiter__(self) -> AiohttpAnswer:
        return self

    async def __anext__(self) -> bytes:
        import aiohttp

        try:
            piece = await self._response.content.readany()
        except (asyncio.CancelledError, GeneratorExit):
            self.close()
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self.explain(Broken(f"{type(error).__name__}: {error}")) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    def whole(self) -> bytes:
        """Of a body of aiohttp's nobody knows whether it has come to its end."""
        return b""

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        self._response.close()


class AiohttpClient:
    """As `client.Client`, on anything with the `request` of an aiohttp session."""

    __slots__ = ("_session",)

    def __init__(self, session: Any) -> None:
        self._session = session

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Body | None = None,
        usual: Pairs = (),
    ) -> AiohttpAnswer:
        """Raises as `client.Client` does."""
        import aiohttp

        try:
            return AiohttpAnswer(await self._exchange(method, url, completed(headers, usual), body))
        except aiohttp.ClientConnectorError as error:
            raise NotConnected(f"{type(error).__name__}: {error}") from error
        except TimeoutError as error:
            raise NotConnectedInTime("no connection in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Broken(f"{type(error).__name__}: {error}") from error

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | Body | None
    ) -> aiohttp.ClientResponse:
        """One exchange; a second when a kept connection was closed by the other side in the moment we used it."""
        import aiohttp

        if body is not None and not isinstance(body, bytes):  # or it would be sent in chunks
            headers = {**headers, "Content-Length": str(body.length)}
        for last_try in (False, True):
            context = SimpleNamespace(reused=False)
            try:
                return await self._session.request(  # type: ignore[no-any-return]
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
