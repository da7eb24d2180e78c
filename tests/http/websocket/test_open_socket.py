"""The provider's end of a session: the handshake by aiohttp, then messages by our own connection, in each loop."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from tests.http.websocket.test_connection import LOOPS
from tests.support.variants import vary
from tornado_gate.errors import UpstreamError, UpstreamRefused
from tornado_gate.http.upstream import Pool
from tornado_gate.http.websocket import UpstreamSocket, open_socket
from tornado_gate.http.websocket.frames import BINARY, CLOSE, TEXT, FrameReader, Message, make_close_payload
from tornado_gate.testing import call_to
from tornado_gate.types import Timeouts, UpstreamRequest, replace

Test = Callable[[], Coroutine[Any, Any, None]]
SWITCH = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n"
)


@pytest.fixture(params=vary(*sorted(LOOPS, reverse=True)))
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await test()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(bounded())

    return run


class Upstream:
    """Answers a handshake as it is told to, in one packet with what follows it; then a test speaks for it."""

    def __init__(self, answer: str = SWITCH, greeting: bytes = b"") -> None:
        self.answer, self.greeting = answer, greeting
        self.heads: list[bytes] = []
        self.pool = Pool(Timeouts(connect=5))
        self.here = asyncio.Event()
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self._frames = FrameReader(masked=True, most=1 << 30)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        found = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
        assert found is not None
        digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        writer.write(self.answer.format(base64.b64encode(digest).decode()).encode() + self.greeting)
        self.reader, self.writer = reader, writer
        self.here.set()

    @asynccontextmanager
    async def connected(self, context: Any = None) -> AsyncIterator[UpstreamSocket]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            async with AsyncExitStack() as closing:
                call = call_to(pool=self.pool, closing=closing)
                call = replace(call, target=replace(call.target, base_url=url))
                outgoing = UpstreamRequest(
                    url=url.replace("http", "ws") + "/rt?model=m", headers={"X": "y"}, context=context
                )
                socket = await open_socket(call, outgoing)
                await self.here.wait()
                yield socket
                self.writer.close()
        finally:
            await self.pool.close()
            server.close()

    def say(self, opcode: int, payload: bytes = b"") -> None:
        self.writer.write(Frame(Opcode(opcode), payload).serialize(mask=False))

    async def hear(self) -> Message:
        while (message := self._frames.read_message()) is None:
            data = await self.reader.read(65536)
            if not data:
                raise EOFError
            self._frames.feed(data)
        return message


def text(said: str) -> bytes:
    return Frame(Opcode.TEXT, said.encode()).serialize(mask=False)


def test_what_an_upstream_says_with_its_handshake_is_not_lost(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream(greeting=b"".join(text(f"{number} " * 10_000) for number in range(20)))
        async with upstream.connected() as socket:
            assert [await socket.receive() for _ in range(20)] == [f"{number} " * 10_000 for number in range(20)]
            assert b"\r\nx: y\r\n" in upstream.heads[0].lower()
            assert upstream.heads[0].startswith(b"GET /rt?model=m HTTP/1.1\r\n")
            assert b"sec-websocket-extensions" not in upstream.heads[0].lower()

    run(test)


def test_messages_go_both_ways_by_receive_and_by_relay(run: Any) -> None:
    async def test() -> None:
        for relayed in (False, True):
            upstream = Upstream()
            async with upstream.connected() as socket:
                await socket.send("up é")
                assert await upstream.hear() == (TEXT, "up é")
                upstream.say(TEXT, "down é".encode())
                if not relayed:
                    assert await socket.receive() == "down é"
                    continue
                got: asyncio.Queue[str | bytes] = asyncio.Queue()
                socket.relay_to(got.put_nowait, lambda: None)
                assert await got.get() == "down é"

    run(test)


@pytest.mark.parametrize(("context", "dialect"), [(None, "current"), ("beta", "beta")])
def test_the_dialect_is_what_the_plugin_asked_for(run: Any, context: Any, dialect: str) -> None:
    async def test() -> None:
        async with Upstream().connected(context) as socket:
            assert socket.dialect == dialect

    run(test)


def test_who_does_not_receive_is_not_sent_more_than_a_socket_holds(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream()
        async with upstream.connected() as socket:
            for number in range(300):
                upstream.writer.write(text(str(number) + "x" * 60_000))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await upstream.writer.drain()
            for number in range(300):
                assert (await socket.receive() or "").rstrip("x") == str(number)

    run(test)


def test_send_waits_for_an_upstream_that_reads_slowly(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream()
        async with upstream.connected() as socket:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    for _ in range(1000):
                        await socket.send("x" * 60_000)
            for _ in range(3):
                assert await upstream.hear() == (TEXT, "x" * 60_000)

    run(test)


def test_an_upstream_that_says_goodbye_is_at_its_end(run: Any) -> None:
    async def test() -> None:
        for relayed in (False, True):
            upstream = Upstream()
            async with upstream.connected() as socket:
                upstream.say(TEXT, b"last")
                upstream.say(CLOSE, make_close_payload(4000, "enough"))
                if relayed:
                    got: list[str | bytes] = []
                    ended = asyncio.Event()
                    socket.relay_to(got.append, ended.set)
                    await ended.wait()
                    assert got == ["last"]
                else:
                    assert await socket.receive() == "last"
                    assert await socket.receive() is None
                assert (socket.close_code, socket.close_reason) == (4000, "enough")
                assert await upstream.hear() == (CLOSE, make_close_payload(4000))
                with pytest.raises(UpstreamError):
                    await socket.send("too late")

    run(test)


def test_an_upstream_that_breaks_off_is_lost_also_before_anybody_listens(run: Any) -> None:
    async def test() -> None:
        for waits in (False, True):
            upstream = Upstream()
            async with upstream.connected() as socket:
                ended = asyncio.Event()
                if waits:
                    socket.relay_to(lambda _: None, ended.set)
                upstream.writer.transport.abort()
                if waits:
                    await ended.wait()
                    assert socket.close_code is None
                with pytest.raises(UpstreamError) as caught:
                    await socket.receive()
                assert caught.value.code == "upstream_lost"

    run(test)


def test_an_upstream_that_sends_bytes_is_closed_and_lost(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream()
        async with upstream.connected() as socket:
            upstream.say(BINARY, b"\x00")
            with pytest.raises(UpstreamError):
                await socket.receive()
            kind, payload = await upstream.hear()
            assert (kind, payload[:2]) == (CLOSE, b"\x03\xeb")

    run(test)


def test_our_goodbye_waits_for_the_answer_and_needs_nobody_who_reads(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream(greeting=text("nobody reads this"))
        async with upstream.connected() as socket:
            closing_it = asyncio.ensure_future(socket.close(1001, "bye"))
            assert await upstream.hear() == (CLOSE, make_close_payload(1001, "bye"))
            assert not closing_it.done()
            upstream.say(CLOSE, make_close_payload(1001))
            await closing_it
            await socket.close()
            with pytest.raises(EOFError):
                await upstream.hear()

    run(test)


def test_a_pool_that_closes_ends_its_sessions(run: Any) -> None:
    async def test() -> None:
        upstream = Upstream()
        async with upstream.connected() as socket:
            waiting = asyncio.ensure_future(socket.receive())
            await asyncio.sleep(0)
            await upstream.pool.close()
            with pytest.raises(UpstreamError):
                await waiting

    run(test)


OPTIONS = {
    "several options": "Connection: keep-alive, Upgrade\r\n",
    "several headers": "Connection: Upgrade\r\nConnection: keep-alive\r\n",
    "another spelling": "connection: upgrade\r\n",
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_upgrade_may_be_one_of_several_connection_options(run: Any, options: str) -> None:
    async def test() -> None:
        upstream = Upstream(SWITCH.replace("Connection: Upgrade\r\n", options), greeting=text("hello"))
        async with upstream.connected() as socket:
            assert await socket.receive() == "hello"

    run(test)


ANSWERS = {
    "no connection option": (
        SWITCH.replace("Connection: Upgrade", "Connection: upgrades"),
        UpstreamError,
        "status 101",
    ),
    "another key": (SWITCH.replace("{}", "AAAA"), UpstreamError, "status 101"),
    "no upgrade": (SWITCH.replace("Upgrade: websocket\r\n", "Upgrade: h2c\r\n"), UpstreamError, "status 101"),
    "200": ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", UpstreamError, "status 200"),
    "a redirect": (
        "HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        UpstreamError,
        "status 302",
    ),
    "404": ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", UpstreamRefused, "status 404"),
    "nonsense": ("what?\r\n\r\n", UpstreamError, "not valid HTTP"),
}


@pytest.mark.parametrize(("answer", "kind", "words"), ANSWERS.values(), ids=ANSWERS)
def test_any_other_answer_is_an_error_and_the_connection_is_closed(
    run: Any, answer: str, kind: type[UpstreamError], words: str
) -> None:
    async def test() -> None:
        upstream = Upstream(answer)
        with pytest.raises(kind, match=words):
            async with upstream.connected():
                pass
        with suppress(ConnectionError):
            assert await upstream.reader.read() == b""

    run(test)
