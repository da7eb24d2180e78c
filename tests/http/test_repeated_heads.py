"""A head that repeats the last one of its connection, with another length, is served as on a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate

from tests.support.front import Answer, Client, Recorder, Running, _Recording, run, serving
from tornado_gate.http.server.connection import ServerConnection

BEFORE = b"POST /a HTTP/1.1\r\nHost: h\r\nX-Key: first-key\r\n"
MIDDLE = (BEFORE + b"Content-Length: ", b"\r\nX-After: yes\r\n\r\n")
LAST = (BEFORE + b"Content-Length: ", b"\r\n\r\n")
FIRST = (b"POST /a HTTP/1.1\r\nContent-Length: ", b"\r\nHost: h\r\n\r\n")
LOWER = (b"POST /a HTTP/1.1\r\nhost: h\r\ncontent-length:", b"\r\n\r\n")
SPACED = (b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: \t ", b" \t\r\nX: y\r\n\r\n")
PLACES = {"middle": MIDDLE, "last": LAST, "first": FIRST, "lower": LOWER, "spaced": SPACED}

LENGTHS = [
    *(b"5", b"0", b"00", b"6", b"0000000000000007", b"000000000000000005", b"10"),
    *(
        b"+5",
        b"-5",
        b"5 ",
        b" 5",
        b"\t5",
        b"5\t",
        b"5,5",
        b"5;5",
        b"0x5",
        b"5.0",
        b"",
        b" ",
        b"five",
        b"\xb2",
        b"5\x00",
    ),
    *(b"0000000000000000005", b"9" * 18, b"9" * 19, b"1" * 40, b"5\r\nContent-Length: 5", b"5\r\nContent-Length: 6"),
    *(
        b"5\r\nTransfer-Encoding: chunked",
        b"5\r\nX-After: yes",
        b"5\r\n",
        b"5\n",
        b"5\r",
        b"5\r\n folded",
        b"5\r\nExpect: 100-continue",
    ),
]


@dataclass(slots=True)
class Noting(Recorder):
    """A `Recorder` that notes something about each head. `again` are the notes that came again.

    `takes`: it takes such a request with its body; otherwise the request is started like any other.
    """

    takes: bool = True
    again: list[str] = field(default_factory=list)

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        return _NotingDelegate(self, request_conn)

    def take_again(self, request_conn: HTTPConnection, note: Any, body: bytes) -> HTTPMessageDelegate | None:
        start_line, headers = note
        self.again.append(f"{start_line.path} {headers.get('X-Key')}")
        if not self.takes:
            return None
        delegate = _NotingDelegate(self, request_conn)
        delegate.headers_received(start_line, HTTPHeaders({**headers, "Content-Length": str(len(body))}))
        delegate.data_received(body)
        delegate.finish()
        return delegate


class _NotingDelegate(_Recording):
    def headers_received(self, start_line: Any, headers: HTTPHeaders) -> None:
        super().headers_received(start_line, headers)
        headers.note = start_line, dict(headers)  # type: ignore[attr-defined]


async def play(running: Running, pieces: Sequence[bytes]) -> tuple[list[tuple[int, bytes]], bytes]:
    """Send pieces, one after the other has been read. Return what comes until the server closes or all is answered."""
    client = await running.connect()
    for piece in pieces:
        await client.send(piece)
    client.writer.write_eof()
    rest = await client.rest()
    await client.close()
    answers: list[tuple[int, bytes]] = []
    while rest.startswith(b"HTTP/1.1 "):
        head, _, after = rest.partition(b"\r\n\r\n")
        length = next((int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), 0)
        answers.append((int(head[9:12]), after[:length]))
        rest = after[length:]
    return answers, rest


takes_or_not = pytest.mark.parametrize("takes", [True, False])


@takes_or_not
def test_every_length_is_read_as_on_a_connection_of_its_own(*, takes: bool) -> None:
    async def check() -> None:
        async with serving("httptools", Noting(takes=takes), idle_seconds=5) as running:
            failed = []
            for place, (before, after) in PLACES.items():
                first = before + b"5" + after + b"hello"
                for length in LENGTHS:
                    second = before + length + after + b"hello world"
                    alone = await play(running, [second])
                    answers, rest = await play(running, [first + second])
                    if (answers[1:], rest) != alone or answers[0] != (200, b"/a 5"):
                        failed.append((place, length, alone, answers, rest))
            assert failed == []

    run("httptools", check())


OTHER_HEADS = {
    "another key of the same length": (LAST[0].replace(b"first-key", b"other-key") + b"5" + LAST[1], "/a other-key"),
    "another path of the same length": (LAST[0].replace(b"/a", b"/b") + b"5" + LAST[1], "/b first-key"),
    "one more header, or one less": (LAST[0] + b"5\r\nX-More: yes\r\n\r\n", "/a first-key"),
    "another case": (LAST[0].replace(b"Content-L", b"content-l") + b"5" + LAST[1], "/a first-key"),
    "an empty line before": (b"\r\n" + LAST[0] + b"5" + LAST[1], "/a first-key"),
}


@pytest.mark.parametrize("first", ["last", "middle"])
def test_a_head_that_differs_elsewhere_is_another_one(first: str) -> None:
    async def check() -> None:
        application = Noting()
        before, after = PLACES[first]
        async with serving("httptools", application) as running:
            for name, (head, key) in OTHER_HEADS.items():
                application.again.clear()
                application.seen.clear()
                await running.ask(before + b"5" + after + b"hello", head + b"olleh")
                assert [seen.body for seen in application.seen] == [b"hello", b"olleh"], name
                assert application.again == [], name
                path, _, value = key.partition(" ")
                seen = application.seen[1]
                assert (seen.line.path, dict(seen.headers)["X-Key"]) == (path, value), name

    run("httptools", check())


@takes_or_not
def test_repeated_heads_have_their_note_and_their_own_length(*, takes: bool) -> None:
    async def check() -> None:
        application = Noting(takes=takes)
        before, after = MIDDLE
        async with serving("httptools", application) as running:
            bodies = [b"x" * size for size in (5, 6, 6, 50, 5, 1000, 1)]
            requests = [before + b"%d" % len(body) + after + body for body in bodies]
            answers = await running.ask(*requests)
        assert [answer.body for answer in answers] == [b"/a %d" % len(body) for body in bodies]
        assert application.again == ["/a first-key"] * 6
        lengths = [dict(seen.headers)["Content-Length"] for seen in application.seen]
        assert lengths == [str(len(body)) for body in bodies]
        assert all(dict(seen.headers)["X-After"] == "yes" for seen in application.seen)

    run("httptools", check())


@takes_or_not
def test_a_repeated_request_may_be_cut_at_every_byte(monkeypatch: pytest.MonkeyPatch, *, takes: bool) -> None:
    """The pieces are given to the connection one by one, so that none is joined with the next."""
    application = Noting(takes=takes)
    before, after = MIDDLE
    first, second = before + b"5" + after + b"hello", before + b"11" + after + b"hello world"

    async def check() -> None:
        async with serving("httptools", application) as running:
            client, connection = await open_connection(running, monkeypatch)
            await feed(client, connection, [b"hello"], first)
            for cut in range(1, len(second)):
                await feed(client, connection, [b"hello world"], second[:cut], second[cut:])
            await feed(
                client, connection, [b"hello world"], *[second[index : index + 1] for index in range(len(second))]
            )
            await feed(client, connection, [b"hello", b"hello world"] * 3, (first + second) * 3)
            await client.close()

    async def feed(client: Client, connection: ServerConnection, expected: list[bytes], *pieces: bytes) -> None:
        application.seen.clear()
        for piece in pieces:
            connection.data_received(piece)
        for body in expected:
            assert (await client.answer()).body == b"/a %d" % len(body), pieces
        received = [(seen.body, dict(seen.headers)["Content-Length"]) for seen in application.seen]
        assert received == [(body, str(len(body))) for body in expected], pieces

    run("httptools", check())


async def open_connection(running: Running, monkeypatch: pytest.MonkeyPatch) -> tuple[Client, ServerConnection]:
    """Connect, and return both sides."""
    made: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()
    original = ServerConnection.connection_made

    def connection_made(connection: ServerConnection, transport: asyncio.BaseTransport) -> None:
        original(connection, transport)
        made.set_result(connection)

    monkeypatch.setattr(ServerConnection, "connection_made", connection_made)
    return await running.connect(), await made


def test_a_long_head_is_not_kept() -> None:
    async def check() -> list[Answer]:
        application = Noting()
        head = BEFORE + b"X-Long: " + b"x" * 9000 + b"\r\nContent-Length: 5\r\n\r\nhello"
        async with serving("httptools", application) as running:
            answers = await running.ask(head, head)
        assert application.again == []
        return answers

    assert [answer.body for answer in run("httptools", check())] == [b"/a 5"] * 2
