"""How many connections a server keeps, and which."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.support.front import Client, Running
from tests.support.front_stage import Stage, get, ours, play
from tornado_gate.http.server.limits import MAX_REFUSED, ConnectionLimits
from tornado_gate.http.server.pacing import Times
from tornado_gate.http.server.refusals import Limit, PlainRefusals


class Seen(PlainRefusals):
    """Records the limits that connections have reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def on_limit(self, limit: str, address: str) -> None:
        self.reached.append(limit)


async def send_request(client: Client, path: bytes = b"/") -> int:
    await client.send(get(path))
    return (await client.answer()).status


@ours
def test_connections_that_ask_nothing_make_room_for_others(front: str) -> None:
    limits, seen = ConnectionLimits(total=4), Seen()

    async def scene(running: Running, stage: Stage) -> None:
        used = await running.connect()
        assert await send_request(used) == 200
        silent = [await running.connect() for _ in range(3)]
        newcomers = []
        for _ in silent:
            newcomers.append(await running.connect())
            assert await send_request(newcomers[-1]) == 200
        for one in silent:  # they have asked nothing, so they had less time than `used`
            assert await one.rest() == b""
        assert await send_request(used) == 200

    play(front, scene, limits=limits, refusals=seen, times=Times(first_head_seconds=30))
    assert seen.reached == [Limit.CONNECTIONS] * 3


@ours
def test_a_connection_beyond_the_limit_gets_a_503_while_all_others_are_busy(front: str) -> None:
    limits, seen = ConnectionLimits(total=2), Seen()

    async def scene(running: Running, stage: Stage) -> None:
        busy = [await running.connect() for _ in range(2)]
        for client in busy:
            await client.send(get(b"/slow"))
            assert await stage.told.get() == "begun"
        refused = await running.connect()
        answer = await refused.answer()
        assert (answer.status, answer.headers["Retry-After"], answer.headers["Connection"]) == (503, "5", "close")
        assert b"too_many_connections" in answer.body
        stage.go.set()
        for client in busy:
            assert (await client.answer()).status == 200
        await busy[0].close()
        await refused.close()
        assert await send_request(await running.connect()) == 200

    play(front, scene, limits=limits, refusals=seen)
    assert seen.reached == [Limit.CONNECTIONS]


@ours
def test_refused_connections_hold_few_descriptors_themselves(front: str) -> None:
    async def scene(running: Running, stage: Stage) -> None:
        busy = await running.connect()
        await busy.send(get(b"/slow"))
        await stage.told.get()
        held = [await running.connect() for _ in range(MAX_REFUSED)]
        for client in held:
            assert (await client.head()).status == 503
        more = await running.connect()
        with suppress(ConnectionResetError):
            assert await more.rest() == b""  # closed without an answer

    play(front, scene, limits=ConnectionLimits(total=1))


def test_the_limit_of_an_address_does_not_apply_to_this_machine() -> None:
    limits = ConnectionLimits(total=100, per_address=2)
    for number, address in enumerate(["127.0.0.1", "::1", "0.0.0.0", "::ffff:127.0.0.1"] * 5):
        assert limits.admit(number, address) is None


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (["192.0.2.1"] * 3, "192.0.2.2"),
        (["2001:db8::1", "2001:db8::2", "2001:db8::3:4"], "2001:db8:0:1::1"),
        (["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"], "192.0.2.2"),
        (["fe80::1%eth0", "fe80::2%eth0", "fe80::3%eth0"], "fe80:0:0:1::1"),
    ],
)
def test_one_peer_has_no_more_than_its_share(addresses: list[str], other: str) -> None:
    limits = ConnectionLimits(total=100, per_address=2)
    assert [limits.admit(number, address) for number, address in enumerate(addresses)] == [None, None, Limit.ADDRESS]
    assert limits.admit("other", other) is None
    for _ in range(2):
        limits.release(0)
    assert limits.admit("again", addresses[0]) is None
    assert limits.admit("more", addresses[0]) is Limit.ADDRESS


def test_nothing_is_kept_of_closed_connections() -> None:
    limits = ConnectionLimits(total=2, per_address=2)
    for number in range(3):
        limits.admit(number, "192.0.2.1")
        limits.may_linger(number)
    for number in range(3):
        limits.release(number)
    assert not limits._open
    assert not limits._by_group
    assert not limits._refused


@ours
def test_a_websocket_counts_until_it_is_closed(front: str) -> None:
    limits = ConnectionLimits(total=1)
    handshake = get(b"/echo")[:-2] + (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )

    async def scene(running: Running, stage: Stage) -> None:
        client = await running.connect()
        await client.send(handshake)
        assert (await client.head()).status == 101
        refused = await running.connect()
        assert (await refused.answer()).status == 503
        await refused.close()
        client.reset()
        assert await stage.told.get() == "left"
        await asyncio.sleep(0)
        assert await send_request(await running.connect()) == 200

    play(front, scene, limits=limits)
