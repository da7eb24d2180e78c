"""Both HTTP servers behind one interface, on both event loops, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import uvloop
from tornado.httpserver import HTTPServer
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.netutil import bind_sockets

from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.pacing import Times

FRONTS = ("httptools-uvloop", "httptools", "tornado")
OURS = FRONTS[:2]
PATIENCE = 100.0
"""The timeout of a test in seconds."""

Result = TypeVar("Result")

HOST = b"Host: x"


def request(line: bytes = b"GET / HTTP/1.1", *fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((line, *(fields or (HOST,)))) + b"\r\n\r\n" + body


def post(*fields: bytes, body: bytes = b"") -> bytes:
    return request(b"POST / HTTP/1.1", HOST, *fields, body=body)


CHUNKED = b"Transfer-Encoding: chunked"


def run(front: str, main: Coroutine[Any, Any, Result]) -> Result:
    """Run `main` on the event loop of that server, for at most `PATIENCE`."""

    async def patient() -> Result:
        async with asyncio.timeout(PATIENCE):
            return await main

    return uvloop.run(patient()) if front.endswith("uvloop") else asyncio.run(patient())


@dataclass(frozen=True, slots=True)
class Running:
    """A running HTTP server."""

    port: int
    server: HttpServer | HTTPServer

    async def connect(self, *, receive_buffer: int | None = None) -> Client:
        connection = socket.socket()
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        return Client(*await asyncio.open_connection(sock=connection, limit=1 << 16))

    async def ask(self, *requests: bytes) -> list[Answer]:
        """Send the bytes unchanged on one connection and return one response for each request."""
        client = await self.connect()
        client.writer.write(b"".join(requests))
        answers = [await client.answer() for _ in requests]
        await client.close()
        return answers


@asynccontextmanager
async def serving(
    front: str,
    application: HTTPServerConnectionDelegate,
    *,
    idle_seconds: float = 60.0,
    body_seconds: float | None = None,
    header_bytes: int = 65536,
    body_bytes: int = 1 << 20,
    times: Times | None = None,
    **ours: Any,
) -> AsyncIterator[Running]:
    """Serve the application with that server on a free port. `times` and `ours` are options that only `HttpServer` has."""
    sockets = bind_sockets(0, "127.0.0.1")
    port = sockets[0].getsockname()[1]
    server: HttpServer | HTTPServer
    if front == "tornado":
        server = HTTPServer(
            application,
            idle_connection_timeout=idle_seconds,
            body_timeout=body_seconds,
            max_header_size=header_bytes,
            max_body_size=body_bytes,
        )
        server.add_sockets(sockets)
    else:
        server = HttpServer(
            application,
            times=times or Times(first_head_seconds=idle_seconds, idle_seconds=idle_seconds, body_seconds=body_seconds),
            header_bytes=header_bytes,
            body_bytes=body_bytes,
            **ours,
        )
        await server.listen(sockets)
    yield Running(port, server)
    server.stop()
    await server.close_all_connections()


@dataclass(frozen=True, slots=True)
class Answer:
    """A received response."""

    status: int
    headers: HTTPHeaders
    body: bytes


@dataclass(frozen=True, slots=True)
class Client:
    """A connection that sends raw bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Answer:
        """Read the status and the headers only."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        line, _, fields = raw.decode("latin-1").partition("\r\n")
        return Answer(int(line.split(" ")[1]), HTTPHeaders.parse(fields), b"")

    async def answer(self, *, to_head: bool = False) -> Answer:
        """Read one complete response: chunked, with a Content-Length or until the connection is closed."""
        head = await self.head()
        if to_head or head.status in (100, 204, 304):
            return head
        if head.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join([chunk async for chunk in self.chunks()])
        elif "Content-Length" in head.headers:
            body = await self.reader.readexactly(int(head.headers["Content-Length"]))
        else:
            body = await self.reader.read()
        return Answer(head.status, head.headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a body, one by one. Raises IncompleteReadError when the body is truncated."""
        while size := int((await self.reader.readuntil(b"\r\n"))[:-2], 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        return await self.reader.read()

    def pause(self) -> None:
        """Stop reading until `resume`, which causes back-pressure."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    @property
    def _transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self.writer.transport)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    def reset(self) -> None:
        """Abort the connection."""
        self.writer.transport.abort()


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the application received it."""

    line: RequestStartLine
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(slots=True)
class Recorder(HTTPServerConnectionDelegate):
    """An application that responds at once, or in the next loop iteration, and records the requests."""

    later: bool = False
    seen: list[Seen] = field(default_factory=list)
    closed: int = 0

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return _Recording(self, request_conn)

    def on_close(self, server_conn: object) -> None:
        self.closed += 1


class _Recording(HTTPMessageDelegate):
    def __init__(self, recorder: Recorder, connection: HTTPConnection) -> None:
        self._recorder = recorder
        self._connection = connection
        self._body: list[bytes] = []

    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> None:
        HTTPServerRequest(connection=self._connection, start_line=start_line, headers=headers)  # checks the Host
        self._line = start_line
        self._headers = tuple(headers.get_all())

    def data_received(self, chunk: bytes) -> None:
        self._body.append(chunk)

    def finish(self) -> None:
        body = b"".join(self._body)
        self._recorder.seen.append(Seen(self._line, self._headers, body))
        if self._recorder.later:
            asyncio.get_running_loop().call_soon(self._answer, len(body))
        else:
            self._answer(len(body))

    def _answer(self, length: int) -> None:
        told = b"" if self._line.method == "HEAD" else b"%s %d" % (self._line.path.encode("latin-1"), length)
        headers = HTTPHeaders({"Content-Length": str(len(told))})
        self._connection.write_headers(ResponseStartLine("", 200, "OK"), headers, told)
        self._connection.finish()
