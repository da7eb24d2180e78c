"""WebSockets behind a front: a WebSocketHandler of Tornado's whose connection is given to the frame code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tornado.httputil import HTTPConnection, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import StreamClosedError
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.typing import Subprotocol

from tests.support.front import Answer, Running
from tests.support.front_stage import Stage, all_fronts, get, play
from tornado_gate.http.server.connection import ServerConnection
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.response import RequestConnection


@all_fronts
def test_a_websocket_speaks(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        async with connect(f"ws://127.0.0.1:{running.port}/echo", max_size=None) as socket:
            for message in ("hello", b"bytes", "x" * 1_000_000):
                await socket.send(message)
                assert await socket.recv() == (message.decode() if isinstance(message, bytes) else message)
        assert await stage.told.get() == "left"

    play(front, scene)


@all_fronts
def test_a_handler_selects_the_subprotocol_and_speaks_before_it_hears(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        subprotocols = [Subprotocol("one"), Subprotocol("two")]
        async with connect(f"ws://127.0.0.1:{running.port}/picky", subprotocols=subprotocols) as socket:
            assert socket.subprotocol == "two"
            await socket.send("hello")
            assert [await socket.recv(), await socket.recv()] == ["welcome", "hello"]

    play(front, scene)


@all_fronts
def test_a_handler_that_fails_to_open_closes_with_1011(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        async with connect(f"ws://127.0.0.1:{running.port}/picky") as socket:
            with pytest.raises(ConnectionClosedError) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1011
        assert await stage.told.get() == "left"

    play(front, scene)


@all_fronts
def test_a_server_that_has_stopped_leaves_open_websockets_open(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        async with connect(f"ws://127.0.0.1:{running.port}/echo") as socket:
            running.server.stop()
            await running.server.close_all_connections()
            await socket.send("still there")
            assert await socket.recv() == "still there"

    play(front, scene)


HANDSHAKE = (
    b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
HELLO = b"\x81\x85\x00\x00\x00\x00hello"


@all_fronts
@pytest.mark.parametrize("cut", [None, -3], ids=["at once", "in two"])
def test_frames_behind_the_handshake_and_requests_before_it_are_not_lost(front: str, cut: int | None) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        data = get(b"/whole") + get(b"/a") + get(b"/echo", HANDSHAKE) + HELLO
        client.writer.write(data[:cut])
        assert len((await client.answer()).body) == 20_000_000
        assert (await client.answer()).status == 200
        if cut:
            client.writer.write(data[cut:])
        assert (await client.head()).status == 101
        return await client.reader.readexactly(7)

    assert play(front, scene) == b"\x81\x05hello"


@all_fronts
def test_a_websocket_to_no_route_is_refused_and_the_connection_serves_on(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{running.port}/")
        assert refused.value.response.status_code == 200
        answers = await running.ask(get(b"/", HANDSHAKE), get(b"/next"))
        assert b'"/next"' in answers[1].body

    play(front, scene)


@all_fronts
@pytest.mark.parametrize(
    "fields",
    [b"Upgrade: websocket\r\n", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", b"Connection: Upgrade\r\n"],
    ids=["no connection option", "h2c", "no protocol"],
)
def test_other_upgrades_are_left_alone(front: str, fields: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        return await running.ask(get(b"/a", fields), get(b"/echo", fields), get(b"/b"))

    assert [answer.status for answer in play(front, scene)] == [200, 400, 200]


@all_fronts
def test_an_upgrade_that_is_not_answered_yet_closes_with_the_server(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow", HANDSHAKE))
        assert await stage.told.get() == "begun"
        running.server.stop()
        await running.server.close_all_connections()
        assert await client.rest() == b""

    play(front, scene)


class Application(HTTPServerConnectionDelegate, HTTPMessageDelegate):
    """Takes a request, and leaves its answer to the test."""

    request: RequestConnection

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        assert isinstance(request_conn, RequestConnection)
        self.request = request_conn
        return self


class Transport(asyncio.Transport):
    """Remembers what is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Any] = []

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.done.append(protocol)

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def write(self, data: Any) -> None:
        self.done.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.done.append("close")


class Next(asyncio.Protocol):
    """What a connection is given to."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.heard.append(transport)

    def pause_writing(self) -> None:
        self.heard.append("slow")

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> None:
        self.heard.append("eof")


class Switching:
    """A connection of the fast front whose request has come, without a network."""

    def __init__(self, server: HttpServer, application: Application) -> None:
        self.server, self.application = server, application
        self.connection = ServerConnection(self.server, asyncio.get_running_loop())
        self.transport, self.next = Transport(), Next()
        self.connection.connection_made(self.transport)
        self.connection.data_received(get(b"/", HANDSHAKE))

    @classmethod
    async def begin(cls) -> Switching:
        application = Application()
        server = HttpServer(application)
        await server.listen([])
        return cls(server, application)

    def switch(self) -> None:
        line = self.application.request.detach()
        line.switch_protocol(self.next)


def test_the_next_protocol_gets_what_came_meanwhile_and_hears_of_the_end() -> None:
    async def main() -> None:
        switching = await Switching.begin()
        switching.connection.data_received(HELLO)
        assert switching.connection.eof_received()
        switching.switch()
        assert switching.transport.done == [switching.next, "close"]
        assert switching.next.heard == [switching.transport, HELLO, "eof"]

    asyncio.run(main())


def test_the_next_protocol_hears_that_the_client_reads_slowly_and_may_read_again() -> None:
    async def main() -> None:
        switching = await Switching.begin()
        flood = b"x" * 100_000
        switching.connection.data_received(flood)
        switching.connection.pause_writing()
        switching.switch()
        assert switching.transport.done == ["pause", "resume", switching.next]
        assert switching.next.heard == [switching.transport, "slow", flood]

    asyncio.run(main())


def test_a_client_that_has_left_cannot_be_given_to_another_protocol() -> None:
    async def main() -> None:
        switching = await Switching.begin()
        switching.connection.connection_lost(None)
        with pytest.raises(StreamClosedError):
            switching.switch()
        assert switching.next.heard == []

    asyncio.run(main())


def test_a_stopping_server_does_not_turn_an_upgrade_into_a_close() -> None:
    async def main() -> None:
        switching = await Switching.begin()
        switching.server.stop()
        switching.application.request.send_head(101, "Switching Protocols", {"Connection": "Upgrade"}, None)
        assert switching.transport.done == [b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n"]

    asyncio.run(main())
