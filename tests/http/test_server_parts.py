"""The fast front on a transport that only remembers: what goes out, in how many writes, and what a connection keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPOutputError,
    HTTPServerConnectionDelegate,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from tests.support.front import post, request
from tornado_gate.http.server.body import ChunkedBodyReader
from tornado_gate.http.server.connection import ServerConnection
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.response import MAX_JOINED_BYTES, RequestConnection

OK = ResponseStartLine("", 200, "OK")


class Transport(asyncio.Transport):
    """Takes everything; `log` has each call that matters."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 5)})
        self.log: list[Any] = []
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.log.append(data)

    def close(self) -> None:
        self.log.append("close")

    def abort(self) -> None:
        self.log.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.log or "abort" in self.log

    def write_eof(self) -> None:
        self.log.append("eof")

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Application(HTTPServerConnectionDelegate, HTTPMessageDelegate):
    """Leaves every request to the test."""

    def __init__(self) -> None:
        self.exchanges: list[RequestConnection] = []
        self.told: list[str] = []
        self.waiting: Awaitable[None] | None = None

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        assert isinstance(request_conn, RequestConnection)
        self.exchanges.append(request_conn)
        return self

    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> Awaitable[None] | None:
        return self.waiting

    def data_received(self, chunk: bytes) -> None:
        self.told.append(chunk.decode())

    def finish(self) -> None:
        self.told.append("finish")

    def on_connection_close(self) -> None:
        self.told.append("closed")

    def on_close(self, server_conn: object) -> None:
        self.told.append("gone")


class Stand:
    """A connection of a server that listens to nobody."""

    def __init__(self) -> None:
        self.application = Application()
        self.server = HttpServer(self.application)
        self.loop = asyncio.get_running_loop()
        self.server.done = self.loop.create_future()
        self.server.done.set_result(None)
        self.connection = ServerConnection(self.server, self.loop)
        self.transport = Transport()
        self.connection.connection_made(self.transport)

    def ask(self, data: bytes = request()) -> RequestConnection:
        self.connection.data_received(data)
        return self.application.exchanges[-1]


def headers(**fields: str) -> HTTPHeaders:
    return HTTPHeaders({name.replace("_", "-"): value for name, value in fields.items()})


def scene(play: Any) -> Any:
    """The test runs in a loop, on a stand of its own."""

    def test() -> None:
        async def main() -> None:
            stand = Stand()
            await play(stand)
            stand.connection.connection_lost(None)

        asyncio.run(main())

    test.__name__ = play.__name__
    return test


