"""The limits of connections that Tornado's own server has (`server.http: tornado`)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from tests.support.tls import CertificateFiles
from tornado_gate.http.server.limits import ConnectionLimits
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import Limit, PlainRefusals
from tornado_gate.http.server.tornado_front import TornadoServer

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


class HelloHandler(RequestHandler):
    def get(self) -> None:
        self.write("hello")


class FloodHandler(RequestHandler):
    """Writes until the client is gone."""

    async def get(self) -> None:
        try:
            while True:
                self.write(b"x" * 1_000_000)
                await self.flush()
        finally:
            self.application.settings["ended"].set()


class EchoSocket(WebSocketHandler):
    def on_message(self, message: str | bytes) -> None:
        self.write_message(message)


class RecordedRefusals(PlainRefusals):
    def __init__(self) -> None:
        self.limits: list[str] = []

    def on_limit(self, limit: str, address: str) -> None:
        assert address == "127.0.0.1"
        self.limits.append(limit)


class Served:
    """A server, and what it has refused."""

    def __init__(self, times: Times, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        self.ended = asyncio.Event()
        self.refusals = RecordedRefusals()
        handlers = [("/", HelloHandler), ("/flood", FloodHandler), ("/socket", EchoSocket)]
        application = Application(handlers, ended=self.ended)
        self.server = TornadoServer(application, times=times, limits=limits, refusals=self.refusals, tls=tls)
        (bound,) = bind_sockets(0, "127.0.0.1", family=socket.AF_INET)
        self.address = bound.getsockname()
        self.server.add_socket(bound)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)

    async def ask(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has got a response."""
        reader, writer = await self.connect()
        writer.write(GET)
        head = await reader.readuntil(b"hello")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        return reader, writer


@asynccontextmanager
async def serve(
    times: Times | None = None, limits: ConnectionLimits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    served = Served(times or Times(), limits or ConnectionLimits(), tls)
    try:
        async with asyncio.timeout(30):
            yield served
    finally:
        served.server.stop()
        await served.server.close_all_connections()


def run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(test())


def test_the_503_of_a_connection_beyond_the_limit_arrives_although_the_client_has_sent_its_request() -> None:
    async def test() -> None:
        async with serve(limits=ConnectionLimits(total=0)) as served:
            reader, writer = await served.connect()
            writer.write(GET + b"x" * 100_000)
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"too_many_connections"' in answer
            assert served.refusals.limits == [Limit.CONNECTIONS]
            writer.close()

    run(test)


def test_a_method_that_http_does_not_have_is_a_501_and_its_body_is_not_read_as_a_request() -> None:
    async def test() -> None:
        limits = ConnectionLimits(total=1)
        async with serve(limits=limits) as served:
            for method in (b"FOO", b"get", b"DESCRIBE"):
                reader, writer = await served.connect()
                body = GET + b"x" * 100_000
                writer.write(method + b" / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                answer = await reader.read()
                assert answer.startswith(b"HTTP/1.1 501 Not Implemented\r\n"), method
                assert answer.count(b"HTTP/1.1") == 1, method
                assert b'"unknown_method"' in answer, method
                writer.close()
            assert (await served.ask())[0]
            assert served.refusals.limits == []
        assert limits._open == {}

    run(test)


def test_a_connection_that_waits_gives_its_place_to_a_new_one() -> None:
    async def test() -> None:
        async with serve(limits=ConnectionLimits(total=2)) as served:
            (waited_longest, *kept), (waited_less, *kept_too) = await served.ask(), await served.ask()
            last = await served.ask()
            assert await waited_longest.read() == b""
            assert not waited_less.at_eof()
            assert served.refusals.limits == [Limit.CONNECTIONS]
            for writer in (*kept, *kept_too, last[1]):
                writer.close()  # a collected writer would close its connection earlier

    run(test)


def test_places_of_closed_connections_are_free_again() -> None:
    async def test() -> None:
        limits = ConnectionLimits(total=1)
        async with serve(limits=limits) as served:
            for _ in range(3):
                reader, writer = await served.ask()
                writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).endswith(b"hello")
                writer.close()
            assert served.refusals.limits == []
        assert limits._open == {}

    run(test)


def test_a_connection_without_the_head_of_a_first_request_is_closed() -> None:
    async def test() -> None:
        async with serve(Times(first_head_seconds=0.1)) as served:
            reader, writer = await served.connect()
            writer.write(GET[:-2])
            assert await reader.read() == b""
            assert served.refusals.limits == [Limit.HEAD_TIME]

    run(test)


def test_the_time_for_the_first_head_does_not_end_a_connection_that_has_had_a_request() -> None:
    async def test() -> None:
        async with serve(Times(first_head_seconds=0.8)) as served:
            reader, writer = await served.ask()
            silent, other = await served.connect()
            assert await silent.read() == b""  # its time has passed, so that of the first has
            writer.write(GET)
            assert await reader.readuntil(b"hello")
            other.close()

    run(test)


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def test() -> None:
        async with serve(Times(stall_seconds=0.5)) as served:
            with socket.create_connection(served.address) as client:
                client.sendall(GET.replace(b"GET /", b"GET /flood"))
                await served.ended.wait()

    run(test)


def test_a_websocket_leaves_its_place_and_works() -> None:
    async def test() -> None:
        async with serve(limits=ConnectionLimits(total=1)) as served:
            reader, writer = await served.connect()
            upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
            writer.write(b"GET /socket HTTP/1.1\r\nHost: here\r\n" + upgrade + b"AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            _, other = await served.ask()
            writer.write(b"\x81\x82\x00\x00\x00\x00hi")  # a masked text frame
            assert await reader.readexactly(4) == b"\x81\x02hi"
            assert served.refusals.limits == []
            writer.close()
            other.close()

    run(test)


def test_a_waiting_connection_whose_request_has_arrived_keeps_its_place() -> None:
    async def test() -> None:
        async with serve(limits=ConnectionLimits(total=2)) as served:
            with socket.create_connection(served.address) as asking, socket.create_connection(served.address) as idle:
                asking.sendall(GET)  # the server has not run since: it accepts all three, and reads afterwards
                late, writer = await served.connect()
                writer.write(GET)
                assert await late.readuntil(b"hello")
                asking.settimeout(60)
                assert asking.recv(100).startswith(b"HTTP/1.1 200 ")
                assert idle.recv(1) == b""

    run(test)


def test_a_tls_handshake_that_never_ends_is_closed_and_plain_http_too(tmp_path: Path) -> None:
    tls = CertificateFiles.write(tmp_path).make_server_context()

    async def test() -> None:
        async with serve(times=Times(first_head_seconds=0.3), limits=ConnectionLimits(total=1), tls=tls) as served:
            reader, writer = await served.connect()
            assert await reader.read() == b""
            assert served.refusals.limits == [Limit.HEAD_TIME]
            writer.close()
            reader, writer = await served.connect()
            writer.write(GET)
            with suppress(ConnectionResetError):  # OpenSSL has not read the whole request
                assert b"HTTP/" not in await reader.read()
            writer.close()

    run(test)
