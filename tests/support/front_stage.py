"""Request handlers with different behaviour behind an HTTP server, and the function that runs a test with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tornado.iostream import StreamClosedError
from tornado.web import Application, RequestHandler, stream_request_body
from tornado.websocket import WebSocketHandler

from tests.support.front import FRONTS, OURS, Running, run, serving
from tests.support.variants import vary
from tornado_gate.http.websocket.server import FrameProtocol

MESSAGE_BYTES = 1 << 20
GET = b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n"
POST = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%b\r\n%b"


def get(path: bytes, fields: bytes = b"") -> bytes:
    return GET % (path, fields)


def post(path: bytes, body: bytes, fields: bytes = b"") -> bytes:
    return POST % (path, len(body), fields, body)


class Stage:
    """Messages between a test and its handlers: `told` for the test, `go` for the handler."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Any] = asyncio.Queue()
        self.go = asyncio.Event()


class Handler(RequestHandler):
    def initialize(self, stage: Stage) -> None:
        self.stage = stage

    def compute_etag(self) -> None:
        return None

    @property
    def connection(self) -> Any:
        """The connection as Any: handlers use more than `HTTPConnection` declares."""
        return self.request.connection


class Plain(Handler):
    def get(self) -> None:
        self.finish({"path": self.request.path, "ip": self.request.remote_ip, "protocol": self.request.protocol})

    head = get

    def post(self) -> None:
        self.finish(self.request.body)


class Empty(Handler):
    def get(self) -> None:
        self.set_status(int(self.get_query_argument("status")))
        self.finish()


class Slow(Handler):
    """Responds when the test sets `go`; reports when the client has closed the connection."""

    async def get(self) -> None:
        self.stage.told.put_nowait("begun")
        await self.stage.go.wait()
        self.finish("slow")

    post = get

    def on_connection_close(self) -> None:
        self.stage.told.put_nowait("left")


class Pieces(Handler):
    """Streams chunks, each when the test sets `go`."""

    async def get(self) -> None:
        for piece in ("one", "two"):
            self.write(piece)
            await self.flush()
            await self.stage.go.wait()
        self.finish()

    def on_connection_close(self) -> None:
        self.stage.told.put_nowait("left")


class Big(Handler):
    """Writes more than any buffer holds; reports how much was written."""

    async def get(self) -> None:
        written = 0
        try:
            for _ in range(200):
                self.write(b"x" * 100_000)
                await self.flush()
                written += 100_000
                self.stage.told.put_nowait(written)
            self.finish()
        except StreamClosedError:
            self.stage.told.put_nowait("closed")


class Late(Handler):
    """Continues to write after the client has closed the connection."""

    async def get(self) -> None:
        await self.flush()
        self.stage.told.put_nowait("begun")
        await self.stage.go.wait()
        try:
            self.write("late")
            await self.flush()
        except StreamClosedError:
            self.stage.told.put_nowait("closed")


class Whole(Handler):
    """Writes 20 MB at once."""

    def get(self) -> None:
        self.finish(b"x" * 20_000_000)


class Split(Handler):
    def get(self) -> None:
        self._headers.add("X-A", "b")
        self._headers["X-A"] = "b\r\nX-Evil: 1"
        try:
            self.flush()
        except ValueError:
            self._headers_written = False
            self.clear()
            self.finish("refused")


class Wrong(Handler):
    """Declares another length than it sends."""

    def get(self) -> None:
        self.set_header("Content-Length", self.get_query_argument("says"))
        self.finish("four")


class Halfway(Handler):
    async def get(self) -> None:
        self.write("half")
        await self.flush()
        self.connection.close()


class SaysClose(Handler):
    def get(self) -> None:
        self.set_header("Connection", "close")
        self.finish("bye")


@stream_request_body
class Stream(Handler):
    """Reads a request body piece by piece; with ?slowly each piece when the test sets `go`."""

    def initialize(self, stage: Stage) -> None:
        super().initialize(stage)
        self.got = 0

    async def prepare(self) -> None:
        await asyncio.sleep(0)
        limit = self.get_query_argument("limit", "")
        if limit:
            self.connection.set_max_body_size(int(limit))
        seconds = self.get_query_argument("seconds", "")
        if seconds:
            self.connection.set_body_timeout(float(seconds))
        if self.get_query_argument("refuse", "") == "at once":
            self.set_status(401)
            self.finish("no")

    def data_received(self, chunk: bytes) -> Any:
        self.got += len(chunk)
        self.stage.told.put_nowait(self.got)
        if self.get_query_argument("refuse", "") == "midway":
            self.set_status(413)
            self.finish("enough")
        if self.get_query_argument("fail", ""):
            raise ZeroDivisionError
        return self.stage.go.wait() if self.get_query_argument("slowly", "") else None

    def get(self) -> None:
        self.finish(str(self.got))

    post = get

    def on_connection_close(self) -> None:
        self.stage.told.put_nowait("left")


class Echo(WebSocketHandler):
    """Sends each message back as text."""

    def initialize(self, stage: Stage) -> None:
        self.stage = stage

    def get_websocket_protocol(self) -> FrameProtocol:  # type: ignore[override]  # Tornado calls two of its methods
        self.frames = FrameProtocol(self, most=MESSAGE_BYTES)
        return self.frames

    def on_message(self, message: str | bytes) -> Any:
        return self.frames.connection.write(message if isinstance(message, str) else message.decode())

    def on_close(self) -> None:
        self.stage.told.put_nowait("left")


class Picky(Echo):
    """Selects the last offered subprotocol, and raises when it is opened without one."""

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        self.chosen = subprotocols[-1] if subprotocols else None
        return self.chosen

    async def open(self, *_: str, **__: str) -> None:
        await asyncio.sleep(0)
        if self.chosen is None:
            raise ZeroDivisionError
        self.frames.connection.write("welcome")


HANDLERS = (Empty, Slow, Pieces, Big, Late, Whole, Split, Wrong, Halfway, SaysClose, Stream, Echo, Picky)


def application(stage: Stage) -> Application:
    routes = [(f"/{kind.__name__.lower()}", kind, {"stage": stage}) for kind in HANDLERS]
    return Application([*routes, (r"/.*", Plain, {"stage": stage})], log_function=lambda handler: None)


Scene = Callable[[Running, Stage], Any]


def play(front: str, scene: Scene, **options: Any) -> Any:
    async def main() -> Any:
        stage = Stage()
        async with serving(front, application(stage), **options) as running:
            return await scene(running, stage)

    return run(front, main())


all_fronts = pytest.mark.parametrize("front", FRONTS)
"""For what `make test` knows of each front."""
fronts = pytest.mark.parametrize("front", vary(*FRONTS))
ours = pytest.mark.parametrize("front", vary(*OURS))
