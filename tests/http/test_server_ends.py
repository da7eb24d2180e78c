"""Who leaves, who is waited for and how long, and how a server ends."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest

from tests.support.front import Client, Running
from tests.support.front_stage import Stage, fronts, get, ours, play, post
from tornado_gate.http.server.front import HttpServer
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import PlainRefusals

# Who leaves


@fronts
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_silent_handler_hears_at_once_that_its_client_has_left(front: str, how: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow"))
        assert await stage.told.get() == "begun"
        await leave(client, how)
        assert await stage.told.get() == "left"
        stage.go.set()
        if how == "half":
            assert await client.rest() == b""

    play(front, scene)


async def leave(client: Client, how: str) -> None:
    if how == "half":
        client.writer.write_eof()
    elif how == "close":
        await client.close()
    else:
        client.reset()


@fronts
def test_a_handler_hears_of_a_client_that_leaves_between_two_pieces(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/pieces"))
        await client.head()
        client.reset()
        assert await stage.told.get() == "left"

    play(front, scene)


@fronts
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_handler_hears_of_a_client_that_leaves_within_its_body(front: str, how: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(post(b"/stream", b"0123456789")[:-4])
        assert await stage.told.get() == 6
        await leave(client, how)
        assert await stage.told.get() == "left"

    play(front, scene)


@fronts
def test_a_client_that_leaves_while_the_handler_takes_a_piece_is_told_of_afterwards(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(post(b"/stream?slowly=1", b"0123456789")[:-4])
        assert await stage.told.get() == 6
        client.reset()
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.told.empty()
        stage.go.set()
        assert await stage.told.get() == "left"

    play(front, scene)


@fronts
def test_what_was_asked_before_a_client_closed_its_half_is_answered(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        client.writer.write(get(b"/a") + get(b"/b") + get(b"/c"))
        client.writer.write_eof()
        return await client.rest()

    assert play(front, scene).count(b"HTTP/1.1 200 OK") == 3


@fronts
def test_writing_to_a_client_that_has_left_fails(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/late"))
        assert await stage.told.get() == "begun"
        await client.close()
        for _ in range(50):
            await asyncio.sleep(0)
        stage.go.set()
        assert await stage.told.get() == "closed"

    play(front, scene)


@fronts
def test_a_handler_writes_no_faster_than_its_client_reads(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> int:
        client = await running.connect(receive_buffer=20_000)
        client.pause()
        await client.send(get(b"/big"))
        await stage.told.get()
        for _ in range(500):
            await asyncio.sleep(0)
        written = [stage.told.get_nowait() for _ in range(stage.told.qsize())]
        assert not written or written[-1] < 15_000_000
        client.resume()
        return sum([len(chunk) async for chunk in whole(client)])

    assert play(front, scene) == 20_000_000


async def whole(client: Client) -> Any:
    await client.head()
    async for chunk in client.chunks():
        yield chunk


@ours
def test_a_handler_that_waits_for_its_reader_hears_that_it_has_left(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect(receive_buffer=20_000)
        client.pause()
        await client.send(get(b"/big"))
        await stage.told.get()
        client.reset()
        while (told := await stage.told.get()) != "closed":
            assert told < 20_000_000

    play(front, scene)


@fronts
def test_the_next_request_waits_until_the_answer_before_has_been_taken(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect(receive_buffer=20_000)
        client.pause()
        await client.send(get(b"/whole") + get(b"/slow"))
        for _ in range(200):
            await asyncio.sleep(0)
        assert stage.told.empty()
        client.resume()
        assert len((await client.answer()).body) == 20_000_000
        assert await stage.told.get() == "begun"
        stage.go.set()
        assert (await client.answer()).body == b"slow"

    play(front, scene)


# Time


@fronts
@pytest.mark.parametrize("before", [b"", b"GET / HTT", get(b"/")], ids=["nothing", "half a head", "a request"])
def test_a_connection_that_asks_nothing_is_closed(front: str, before: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        client.writer.write(before)
        return await client.rest()

    assert play(front, scene, idle_seconds=0.05).startswith(b"HTTP/1.1 200" if before.endswith(b"\r\n\r\n") else b"")


@fronts
def test_a_head_that_dribbles_is_not_waited_for(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> int:
        client = await running.connect()
        dribbled = 0
        gone = asyncio.ensure_future(client.rest())
        while not gone.done() and dribbled < 10_000:
            client.writer.write(b"GET /" if not dribbled else b"a")
            dribbled += 1
            await asyncio.wait([gone], timeout=0.01)
        return dribbled

    assert play(front, scene, idle_seconds=0.1) < 200


@fronts
def test_a_handler_may_take_longer_than_a_connection_may_idle(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(get(b"/slow"))
        asyncio.get_running_loop().call_later(0.2, stage.go.set)
        return (await client.answer()).body

    assert play(front, scene, idle_seconds=0.05) == b"slow"


@fronts
@pytest.mark.parametrize("path", [b"/stream", b"/stream?seconds=0.05"], ids=["server", "handler"])
def test_a_body_that_does_not_come_is_not_waited_for(front: str, path: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        client = await running.connect()
        await client.send(post(path, b"0123456789")[:-4])
        said = await client.rest()
        assert [await stage.told.get(), await stage.told.get()] == [6, "left"]
        return said

    said = play(front, scene, body_seconds=0.1 if path == b"/stream" else None)
    assert said.startswith(b"" if front == "tornado" else b"HTTP/1.1 408 ")


@ours
def test_only_half_a_head_is_told_that_it_came_too_late(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> list[bytes]:
        clients = [await running.connect() for _ in range(2)]
        await clients[0].send(get(b"/")[:-2])
        return [await client.rest() for client in clients]

    half, nothing = play(front, scene, times=Times(first_head_seconds=0.5), refusals=(seen := Seen()))
    assert half.startswith(b"HTTP/1.1 408 ")
    assert nothing == b""
    assert seen.reached == ["head_time"]


@ours
def test_only_the_first_head_has_little_time(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> int:
        client = await running.connect()
        await client.send(get(b"/"))
        await client.answer()
        silent = await running.connect()
        assert await silent.rest() == b""
        await client.send(get(b"/"))
        return (await client.answer()).status

    assert play(front, scene, times=Times(first_head_seconds=1.0)) == 200


# Readers that stop


class Seen(PlainRefusals):
    """Records the limits that connections have reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.event = asyncio.Event()

    def on_limit(self, limit: str, address: str) -> None:
        self.reached.append(limit)
        self.event.set()


