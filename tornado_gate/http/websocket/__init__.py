"""The default `open_socket`: a WebSocket to a provider, from the connection pool of its entry.

aiohttp connects and does the handshake; then `WebSocketConnection` takes over the transport.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tornado_gate.errors import UpstreamError
from tornado_gate.http.client.faults import HttpClientError
from tornado_gate.http.upstream import check_host, connection_error, make_refusal_error
from tornado_gate.http.upstream_errors import connection_lost
from tornado_gate.http.websocket.connection import Receive, WebSocketConnection
from tornado_gate.types import Call, RealtimeDialect, UpstreamRequest

if TYPE_CHECKING:
    import aiohttp

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
SWITCHING_PROTOCOLS = 101
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class UpstreamSocket:
    """A `Socket` on aiohttp's transport. Reading starts with `relay_to` or the first `receive`.

    `relay_to` and `write` are extensions of `Socket` that need no task per message.
    """

    __slots__ = (
        "_connection",
        "_dialect",
        "_end",
        "_ended",
        "_news",
        "_provider",
        "_response",
        "_taken",
        "_texts",
        "_told",
    )

    def __init__(self, response: aiohttp.ClientResponse, provider: str, dialect: RealtimeDialect) -> None:
        self._connection = WebSocketConnection(server=False, most=MAX_MESSAGE_BYTES, ended=self._on_end)
        self._response = response  # aiohttp closes the connection when the response is garbage-collected
        self._provider = provider
        self._dialect = dialect
        self._ended = False
        self._end: asyncio.Future[None] | None = None
        self._told: Callable[[], None] | None = None
        self._texts: list[str] | None = None
        self._news: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None
        _take_over_transport(response, self._connection)

    @property
    def dialect(self) -> RealtimeDialect:
        return self._dialect

    @property
    def close_code(self) -> int | None:
        return self._connection.close_code

    @property
    def close_reason(self) -> str:
        return self._connection.close_reason

    @property
    def lost_error(self) -> UpstreamError:
        """Return the error for a broken connection."""
        return connection_lost(self._provider, answered=True)

    def relay_to(self, receive: Receive, ended: Callable[[], None]) -> None:
        """Pass each message to `receive`, with back-pressure; replaces calls of `self.receive`.

        `ended` is called once, after the last message; `close_code` is then None if the connection broke.
        """
        self._told = ended
        if self._ended:
            asyncio.get_running_loop().call_soon(ended)
        else:
            self._connection.begin(receive)

    def write(self, text: str) -> asyncio.Future[None] | None:
        """Write as `send`, without a task: return None or a future to wait for.

        Raises UpstreamError if the connection is broken.
        """
        try:
            return self._connection.write(text)
        except ConnectionError as error:
            raise self.lost_error from error

    async def send(self, text: str) -> None:
        rest = self.write(text)
        if rest is not None:
            await asyncio.shield(rest)

    async def receive(self) -> str | None:
        if self._texts is None:
            self._texts = []
            if not self._ended:
                self._connection.begin(self._queue_message)
        while not self._texts:
            if self._ended:
                if self.close_code is None:
                    raise self.lost_error
                return None
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        return self._texts.pop(0)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close; return when the connection is closed, which takes at most a few seconds."""
        if self._ended:
            return
        self._connection.close(code, reason)
        if self._end is None:
            self._end = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._end)

    def _queue_message(self, text: str | bytes) -> asyncio.Future[None]:
        assert self._texts is not None
        self._texts.append(str(text))
        self._taken = asyncio.get_running_loop().create_future()
        self._wake_reader()
        return self._taken

    def _on_end(self) -> None:
        self._ended = True
        self._response.close()
        self._wake_reader()
        on_end, self._told = self._told, None
        if on_end is not None:
            on_end()
        if self._end is not None:
            self._end.set_result(None)

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def _take_over_transport(response: aiohttp.ClientResponse, connection: WebSocketConnection) -> None:
    """Take over the transport from aiohttp, with the data that arrived since the handshake."""
    held = response.connection
    if held is None or held.protocol is None or held.transport is None:
        raise ConnectionResetError("the upstream has closed the connection")
    held.protocol.set_parser(_EarlyDataReceiver(connection), None)
    connection.take_over(held.transport, held.protocol)


class _EarlyDataReceiver:
    """A receiver of the bytes after the response's head, from aiohttp."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self._connection.feed(data)
        return False, b""

    def feed_eof(self) -> None:
        """Do nothing: the transport reports the end to the connection."""


async def open_socket(call: Call, outgoing: UpstreamRequest) -> UpstreamSocket:
    """Connect. Raises UpstreamError or a subclass, by the same table as HTTP, if the upstream does not upgrade."""
    import aiohttp

    from tornado_gate.http.client.aiohttp_session import as_fault

    check_host(call, outgoing)
    provider = call.target.provider
    try:
        response = await _perform_handshake(call, outgoing)
        socket = UpstreamSocket(response, provider, "beta" if outgoing.context == "beta" else "current")
    except (HttpClientError, ValueError) as error:  # closed pool; invalid URL
        raise connection_error(provider, error) from error
    except (aiohttp.ClientError, OSError) as error:
        raise connection_error(provider, as_fault(error)) from error
    call.closing.push_async_callback(socket.close)
    return socket


async def _perform_handshake(call: Call, outgoing: UpstreamRequest) -> aiohttp.ClientResponse:
    """Return the upstream's 101 response (RFC 6455, 4.1). Raises UpstreamError for any other, and aiohttp's exceptions."""
    key = base64.b64encode(os.urandom(16))
    headers = {
        **outgoing.headers,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key.decode(),
    }
    response: aiohttp.ClientResponse = await call.pool.session().get(
        outgoing.url, headers=headers, allow_redirects=False, read_until_eof=False
    )
    told = {name.lower(): value for name, value in response.headers.items()}
    connection = ",".join(response.headers.getall("Connection", ()))
    accepted = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
    if (
        response.status == SWITCHING_PROTOCOLS
        and told.get("upgrade", "").lower() == "websocket"
        and "upgrade" in [option.strip().lower() for option in connection.split(",")]
        and told.get("sec-websocket-accept") == accepted
    ):
        return response
    response.close()
    raise make_refusal_error(call, response.status, told, b"")
