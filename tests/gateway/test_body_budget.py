"""Large bodies wait for room in memory."""

from __future__ import annotations

import asyncio

import pytest

from tornado_gate.errors import Unavailable
from tornado_gate.gateway import body_budget
from tornado_gate.gateway.body_budget import BodyBudget


def test_bodies_that_fit_together_do_not_wait() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(60)
        await room.reserve(40)
        assert room.held == 100

    asyncio.run(main())


def test_a_body_that_does_not_fit_waits_until_another_has_gone() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(60)
        waiting = asyncio.ensure_future(room.reserve(60))
        await asyncio.sleep(0)
        assert not waiting.done()
        room.release(60)
        await waiting
        assert room.held == 60

    asyncio.run(main())


def test_a_small_one_does_not_overtake_a_large_one_that_waits() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(60)
        large, small = asyncio.ensure_future(room.reserve(90)), asyncio.ensure_future(room.reserve(10))
        await asyncio.sleep(0)
        assert not small.done()
        room.release(60)
        await asyncio.gather(large, small)
        assert room.held == 100

    asyncio.run(main())


def test_a_body_above_the_whole_room_comes_in_alone() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(500)
        waiting = asyncio.ensure_future(room.reserve(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        room.release(500)
        await waiting

    asyncio.run(main())


def test_who_leaves_while_waiting_holds_nothing_and_blocks_nobody() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(100)
        leaver, next_one = asyncio.ensure_future(room.reserve(80)), asyncio.ensure_future(room.reserve(50))
        await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        room.release(100)
        await next_one
        assert room.held == 50

    asyncio.run(main())


def test_who_leaves_in_the_moment_of_being_let_in_gives_it_back() -> None:
    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(100)
        leaver = asyncio.ensure_future(room.reserve(80))
        await asyncio.sleep(0)
        room.release(100)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        assert room.held == 0

    asyncio.run(main())


def test_who_waits_too_long_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "WAIT_SECONDS", 0.01)

    async def main() -> None:
        room = BodyBudget(100)
        await room.reserve(100)
        with pytest.raises(Unavailable) as caught:
            await room.reserve(1)
        assert caught.value.code == "overloaded"
        assert caught.value.headers["Retry-After"]
        room.release(100)
        assert room.held == 0

    asyncio.run(main())