@ours
@pytest.mark.parametrize("path", [b"/whole", b"/big"], ids=["whole", "in pieces"])
def test_a_client_that_takes_nothing_of_its_answer_is_let_go(front: str, path: bytes) -> None:
    seen = Seen()

    async def scene(running: Running, stage: Stage) -> int:
        client = await running.connect(receive_buffer=20_000)
        client.pause()
        await client.send(get(path))
        await seen.event.wait()
        if path == b"/big":  # its handler hears that it writes to nobody
            while await stage.told.get() != "closed":
                pass
        client.resume()
        with suppress(ConnectionError):
            return len(await client.rest())
        return 0

    assert play(front, scene, times=Times(stall_seconds=0.2), refusals=seen) < 20_000_000
    assert seen.reached == ["stalled_reader"]


# The end


@ours
def test_a_server_that_stops_closes_idle_connections_and_answers_the_others(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        idle, busy, beginning = [await running.connect() for _ in range(3)]
        await idle.send(get(b"/"))
        await idle.answer()
        await beginning.send(get(b"/")[:-2])
        await busy.send(get(b"/slow"))
        await stage.told.get()
        running.server.stop()
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await running.connect()
        stage.go.set()
        await beginning.send(b"\r\n")
        for client in (busy, beginning):
            answer = await client.answer()
            assert answer.status == 200
            assert answer.headers["Connection"] == "close"
            assert await client.rest() == b""

    play(front, scene)


# A request that arrives while its connection would be closed


async def connect_raw(running: Running, *, first: bytes = get(b"/")) -> socket.socket:
    """A kept connection. What is sent on it is at the server before the loop polls."""
    raw = socket.create_connection(("127.0.0.1", running.port))
    raw.sendall(first)
    raw.setblocking(False)
    while b"\r\n\r\n" not in await asyncio.get_running_loop().sock_recv(raw, 65536):
        pass
    return raw


async def read_rest(raw: socket.socket) -> bytes:
    """What the server sends until it closes. Raises ConnectionResetError if it does not close in order."""
    pieces, loop = [b""], asyncio.get_running_loop()
    with raw:
        while not pieces[1:] or pieces[-1]:
            pieces.append(await loop.sock_recv(raw, 65536))
    return b"".join(pieces)


@ours
def test_a_request_that_was_not_read_yet_is_answered_when_the_server_stops(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        raw = await connect_raw(running)
        raw.sendall(get(b"/again"))
        running.server.stop()
        return await read_rest(raw)

    answer = play(front, scene)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"Connection: close" in answer
    assert b"/again" in answer


@ours
def test_a_request_that_was_not_read_yet_is_answered_although_its_connection_was_idle_too_long(front: str) -> None:
    """The loop was busy when the time was over and the request had arrived. uvloop calls timers before it polls."""

    async def scene(running: Running, stage: Stage) -> bytes:
        raw = await connect_raw(running)
        raw.sendall(get(b"/again", b"Connection: close\r\n"))
        (connection,) = running.server._connections  # type: ignore[union-attr]
        connection._on_timeout()
        return await read_rest(raw)

    assert b"/again" in play(front, scene)


@ours
def test_a_request_that_was_not_read_yet_is_answered_although_its_place_is_wanted(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        raw = await connect_raw(running)
        raw.sendall(get(b"/again", b"Connection: close\r\n"))
        assert not running.server._close_waiting()  # type: ignore[union-attr]
        return await read_rest(raw)

    assert b"/again" in play(front, scene)


@ours
def test_a_stream_that_ends_while_the_server_stops_may_be_followed_by_one_request(front: str) -> None:
    """Its head, which was sent before, has said that the connection stays open: the client may be sending already."""

    async def scene(running: Running, stage: Stage) -> bytes:
        raw = await connect_raw(running, first=get(b"/pieces"))
        running.server.stop()
        stage.go.set()
        while not (await asyncio.get_running_loop().sock_recv(raw, 65536)).endswith(b"0\r\n\r\n"):
            pass
        for _ in range(10):
            await asyncio.sleep(0)
        raw.sendall(get(b"/again"))
        return await read_rest(raw)

    answer = play(front, scene)
    assert b"Connection: close" in answer
    assert b"/again" in answer


@ours
def test_a_connection_that_is_accepted_while_the_server_stops_may_send_one_request(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> bytes:
        server = running.server
        assert isinstance(server, HttpServer)
        server.retire()
        server.close_idle()  # before the port closes: what the kernel has accepted for it still comes
        raw = socket.create_connection(("127.0.0.1", running.port))
        raw.setblocking(False)
        for _ in range(50):
            await asyncio.sleep(0)
        assert server._connections
        raw.sendall(get(b"/first"))
        return await read_rest(raw)

    answer = play(front, scene)
    assert b"Connection: close" in answer
    assert b"/first" in answer


@ours
def test_a_connection_that_stays_silent_does_not_delay_the_end_of_a_server(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        raw = await connect_raw(running, first=get(b"/pieces"))
        running.server.stop()
        stage.go.set()
        assert (await read_rest(raw)).endswith(b"0\r\n\r\n")
        await running.server.wait_closed()  # type: ignore[union-attr]

    play(front, scene)


@fronts
def test_closing_all_connections_tells_their_handlers(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow"))
        await stage.told.get()
        running.server.stop()
        await running.server.close_all_connections()
        assert await client.rest() == b""
        assert await stage.told.get() == "left"

    play(front, scene)
