"""Bodies of all requests share a budget: fairly by account, without a deadlock, and nothing is kept after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tornado_gate.admission import body_budget
from tornado_gate.admission.body_budget import BodyBudget, BodyClaim
from tornado_gate.errors import Unavailable


def make(total: int) -> BodyBudget:
    return BodyBudget(total, "limits.bodies_bytes")


def held(budget: BodyBudget, account: str, size: int) -> BodyClaim:
    """A complete body."""
    claim = budget.open(account)
    assert claim.grow(size) is None
    claim.complete()
    return claim


def start(waiting: Awaitable[None] | None) -> asyncio.Task[None]:
    assert waiting is not None
    return asyncio.ensure_future(_await(waiting))


async def _await(waiting: Awaitable[None]) -> None:
    await waiting


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_bodies_that_fit_together_do_not_wait() -> None:
    budget = make(100)
    held(budget, "a", 30)
    held(budget, "b", 30)
    assert budget.held == 60


def test_one_account_gets_half_and_the_next_one_half_of_the_rest() -> None:
    async def main() -> None:
        budget = make(128)
        held(budget, "a", 64)
        waiting = start(budget.open("a").grow(1))
        held(budget, "b", 32)
        held(budget, "c", 16)
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()

    run(main())


def test_an_account_at_its_share_does_not_hold_up_another() -> None:
    async def main() -> None:
        budget = make(100)
        first = held(budget, "a", 50)
        waiting = start(budget.open("a").grow(10))
        await asyncio.sleep(0)
        held(budget, "b", 20)
        assert not waiting.done()
        first.release()
        await waiting
        assert budget.held == 30

    run(main())


def test_a_body_above_the_whole_budget_is_admitted_alone() -> None:
    async def main() -> None:
        budget = make(100)
        large = held(budget, "a", 500)
        waiting = start(budget.open("b").grow(1))
        await asyncio.sleep(0)
        assert not waiting.done()
        large.release()
        await waiting

    run(main())


def test_bodies_that_have_arrived_in_part_do_not_wait_for_each_other_forever() -> None:
    async def main() -> None:
        budget = make(100)
        claims = [budget.open(account) for account in ("a", "a", "b", "c")]
        finished = []

        async def arrive(claim: BodyClaim) -> None:
            for _ in range(8):
                waiting = claim.grow(10)
                if waiting is not None:
                    await waiting
                await asyncio.sleep(0)
            claim.complete()
            assert budget.held <= 100 + 80
            await asyncio.sleep(0)
            claim.release()
            finished.append(claim)

        await asyncio.gather(*map(arrive, claims))
        assert len(finished) == 4
        assert budget.held == 0

    run(main())


def test_complete_bodies_are_never_exceeded_by_more_than_one() -> None:
    """The exception for the oldest body must not let in one body after the other."""

    async def main() -> None:
        budget = make(100)
        for _ in range(3):
            claim = budget.open("a")
            waiting = claim.grow(60)
            if waiting is not None:
                task = start(waiting)
                await asyncio.sleep(0)
                assert not task.done()
                task.cancel()
            claim.complete()
        assert budget.held == 60

    run(main())


def test_a_request_that_ends_while_its_body_waits_holds_nothing_and_blocks_nobody() -> None:
    async def main() -> None:
        budget = make(100)
        first = held(budget, "x", 50)
        leaver, next_one = budget.open("a"), budget.open("b")
        leaving, waiting = start(leaver.grow(80)), start(next_one.grow(60))
        await asyncio.sleep(0)
        leaver.release()
        await leaving
        first.release()
        await waiting
        assert budget.held == 60

    run(main())


def test_a_task_that_is_cancelled_in_the_moment_of_its_turn_leaks_nothing() -> None:
    async def main() -> None:
        budget = make(100)
        first, leaver = held(budget, "x", 50), budget.open("a")
        leaving = start(leaver.grow(80))
        await asyncio.sleep(0)
        first.release()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        leaver.release()
        leaver.release()
        assert budget.held == 0
        assert budget.waiting == 0
        assert leaver.grow(5) is None
        assert budget.held == 0

    run(main())


def test_a_body_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "WAIT_SECONDS", 0.01)

    async def main() -> None:
        budget = make(100)
        held(budget, "a", 50)
        waiting = budget.open("a").grow(10)
        assert waiting is not None
        with pytest.raises(Unavailable) as caught:
            await waiting
        assert caught.value.code == "overloaded"
        assert caught.value.headers["Retry-After"]
        assert "limits.bodies_bytes" in caught.value.message
        assert budget.refused == 1
        assert budget.waiting == 0

    run(main())


def test_only_a_full_budget_counts_as_full_not_a_full_share(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(body_budget, "monotonic", lambda: now[0])

    async def main() -> None:
        budget = make(100)
        first = held(budget, "a", 50)
        of_the_share = start(budget.open("a").grow(10))
        await asyncio.sleep(0)
        now[0] = 200.0
        assert budget.full_seconds == 0
        other = held(budget, "b", 25)
        held(budget, "c", 12)
        of_the_whole = start(budget.open("d").grow(20))
        await asyncio.sleep(0)
        now[0] = 240.0
        assert budget.full_seconds == 40
        other.release()
        first.release()
        await asyncio.gather(of_the_share, of_the_whole)
        assert budget.full_seconds == 0

    run(main())


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["open", "grow", "complete", "release"]), st.integers(0, 60)),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_nothing_is_left_and_the_excess_is_one_body(steps: list[tuple[str, str, int]]) -> None:
    async def main() -> None:
        budget, claims, tasks = make(100), [], []
        for account, step, size in steps:
            if step == "open" or not claims:
                claims.append(budget.open(account))
            claim = claims[size % len(claims)]
            if step == "grow" and claim not in budget._waiting:
                waiting = claim.grow(size)
                if waiting is not None:
                    tasks.append(start(waiting))
            elif step == "complete" and claim not in budget._waiting:
                claim.complete()
            elif step == "release":
                claim.release()
            await asyncio.sleep(0)
            assert budget.held == sum(one.held for one in claims)
            largest = max(one.held for one in claims)
            assert budget.held <= 100 + largest
        for claim in claims:
            claim.release()
        await asyncio.gather(*tasks)
        assert budget.held == budget.waiting == 0
        assert not budget._bodies
        assert not budget._incomplete

    run(main())
