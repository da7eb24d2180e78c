"""An upstream on a real socket, with responses from a function, for the conformance kit, and for contracts with errors.

Unlike `FakeUpstream` it can reset the connection, wait until the client leaves, and write its bytes at chosen borders.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from tornado_gate.types.value import State, Value, field

if TYPE_CHECKING:
    from aiohttp import web

_QUIET = logging.getLogger(f"{__name__}.aiohttp")
_QUIET.disabled = True  # aiohttp logs a reset as an error, but here it is intended
SOCKET_BYTES = 64 * 1024
"""Size of the socket's send buffer, so that a reader that does not read stops the upstream soon."""

WEBSOCKET = "websocket"
"""The content type of a response that is a WebSocket."""


class Fault(Enum):
    """A step of a response other than bytes. HANG: send no bytes until the client leaves. RESET: reset the connection."""

    HANG = "hang"
    RESET = "reset"


class Endless(Value, frozen=True):
    """A step of a response: `frame` again and again, until `most` bytes are written."""

    frame: bytes
    most: int


class Pause(Value, frozen=True):
    """A step of a response: send nothing for these `seconds`."""

    seconds: float


Step = bytes | Fault | Endless | Pause


class UpstreamAnswer(Value, frozen=True, kw_only=True):
    """The response to one request. `steps` are written one after the other. A fault as first step comes before the
    status line.

    With the content type `WEBSOCKET` the steps are the first messages of a WebSocket.
    """

    steps: Sequence[Step] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return all bytes of the response."""
        return b"".join(step for step in self.steps if isinstance(step, bytes))


def json_answer(value: Any, status: int = 200, **headers: str) -> UpstreamAnswer:
    """Return a response of one JSON value."""
    body = json.dumps(value, ensure_ascii=False).encode()
    return UpstreamAnswer(
        steps=(body,), status=status, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


def sse_answer(*frames: Any, end: bytes = b"") -> UpstreamAnswer:
    """Return a response of server-sent events. Each frame is a JSON value, or a pair of the event's name and its JSON
    value.
    """
    steps = [_render_frame(*frame) if isinstance(frame, tuple) else _render_frame("", frame) for frame in frames]
    return UpstreamAnswer(steps=(*steps, end) if end else tuple(steps), content_type="text/event-stream")


def _render_frame(name: str, value: Any) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


class ReceivedRequest(State):
    """A request that the upstream has received. Header names are lower case. `closed`: its client left before the end
    of the response.

    `sent` counts the bytes of the response that were written.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    sent: int = 0
    closed: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def json(self) -> Any:
        """Return the body as a JSON value; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


Answerer = Callable[[ReceivedRequest], UpstreamAnswer]


class ScriptedUpstream:
    """A server on a free port of this machine. `answer` makes the response to each request; `received` are the requests."""

    def __init__(self, answer: Answerer) -> None:
        self.answer = answer
        self.received: list[ReceivedRequest] = []
        self.arrived = asyncio.Event()
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedUpstream]:
        """Serve inside the block; `url` is the address, without a path."""
        from aiohttp import web

        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        bound.bind(("127.0.0.1", 0))
        runner = web.ServerRunner(
            web.Server(self._handle_request, handler_cancellation=True, logger=_QUIET), shutdown_timeout=0.1
        )
        await runner.setup()
        self.url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        try:
            await web.SockSite(runner, bound).start()
            yield self
        finally:
            await runner.cleanup()

    def forget(self) -> None:
        """Delete the records of earlier requests."""
        self.received.clear()
        self.arrived.clear()

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(
            method=request.method, path=request.rel_url.raw_path, query=request.rel_url.raw_query_string,
            headers=headers, body=body,
        )  # fmt: skip
        self.received.append(received)
        self.arrived.set()
        try:
            answer = self.answer(received)
            if answer.content_type == WEBSOCKET:
                return await self._send_messages(request, answer)
            return await self._play_steps(request, received, answer)
        except (asyncio.CancelledError, ConnectionError):
            received.closed = True
            raise
        finally:
            received.ended.set()

    async def _send_messages(self, request: web.BaseRequest, answer: UpstreamAnswer) -> web.StreamResponse:
        """Send the steps as messages of a WebSocket, which stays open until the client closes it."""
        from aiohttp import web

        connection = web.WebSocketResponse()
        await connection.prepare(request)
        for step in answer.steps:
            if isinstance(step, bytes):
                await connection.send_str(step.decode())
        async for _ in connection:
            pass
        return connection

    async def _play_steps(
        self, request: web.BaseRequest, received: ReceivedRequest, answer: UpstreamAnswer
    ) -> web.StreamResponse:
        from aiohttp import web

        headers = {"Content-Type": answer.content_type, **answer.headers}
        response = web.StreamResponse(status=answer.status, headers=headers)
        if not answer.steps or not isinstance(answer.steps[0], Fault):
            await response.prepare(request)
        for step in answer.steps:
            if step is Fault.RESET:
                _reset_connection(request)
                raise ConnectionResetError
            if step is Fault.HANG:
                await asyncio.Event().wait()
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            await self._write_step(response, received, step)
        await response.write_eof()
        return response

    async def _write_step(self, response: web.StreamResponse, received: ReceivedRequest, step: Step) -> None:
        pieces = [step] if isinstance(step, bytes) else []
        if isinstance(step, Endless):
            pieces = [step.frame] * (step.most // len(step.frame))
        for piece in pieces:
            await response.write(piece)
            received.sent += len(piece)


def _reset_connection(request: web.BaseRequest) -> None:
    """Reset the connection: a close with a linger time of zero sends RST."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    transport.abort()
