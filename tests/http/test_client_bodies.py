"""What the client sends, and at whose pace: bodies whole and in pieces, answers that come early, readers that are slow."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from tests.support.raw import Peer, answer, chunked, on_both_loops, serving, then_wait
from tornado_gate.http.client.connection import JOIN_BYTES, UNREAD_BYTES
from tornado_gate.http.client.faults import ConnectionBroken
from tornado_gate.http.client.pool import HttpClient

MIB = 1024 * 1024


@dataclass
class Pieces:
    """A body in pieces, which says how far it was read and when it was let go."""

    pieces: list[bytes]
    missing: int = 0
    sent: int = 0
    begun: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def length(self) -> int:
        return sum(map(len, self.pieces)) + self.missing

    async def chunks(self) -> AsyncIterator[bytes]:
        self.begun += 1
        self.started.set()
        try:
            for piece in self.pieces:
                self.sent += len(piece)
                yield piece
        finally:
            self.closed.set()


def echo() -> tuple[list[bytes], object]:
    """A script that answers every request with "ok" and keeps what it was sent."""
    requests: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            requests.append(await peer.request())
            await peer.say(answer())

    return requests, script


async def send_request(client: HttpClient, url: str, body: bytes | Pieces | None, method: str = "POST") -> bytes:
    response = await client.request(method, url, {}, body)
    return b"".join([piece async for piece in response])


@on_both_loops
@pytest.mark.parametrize("size", [0, 1, 70_000, JOIN_BYTES + 1, 8 * MIB])
async def test_a_body_of_bytes_arrives_with_its_length(size: int) -> None:
    requests, script = echo()
    async with serving(script) as raw:  # type: ignore[arg-type]
        client = HttpClient(5)
        for _ in range(2):
            assert await send_request(client, raw.url, b"x" * size) == b"ok"
        await client.close()
        assert len(raw.peers) == 1
    head, _, body = requests[1].partition(b"\r\n\r\n")
    assert f"Content-Length: {size}".encode() in head
    assert body == b"x" * size


@on_both_loops
async def test_a_small_request_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    segments: list[bytes] = []

    async def script(peer: Peer) -> None:
        segments.append(await peer.reader.read(65536))
        await peer.say(answer())

    async with serving(script) as raw:
        client = HttpClient(5)
        await send_request(client, raw.url, b'{"model": "m"}')
        await client.close()
    assert segments[0].startswith(b"POST / HTTP/1.1\r\n")
    assert segments[0].endswith(b'\r\n\r\n{"model": "m"}')


@on_both_loops
async def test_only_methods_that_expect_a_body_say_that_there_is_none() -> None:
    requests, script = echo()
    async with serving(script) as raw:  # type: ignore[arg-type]
        client = HttpClient(5)
        for method in ("GET", "POST", "DELETE"):
            await send_request(client, raw.url, None, method)
        await client.close()
    assert [b"Content-Length: 0" in request for request in requests] == [False, True, True]


@on_both_loops
async def test_a_body_in_pieces_arrives_whole_and_its_connection_is_kept() -> None:
    requests, script = echo()
    body = Pieces([b"one", b"", b"two" * 50_000, b"three"])
    async with serving(script) as raw:  # type: ignore[arg-type]
        client = HttpClient(5)
        for _ in range(2):
            assert await send_request(client, raw.url, body) == b"ok"
        await client.close()
        assert len(raw.peers) == 1
    assert requests[1].endswith(b"\r\n\r\n" + b"".join(body.pieces))
    assert requests[0] == requests[1]


@on_both_loops
async def test_a_body_in_pieces_is_begun_again_when_a_kept_connection_was_closed() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"%d" % peer.number))
        if peer.number == 0:
            await peer.request()
            peer.reset()
        else:
            await peer.gone()

    async with serving(script) as raw:
        client = HttpClient(5)
        await send_request(client, raw.url, b"")
        body = Pieces([b"one", b"two"])
        assert await send_request(client, raw.url, body, "PUT") == b"1"
        assert body.begun == 2
        await client.close()


@on_both_loops
async def test_a_body_is_not_read_faster_than_the_upstream_takes_it() -> None:
    go_on = asyncio.Event()

    async def script(peer: Peer) -> None:
        head = await peer.head()
        await go_on.wait()
        await peer.reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
        await peer.say(answer())

    body = Pieces([bytes(65536)] * 512)
    async with serving(script) as raw:
        client = HttpClient(5)
        task = asyncio.create_task(send_request(client, raw.url, body))
        seen = -1
        while seen != body.sent or not seen:  # until it stands still
            seen = body.sent
            await asyncio.get_running_loop().run_in_executor(None, socket.gethostbyname, "127.0.0.1")
        assert body.sent < body.length
        go_on.set()
        assert await task == b"ok"
        await client.close()
    assert body.sent == body.length
    await asyncio.get_running_loop().shutdown_default_executor()


@on_both_loops
@pytest.mark.parametrize("pieces", [True, False], ids=["in pieces", "in one"])
async def test_an_answer_that_comes_while_we_send_is_read_and_the_rest_is_not_sent(pieces: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(answer(b"too large", status="413 Content Too Large"))
        await asyncio.Event().wait()

    body = Pieces([bytes(65536)] * 512)
    async with serving(script) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, body if pieces else b"".join(body.pieces))
        assert response.status == 413
        assert b"".join([piece async for piece in response]) == b"too large"
        assert not any(client._idle.values())
        if pieces:
            await body.closed.wait()
            assert body.sent < body.length
        await client.close()


@on_both_loops
async def test_an_answer_may_begin_before_the_request_has_ended() -> None:
    begun = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(chunked(b"begun", end=b""))
        await begun.wait()
        rest = await peer.reader.readexactly(2 * MIB)
        await peer.say(b"4\r\n%b\r\n0\r\n\r\n" % rest[:4])
        await peer.gone()

    async with serving(script) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, Pieces([b"body" * 1024] * 512))
        assert await anext(response) == b"begun"
        begun.set()
        assert await anext(response) == b"body"
        assert [piece async for piece in response] == []
        assert client._open
        await client.close()


@on_both_loops
@pytest.mark.parametrize("missing", [-1, 1], ids=["too long", "too short"])
async def test_a_body_that_is_not_as_long_as_it_said_fails(missing: int) -> None:
    body = Pieces([b"12345", b"67890"], missing)
    arrived: list[bytes] = []

    async def script(peer: Peer) -> None:
        await peer.head()
        arrived.append(await peer.reader.read())

    async with serving(script) as raw:
        client = HttpClient(5)
        with pytest.raises(ConnectionBroken, match="the request's body failed"):
            await send_request(client, raw.url, body)
        await body.closed.wait()
        await client.close()
        assert len(raw.peers) == 1
    assert all(len(each) < 10 or missing > 0 for each in arrived)


@on_both_loops
async def test_a_body_whose_source_fails_fails() -> None:
    class Broken_(Pieces):
        async def chunks(self) -> AsyncIterator[bytes]:
            yield b"half"
            raise OSError("the disk is gone")

    async with serving(then_wait()) as raw:
        client = HttpClient(5)
        with pytest.raises(ConnectionBroken, match="the disk is gone"):
            await send_request(client, raw.url, Broken_([b"halfhalf"]))
        await client.close()


@on_both_loops
async def test_leaving_while_a_body_is_sent_lets_its_source_go() -> None:
    async with serving(lambda peer: asyncio.Event().wait()) as raw:  # type: ignore[arg-type, return-value]
        client = HttpClient(5)
        body = Pieces([bytes(65536)] * 512)
        task = asyncio.create_task(send_request(client, raw.url, body))
        await body.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await body.closed.wait()
        await client.close()


@on_both_loops
async def test_an_upstream_is_read_at_the_readers_pace() -> None:
    written = 0
    stuck, finished = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal written
        await peer.request()
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        peer.writer.write(answer(b"", Content_Length=str(64 * MIB)))
        for _ in range(1024):
            peer.writer.write(bytes(65536))
            if peer.writer.transport.get_write_buffer_size() > MIB:
                stuck.set()
            await peer.writer.drain()
            written += 65536
        finished.set()
        await peer.gone()

    async with serving(script) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        while response.size <= UNREAD_BYTES:
            await response.wait_for_change()
        unread = response.size
        for _ in range(100):
            await asyncio.sleep(0)
        assert response.size == unread
        assert not finished.is_set()
        total = 0
        async for piece in response:
            total += len(piece)
            assert len(piece) < MIB
        assert total == 64 * MIB
        await client.close()


@on_both_loops
async def test_what_has_come_since_the_last_piece_is_one_piece_and_nobody_waits_for_it() -> None:
    async with serving(then_wait(chunked(*[b"data: x\n\n"] * 100, end=b""))) as raw:
        client = HttpClient(5)
        response = await client.request("POST", raw.url, {}, b"")
        while response.size < 900:
            await response.wait_for_change()
        with pytest.raises(StopIteration) as came:  # a coroutine that does not suspend is over with its first step
            response.__anext__().send(None)
        assert came.value.value == b"data: x\n\n" * 100
        await client.close()
