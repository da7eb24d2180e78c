"""Both ends of a recorded realtime session: the messages pass a gateway in the order in which they passed it then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tornado_gate.testing.scripted_upstream import ReceivedRequest

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web

MESSAGE_SECONDS: Final = 5.0
"""The longest wait for a message that the gateway passed on when the tape was recorded."""


class SessionPlayer:
    """The caller and the upstream of a session. `messages` are those of a tape: pairs of kind and text.

    `passed` are the messages of the gateway, with their kinds: ``upstream_sent`` and ``answer_message``. `received` are the
    handshakes that the upstream has got, without the header `accept`, which the HTTP client adds.
    """

    def __init__(self, messages: Sequence[tuple[str, str]]) -> None:
        self._messages = messages
        self._sent: asyncio.Queue[str] = asyncio.Queue()
        self._upstream: asyncio.Future[web.WebSocketResponse] = asyncio.get_running_loop().create_future()
        self.passed: list[tuple[str, str]] = []
        self.received: list[ReceivedRequest] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve the upstream inside the block; yields its address."""
        from aiohttp import web

        runner = web.ServerRunner(web.Server(self._accept, handler_cancellation=True), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        try:
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _accept(self, request: web.BaseRequest) -> web.StreamResponse:
        from aiohttp import web

        headers = {name.lower(): value for name, value in request.headers.items() if name.lower() != "accept"}
        path, query = request.rel_url.raw_path, request.rel_url.raw_query_string
        self.received.append(ReceivedRequest(method=request.method, path=path, query=query, headers=headers, body=b""))
        connection = web.WebSocketResponse(max_msg_size=0)
        await connection.prepare(request)
        if not self._upstream.done():
            self._upstream.set_result(connection)
        async for message in connection:
            self._sent.put_nowait(str(message.data))
        return connection

    async def play(self, connecting: AbstractAsyncContextManager[aiohttp.ClientWebSocketResponse]) -> None:
        """Send and receive the messages in their order, until one that is expected does not arrive."""
        import aiohttp

        try:
            async with connecting as caller:
                for kind, text in self._messages:
                    async with asyncio.timeout(MESSAGE_SECONDS):
                        await self._pass_message(caller, kind, text)
        except (TimeoutError, TypeError, ConnectionError, aiohttp.ClientError):
            return  # the rest is missing in `passed`; TypeError: aiohttp got the end of the session

    async def _pass_message(self, caller: Any, kind: str, text: str) -> None:
        if kind == "caller_message":
            await caller.send_str(text)
        elif kind == "upstream_message":
            await (await self._upstream).send_str(text)
        elif kind == "upstream_sent":
            self.passed.append((kind, await self._sent.get()))
        else:
            self.passed.append((kind, await caller.receive_str()))