@scene
async def test_head_and_first_bytes_go_out_in_one_write(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers(Content_Length="5"), b"hello")
    exchange.finish()
    assert stand.transport.log == [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"]


@scene
async def test_a_write_is_done_at_once_while_the_client_takes_everything(stand: Stand) -> None:
    exchange = stand.ask()
    assert exchange.write_headers(OK, headers()).done()
    assert exchange.write(b"one").done()
    assert exchange.send(b"two") is None
    assert exchange.send(b"") is None
    exchange.finish()
    assert stand.transport.log[1:] == [b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"]


@scene
async def test_the_last_piece_and_the_end_go_out_in_one_write(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers(), b"one")
    assert exchange.send_last(b"two") is None
    exchange.finish()
    assert stand.transport.log[1:] == [b"3\r\ntwo\r\n0\r\n\r\n"]


@scene
async def test_a_long_last_piece_is_not_copied(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers(), b"one")
    exchange.send_last(piece := bytes(MAX_JOINED_BYTES + 1))
    exchange.finish()
    assert any(written is piece for written in stand.transport.log)
    assert stand.transport.log[-1] == b"0\r\n\r\n"


@scene
async def test_the_last_piece_of_a_body_with_a_length_needs_no_end(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers(Content_Length="6"), b"one")
    exchange.send_last(b"two")
    exchange.finish()
    assert stand.transport.log[1:] == [b"two"]


@scene
async def test_a_write_waits_while_the_client_takes_less(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers())
    stand.connection.pause_writing()
    one, two = exchange.send(b"one"), exchange.write(b"two")
    assert one is not None
    assert not two.done()
    two.cancel()  # whoever waits for one must not end the wait of the other
    stand.connection.resume_writing()
    await one
    assert exchange.send(b"three") is None


@scene
async def test_who_waits_for_a_client_that_leaves_gets_an_error(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(OK, headers())
    stand.connection.pause_writing()
    waiting = exchange.send(b"one")
    stand.connection.connection_lost(ConnectionResetError())
    assert waiting is not None
    with pytest.raises(StreamClosedError):
        await waiting
    for later in (exchange.send(b"two"), exchange.write(b"two"), exchange.write_headers(OK, headers())):
        assert later is not None
        with pytest.raises(StreamClosedError):
            await later
    exchange.finish()
    assert stand.application.told == ["finish", "gone"]


@scene
async def test_an_answer_that_is_over_cannot_write_into_the_next(stand: Stand) -> None:
    first = stand.ask()
    first.write_headers(OK, headers(Content_Length="0"))
    first.finish()
    stand.ask().write_headers(OK, headers(Content_Length="0"))
    written = list(stand.transport.log)
    first.write(b"late")
    first.close()
    with pytest.raises(RuntimeError):
        first.finish()
    assert stand.transport.log == written


@scene
async def test_headers_come_once_and_first(stand: Stand) -> None:
    exchange = stand.ask()
    with pytest.raises(RuntimeError):
        exchange.write(b"raw")
    exchange.write_headers(OK, headers())
    with pytest.raises(RuntimeError):
        exchange.write_headers(OK, headers())


@scene
async def test_an_answer_without_body_takes_none(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.write_headers(ResponseStartLine("", 204, "No Content"), headers())
    with pytest.raises(HTTPOutputError):
        exchange.write(b"body")
    assert stand.transport.log[-1] == "abort"


@scene
async def test_a_fault_after_the_answer_has_begun_closes_without_another(stand: Stand) -> None:
    exchange = stand.ask(post(b"Transfer-Encoding: chunked"))
    exchange.write_headers(OK, headers())
    stand.connection.data_received(b"nonsense\r\n")
    assert stand.transport.log[1:] == ["abort"]
    assert stand.application.told == ["closed"]


@scene
async def test_a_client_that_leaves_before_the_headers_are_taken_is_told_of_when_they_are(stand: Stand) -> None:
    stand.application.waiting = waiting = stand.loop.create_future()
    stand.ask()
    stand.connection.connection_lost(None)
    assert stand.application.told == ["gone"]
    waiting.set_result(None)
    await asyncio.sleep(0)
    assert stand.application.told == ["gone", "closed"]


@scene
async def test_where_a_client_comes_from_is_told(stand: Stand) -> None:
    context = stand.ask().context
    assert (context.remote_ip, context.protocol, str(context)) == ("192.0.2.1", "http", "192.0.2.1")


@scene
async def test_reading_stops_while_much_is_held_and_goes_on_after_it(stand: Stand) -> None:
    exchange = stand.ask()
    stand.connection.data_received(request() * 3000)
    assert stand.transport.log == ["pause"]
    stand.connection.data_received(request())  # what was under way
    exchange.write_headers(OK, headers(Content_Length="0"))
    exchange.finish()
    for _ in range(3001):
        await asyncio.sleep(0)
        exchange = stand.application.exchanges[-1]
        exchange.write_headers(OK, headers(Content_Length="0"))
        exchange.finish()
    assert stand.transport.log.count("pause") == stand.transport.log.count("resume") == 1
    assert stand.application.told == ["finish"] * 3002


@scene
async def test_a_request_lets_go_of_its_handler(stand: Stand) -> None:
    exchange = stand.ask()
    exchange.set_close_callback(lambda: None)
    exchange.write_headers(OK, headers(Content_Length="0"))
    exchange.finish()
    assert exchange.close_callback is None


@scene
async def test_one_timer_serves_many_requests(stand: Stand) -> None:
    with patch.object(stand.loop, "call_at") as arm:
        for _ in range(100):
            exchange = stand.ask()
            exchange.write_headers(OK, headers(Content_Length="0"))
            exchange.finish()
    arm.assert_not_called()


class Clock:
    """Stands in for a loop's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = loop.time()
        self.alarms: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any) -> Mock:
        self.alarms.append((when, callback))
        return Mock()

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [alarm for alarm in self.alarms if alarm[0] <= self.now]
        self.alarms = [alarm for alarm in self.alarms if alarm not in due]
        for _, callback in due:
            callback()


@scene
async def test_a_client_that_is_silent_after_a_slow_answer_is_left_in_time(stand: Stand) -> None:
    clock, idle = Clock(stand.loop), stand.server.times.idle_seconds
    with patch.multiple(stand.loop, time=clock.time, call_at=clock.call_at):
        connection = ServerConnection(stand.server, stand.loop)
        connection.connection_made(stand.transport)
        connection.data_received(request())
        clock.pass_by(idle)  # the alarm was for the request, which has come
        exchange = stand.application.exchanges[-1]
        exchange.write_headers(OK, headers(Content_Length="0"))
        exchange.finish()
        clock.pass_by(idle - 1)
        assert "abort" not in stand.transport.log
        clock.pass_by(1)
        assert stand.transport.log[-1] == "abort"
        connection.connection_lost(None)


@scene
async def test_a_reader_is_cut_only_when_it_makes_no_progress_for_the_whole_limit(stand: Stand) -> None:
    clock, stall = Clock(stand.loop), stand.server.times.stall_seconds
    with patch.multiple(stand.loop, time=clock.time, call_at=clock.call_at):
        connection = ServerConnection(stand.server, stand.loop)
        connection.connection_made(stand.transport)
        connection.data_received(request())
        stand.application.exchanges[-1].write_headers(OK, headers(Content_Length="100"))
        stand.transport.unsent = 100
        connection.pause_writing()
        for _ in range(3):  # slow, but it reads
            stand.transport.unsent -= 1
            clock.pass_by(stall)
        connection.resume_writing()
        clock.pass_by(10 * stall)  # nothing to read: the handler may take its time
        assert "abort" not in stand.transport.log
        connection.pause_writing()
        clock.pass_by(stall - 1)
        assert "abort" not in stand.transport.log
        clock.pass_by(1)
        assert stand.transport.log[-1] == "abort"
        connection.connection_lost(None)


UNSENDABLE = {
    "CR and LF": ("a\r\nEvil: 1", "a??Evil: 1"),
    "LF alone": ("a\nEvil: 1", "a?Evil: 1"),
    "CR alone": ("a\rEvil: 1", "a?Evil: 1"),
    "NUL": ("a\0b", "a?b"),
    "DEL": ("a\x7fb", "a?b"),
    "not Latin-1": ("gpt-ü-模型-\ud800", "gpt-ü-??-?"),
    "a tab": ("a\tb", "a\tb"),
    "a line separator": ("a\u2028b\x85", "a?b\x85"),
}


@pytest.mark.parametrize(("value", "sent"), UNSENDABLE.values(), ids=UNSENDABLE)
@pytest.mark.parametrize("place", ["a header", "the reason"])
def test_a_value_that_no_header_can_hold_is_cleaned_and_never_fails(value: str, sent: str, place: str) -> None:
    @scene
    async def play(stand: Stand) -> None:
        exchange = stand.ask()
        reason, fields = (value, {}) if place == "the reason" else ("OK", {"X": value})
        exchange.send_head(200, reason, {**fields, "Content-Length": "2"}, b"ok")
        shown, own = (sent, "") if place == "the reason" else ("OK", f"X: {sent}\r\n")
        assert stand.transport.log == [f"HTTP/1.1 200 {shown}\r\n{own}Content-Length: 2\r\n\r\nok".encode("latin-1")]

    play()


def test_a_name_that_no_header_can_have_is_an_error_before_anything_is_sent() -> None:
    @scene
    async def play(stand: Stand) -> None:
        exchange = stand.ask()
        for _ in range(2):
            with pytest.raises(ValueError, match="Invalid name of a header"):
                exchange.send_head(200, "OK", {"X\r\nEvil": "1"}, b"body")
        assert stand.transport.log == []
        assert exchange.send_head(200, "OK", {"Content-Length": "2"}, b"ok") is None
        assert stand.transport.log == [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]

    play()


def test_an_answer_to_head_has_no_body_even_if_one_is_written() -> None:
    @scene
    async def play(stand: Stand) -> None:
        exchange = stand.ask(request(b"HEAD / HTTP/1.1"))
        exchange.send_head(200, "OK", {"Content-Length": "4"}, b"bo")
        exchange.send(b"dy")
        exchange.finish()
        assert stand.transport.log == [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"]

    play()


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=6), st.lists(st.integers(1, 9), min_size=1))
def test_chunks_in_any_pieces_are_one_body(chunks: list[bytes], steps: list[int]) -> None:
    data = b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    body, taken, held, at = ChunkedBodyReader(), b"", b"", 0
    for step in steps * len(data):
        held += data[at : at + step]
        at += step
        piece, used = body.take(held, 1000)
        taken, held = taken + piece, held[used:]
    assert (taken, held, body.done) == (b"".join(chunks), b"", True)
