"""A connection over a real socket, in each loop that the gateway may run in: the pace, pings, goodbyes and what ends it."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.tcpserver import TCPServer
from websockets.frames import Frame, Opcode

from tests.support.variants import vary
from tornado_gate.http.websocket import connection as module
from tornado_gate.http.websocket import server as server_module
from tornado_gate.http.websocket.connection import MESSAGES_PER_TURN, WebSocketConnection
from tornado_gate.http.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    FrameReader,
    Message,
    make_close_payload,
    make_frame,
)
from tornado_gate.http.websocket.server import take_socket

MOST = 100_000
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if find_spec("uvloop"):
    LOOPS["uvloop"] = importlib.import_module("uvloop").new_event_loop

Test = Callable[[], Coroutine[Any, Any, None]]
Receive = Callable[[str | bytes], Awaitable[object] | None]


@pytest.fixture(params=vary(*sorted(LOOPS, reverse=True)))
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test in one of the loops; none takes long."""

    def run(test: Test) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await test()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(bounded())

    return run


class Far:
    """The other end of a connection: a client that says what it is told to, whatever the protocol says."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def __init__(self, receive: Receive | None = None, first: bytes = b"") -> None:
        self.got: list[str | bytes] = []
        self.ended = asyncio.Event()
        self.first = first
        self.near = WebSocketConnection(server=True, most=MOST, ended=self.ended.set)
        self._receive: Receive = receive or self.got.append
        self._frames = FrameReader(masked=False, most=1 << 30)

    async def __aenter__(self) -> Far:
        """The connection is made as behind Tornado's front: from an IOStream that has read something already."""
        taken: asyncio.Future[IOStream] = asyncio.get_running_loop().create_future()

        class Server(TCPServer):
            def handle_stream(self, stream: IOStream, address: Any) -> None:
                taken.set_result(stream)

        sockets = bind_sockets(0, "127.0.0.1")
        self._server = Server()
        self._server.add_sockets(sockets)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", sockets[0].getsockname()[1])
        self.writer.write(b"GET\r\n" + self.first)
        stream = await taken
        await stream.read_until(b"\r\n")
        await take_socket(stream, self.near)
        self.near.begin(self._receive)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
        await self.ended.wait()
        self._server.stop()

    def say(self, opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bool = True) -> None:
        self.writer.write(Frame(Opcode(opcode), payload, fin).serialize(mask=mask))

    async def hear(self) -> Message:
        """The next message; raises EOFError at the end."""
        while (message := self._frames.read_message()) is None:
            data = await self.reader.read(65536)
            if not data:
                raise EOFError
            self._frames.feed(data)
        return message

    async def fill(self) -> tuple[int, asyncio.Future[None]]:
        """Write until there is no more room: (how many texts of 60,000 that took, what to wait for)."""
        for count in range(1, 1000):
            room = self.near.write("x" * 60_000)
            if room is not None:
                return count, room
            await asyncio.sleep(0)
        raise AssertionError("60 MB were taken for somebody who does not read")

    async def until(self, ready: Callable[[], bool]) -> None:
        """Let a ping go there and back until something is so."""
        while not ready():
            self.say(PING, b"until")
            while await self.hear() != (PONG, b"until"):
                pass


