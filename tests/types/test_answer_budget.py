"""The memory of all large answers that are being read has one bound; every end of reading gives it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tornado_gate.errors import Unavailable
from tornado_gate.types import UpstreamResponse
from tornado_gate.types.answer_budget import DEFAULT_ANSWERS_BYTES, AnswerClaim, _Budget, set_answers_bytes

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def small_budget() -> Iterator[None]:
    set_answers_bytes(6 * MIB)
    yield
    set_answers_bytes(DEFAULT_ANSWERS_BYTES)


async def pieces(count: int, last: BaseException | None = None) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * MIB
    if last is not None:
        raise last


@pytest.mark.gen_test
async def test_answers_share_a_budget_and_give_it_back() -> None:
    assert len(await UpstreamResponse(chunks=pieces(4)).read()) == 4 * MIB  # the first MiB does not count
    assert _Budget.held == 0
    with pytest.raises(Unavailable, match=r"limits\.answers_bytes") as caught:
        await UpstreamResponse(chunks=pieces(5)).read()
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "overloaded", 5)
    assert _Budget.held == 0


@pytest.mark.gen_test
async def test_an_account_leaves_room_for_others() -> None:
    is_read, go_on = asyncio.Event(), asyncio.Event()

    async def begin() -> AsyncIterator[bytes]:
        async for piece in pieces(4):
            yield piece
        is_read.set()
        await go_on.wait()

    greedy = asyncio.create_task(UpstreamResponse(chunks=begin(), claim=AnswerClaim("greedy")).read())
    await is_read.wait()
    assert _Budget.accounts == {"greedy": 3 * MIB}
    with pytest.raises(Unavailable, match="your account's share"):
        await UpstreamResponse(chunks=pieces(2), claim=AnswerClaim("greedy")).read()
    assert len(await UpstreamResponse(chunks=pieces(2), claim=AnswerClaim("other")).read()) == 2 * MIB
    go_on.set()
    await greedy
    assert (_Budget.held, _Budget.accounts) == (0, {})


@pytest.mark.gen_test
async def test_an_answer_that_breaks_off_holds_nothing() -> None:
    with pytest.raises(ConnectionError):
        await UpstreamResponse(chunks=pieces(3, ConnectionError())).read()
    assert _Budget.held == 0


@pytest.mark.gen_test
async def test_small_answers_are_read_while_nothing_is_left() -> None:
    set_answers_bytes(0)
    assert len(await UpstreamResponse(chunks=pieces(1)).read()) == MIB
