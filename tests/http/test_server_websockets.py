"""WebSockets behind a front: the fast one hands them to Tornado's."""

from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.support.front import Answer, Running
from tests.support.front_stage import Stage, fronts, get, play


@fronts
def test_a_websocket_speaks(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        async with connect(f"ws://127.0.0.1:{running.port}/echo", max_size=None) as socket:
            for message in ("hello", b"bytes", "x" * 1_000_000):
                await socket.send(message)
                assert await socket.recv() == message
        assert await stage.told.get() == "left"

    play(front, scene)


HANDSHAKE = (
    b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
HELLO = b"\x81\x85\x00\x00\x00\x00hello"


@fronts
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


@fronts
def test_a_websocket_to_no_route_is_refused_and_the_connection_serves_on(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{running.port}/")
        assert refused.value.response.status_code == 200
        answers = await running.ask(get(b"/", HANDSHAKE), get(b"/next"))
        assert b'"/next"' in answers[1].body

    play(front, scene)


@fronts
@pytest.mark.parametrize(
    "fields",
    [b"Upgrade: websocket\r\n", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n", b"Connection: Upgrade\r\n"],
    ids=["no connection option", "h2c", "no protocol"],
)
def test_other_upgrades_are_left_alone(front: str, fields: bytes) -> None:
    async def scene(running: Running, stage: Stage) -> list[Answer]:
        return await running.ask(get(b"/a", fields), get(b"/echo", fields), get(b"/b"))

    assert [answer.status for answer in play(front, scene)] == [200, 400, 200]


@fronts
def test_sessions_that_were_handed_over_close_with_the_server(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(get(b"/slow", HANDSHAKE))
        assert await stage.told.get() == "begun"
        running.server.stop()
        await running.server.close_all_connections()
        assert await client.rest() == b""

    play(front, scene)