def test_messages_come_in_order_and_go(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            far.say(TEXT, "één".encode())
            far.say(BINARY, b"\x00")
            far.say(TEXT, b"in ", fin=False)
            far.say(CONTINUATION, b"parts")
            await far.until(lambda: len(far.got) == 3)
            assert far.got == ["één", b"\x00", "in parts"]
            assert far.near.write("answer é") is None
            assert await far.hear() == (TEXT, "answer é")

    run(test)


def test_what_came_before_there_was_a_connection_is_not_lost(run: Any) -> None:
    async def test() -> None:
        early = b"".join(Frame(Opcode.TEXT, str(number).encode() * 3000).serialize(mask=True) for number in range(10))
        async with Far(first=early) as far:
            await far.until(lambda: len(far.got) == 10)
            assert [str(text)[:1] for text in far.got] == [str(number) for number in range(10)]

    run(test)


def test_who_floods_before_the_answer_to_its_handshake_is_cut_off(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "READ_BYTES", 4)

    async def test() -> None:
        far = Far(first=b"x" * 1000)
        with pytest.raises(ConnectionAbortedError):
            await far.__aenter__()
        assert await far.reader.read() == b""

    run(test)


def test_a_caller_who_has_left_is_an_error(run: Any) -> None:
    async def test() -> None:
        far = Far()
        async with far:
            pass
        closed = IOStream(bind_sockets(0, "127.0.0.1")[0])
        closed.close()
        with pytest.raises(StreamClosedError):
            await take_socket(closed, far.near)

    run(test)


def test_a_ping_is_answered_with_what_it_says(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            far.say(TEXT, b"one part", fin=False)
            far.say(PING, b"between parts")
            assert await far.hear() == (PONG, b"between parts")

    run(test)


def test_nothing_more_is_read_while_somebody_must_wait(run: Any) -> None:
    async def test() -> None:
        waits: list[asyncio.Future[None]] = []
        got: list[str | bytes] = []
        more = asyncio.Event()

        def receive(message: str | bytes) -> asyncio.Future[None]:
            got.append(message)
            waits.append(asyncio.get_running_loop().create_future())
            more.set()
            return waits[-1]

        async with Far(receive) as far:
            for number in range(300):
                far.say(TEXT, str(number).encode() + b"x" * 60_000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await far.writer.drain()  # 18 MB do not go into somebody who waits
            await more.wait()
            assert len(got) == 1
            for number in range(300):
                while len(got) == number:
                    more.clear()
                    await more.wait()
                assert len(got) == number + 1
                waits[number].set_result(None)
            assert [str(text).rstrip("x") for text in got] == [str(number) for number in range(300)]

    run(test)


def test_who_reads_slowly_is_waited_for(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            count, room = await far.fill()
            assert not room.done()
            for _ in range(count):
                assert await far.hear() == (TEXT, "x" * 60_000)
            await room
            assert far.near.write("again") is None

    run(test)


def test_a_flood_of_pings_from_who_does_not_read_is_answered_once(run: Any) -> None:
    async def test() -> None:
        came = asyncio.Event()
        async with Far(lambda _: came.set()) as far:
            count, _ = await far.fill()
            for number in range(1000):
                far.say(PING, str(number).encode())
            far.say(TEXT, b"after")
            await came.wait()
            for _ in range(count):
                assert await far.hear() == (TEXT, "x" * 60_000)
            assert await far.hear() == (PONG, b"999")

    run(test)


def test_one_who_says_much_at_once_does_not_keep_the_loop(run: Any) -> None:
    async def test() -> None:
        counts: list[int] = []
        got: list[str | bytes] = []

        def receive(message: str | bytes) -> None:
            if not got:
                asyncio.get_running_loop().call_soon(lambda: counts.append(len(got)))
            got.append(message)

        many = b"".join(make_frame(TEXT, b"%d" % number, masked=True) for number in range(1000))
        async with Far(receive, first=many) as far:
            await far.until(lambda: len(got) == 1000)
            assert got == [str(number) for number in range(1000)]
            assert counts == [MESSAGES_PER_TURN]

    run(test)


BROKEN = {
    "unmasked": (Frame(Opcode.TEXT, b"x").serialize(mask=False), 1002),
    "unknown opcode": (b"\x83\x80" + bytes(4), 1002),
    "half a code": (make_frame(CLOSE, b"\x03", masked=True), 1002),
    "a reason that is no UTF-8": (make_frame(CLOSE, b"\x03\xe8\xff", masked=True), 1007),
    "a text that is no UTF-8": (make_frame(TEXT, b"\xff", masked=True), 1007),
    "too big": (make_frame(TEXT, b"x" * (MOST + 1), masked=True), 1009),
}


@pytest.mark.parametrize(("wire", "code"), BROKEN.values(), ids=BROKEN)
def test_who_breaks_the_protocol_hears_why_although_it_goes_on_talking(run: Any, wire: bytes, code: int) -> None:
    async def test() -> None:
        async with Far() as far:
            far.say(TEXT, b"before")
            far.writer.write(wire + make_frame(TEXT, b"after", masked=True) * 100_000)
            kind, payload = await far.hear()
            assert kind == CLOSE
            assert int.from_bytes(bytes(payload)[:2], "big") == code  # type: ignore[arg-type]  # a closing frame is bytes
            far.say(CLOSE, make_close_payload(code))
            with pytest.raises(EOFError):
                await far.hear()
        assert far.got == ["before"]
        assert far.near.close_code in (None, code)

    run(test)


def test_a_goodbye_is_answered_with_its_code_and_ends_the_connection(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            far.say(CLOSE, make_close_payload(4001, "why"))
            far.say(TEXT, b"after")
            assert await far.hear() == (CLOSE, make_close_payload(4001))
            with pytest.raises(EOFError):
                await far.hear()
            await far.ended.wait()
            assert (far.near.close_code, far.near.close_reason) == (4001, "why")
            assert far.got == []
            with pytest.raises(ConnectionError):
                far.near.write("too late")

    run(test)


def test_after_our_goodbye_nothing_is_handed_out_and_the_answer_ends_it(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            far.near.close(1001, "going")
            far.near.close(1000, "again")
            with pytest.raises(ConnectionError):
                far.near.write("too late")
            assert await far.hear() == (CLOSE, make_close_payload(1001, "going"))
            far.say(TEXT, b"not yet heard")
            far.say(PING, b"nor this")
            far.say(CLOSE, make_close_payload(1001))
            with pytest.raises(EOFError):
                await far.hear()
            await far.ended.wait()
            assert far.got == []
            assert far.near.close_code == 1001

    run(test)


def test_who_does_not_answer_a_goodbye_is_cut_off(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)

    async def test() -> None:
        async with Far() as far:
            far.near.close(1000)
            await far.ended.wait()
            assert far.near.close_code is None

    run(test)


def test_who_answers_no_ping_is_cut_off_and_who_does_is_not(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING_SECONDS", 0.3)

    async def test() -> None:
        async with Far() as far:
            for _ in range(4):
                assert await far.hear() == (PING, b"")
                far.say(PONG)
            await far.ended.wait()
            assert far.near.close_code is None

    run(test)


def test_one_that_nobody_reads_is_not_taken_for_dead(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PING_SECONDS", 0.05)

    async def test() -> None:
        wait: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with Far(lambda _: wait) as far:
            far.say(TEXT, b"held")
            for _ in range(4):
                assert await far.hear() == (PING, b"")
            assert not far.ended.is_set()
            wait.set_result(None)

    run(test)


def test_a_connection_that_breaks_frees_who_waits_for_it(run: Any) -> None:
    async def test() -> None:
        async with Far() as far:
            _, room = await far.fill()
            far.writer.transport.abort()
            await room
            await far.ended.wait()
            assert far.near.close_code is None

    run(test)
