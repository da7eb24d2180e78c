"""Reservations: what is given back, what is reserved instead of an estimate, and what happens without a store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tornado_gate.admission import limiter as limiter_module
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.limiter import MOST_TOKENS, NO_MOMENT, Limiter
from tornado_gate.admission.redis_store import RedisStore
from tornado_gate.admission.store import Outcome, Store, StoreUnavailable
from tornado_gate.errors import RateLimited
from tornado_gate.ledger.spending import Used
from tornado_gate.types import Bound

REQUESTS = make_bound("key", "k", "requests_per_minute", 3)
TOKENS = make_bound("key", "k", "tokens_per_minute", 100)
OPEN = make_bound("key", "k", "concurrent_requests", 2)
DAY = make_bound("key", "k", "tokens_per_day", 100)
MONEY = make_bound("key", "k", "usd_per_month", 1.0)


class SlowStore(EmbeddedStore):
    """A store that may be away, and answers when it may."""

    name = "remote"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.is_away = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()

    async def start(self) -> None:
        self._check()

    async def reserve(self, bounds: Sequence[Bound], amounts: Sequence[int]) -> Outcome:
        self.asked.set()
        await self.may_answer.wait()
        self._check()
        return await super().reserve(bounds, amounts)

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailable("the network is down")


class RecordedMetrics:
    """What a limiter reports."""

    def __init__(self) -> None:
        self.refusals: list[tuple[str, str]] = []
        self.came_back = asyncio.Event()

    def count_refusal(self, bound: str, subject: str) -> None:
        self.refusals.append((bound, subject))

    def observe_store(self, store: str, seconds: float) -> None:
        assert seconds >= 0

    def set_store_away(self, away: bool) -> None:
        if not away:
            self.came_back.set()

    def count_dropped_counters(self, count: int) -> None:
        raise AssertionError(f"{count} counters were dropped")


def read_nothing(bounds: Sequence[Bound]) -> Mapping[Bound, Used]:
    return {}


@asynccontextmanager
async def open_limiter(
    folder: Path,
    remote: Store | None = None,
    read_ledger: Callable[[Sequence[Bound]], Mapping[Bound, Used]] = read_nothing,
    metrics: RecordedMetrics | None = None,
) -> AsyncIterator[Limiter]:
    limiter = Limiter(EmbeddedStore(folder / "local"), remote, read_ledger, metrics or RecordedMetrics())
    await limiter.start()
    try:
        async with asyncio.timeout(60):
            yield limiter
    finally:
        await limiter.close()


async def count_used(limiter: Limiter, *bounds: Bound) -> list[int]:
    return [level.used for level in await limiter.read(bounds)]


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


# What is given back


def test_a_settled_request_counts_what_it_used_and_a_cancelled_one_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        bounds = (REQUESTS, TOKENS, OPEN, DAY, MONEY)
        async with open_limiter(tmp_path) as limiter:
            first, _ = await limiter.reserve(bounds, [1, 40, 1, 40, 900])
            second, _ = await limiter.reserve(bounds, [1, 30, 1, 30, 800])
            assert await count_used(limiter, *bounds) == [2, 70, 2, 70, 1700]
            limiter.settle(first, 50, 1000)
            assert await count_used(limiter, *bounds) == [2, 80, 1, 80, 1800]
            limiter.settle(first, 50, 1000)
            assert await count_used(limiter, *bounds) == [2, 80, 1, 80, 1800], "a request ends once"
            limiter.cancel(second)
            limiter.cancel(second)
            assert await count_used(limiter, *bounds) == [1, 50, 0, 50, 1000]

    run(test)


def test_a_refused_request_reserves_nothing_of_its_other_bounds(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_limiter(tmp_path) as limiter:
            with pytest.raises(RateLimited) as caught:
                await limiter.reserve((REQUESTS, TOKENS), [1, 101])
            assert caught.value.exceeded["bound"] == "tokens_per_minute"
            assert await count_used(limiter, REQUESTS, TOKENS) == [0, 0]

    run(test)


def test_usage_of_a_running_request_counts_beyond_its_estimate_only_and_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_limiter(tmp_path) as limiter:
            reservation, _ = await limiter.reserve((OPEN, TOKENS), [1, 40])
            for used, counted in [(39, 40), (40, 40), (45, 45), (45, 45), (60, 60)]:
                limiter.add_used(reservation, used, 0)
                assert await count_used(limiter, OPEN, TOKENS) == [1, counted]
            limiter.settle(reservation, 10, 0)
            assert await count_used(limiter, OPEN, TOKENS) == [0, 10]

    run(test)


def test_an_absurd_count_of_an_upstream_fits_into_a_counter(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_limiter(tmp_path) as limiter:
            reservation, _ = await limiter.reserve((TOKENS,), [1])
            limiter.settle(reservation, 2**63, 2**63)
            assert await count_used(limiter, TOKENS) == [MOST_TOKENS]

    run(test)


def test_an_estimate_is_lowered_to_what_is_left_and_what_is_needed_is_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with open_limiter(tmp_path) as limiter:
            await limiter.reserve((TOKENS,), [70])
            reservation, _ = await limiter.reserve((TOKENS, DAY), [80, 80], [30, 30])
            assert list(reservation.amounts) == [30, 80], (
                "exactly what is left of the first, and the estimate of the other"
            )
            limiter.cancel(reservation)
            with pytest.raises(RateLimited):
                await limiter.reserve((TOKENS,), [80], [31])
            await limiter.reserve((TOKENS,), [30])
            with pytest.raises(RateLimited):
                await limiter.reserve((TOKENS,), [80], [0])
            assert await count_used(limiter, TOKENS, DAY) == [100, 0]

    run(test)


def test_a_task_settles_in_any_process_what_its_request_has_left_to_it(tmp_path: Path) -> None:
    async def test() -> None:
        bounds = (REQUESTS, OPEN, TOKENS, MONEY)
        async with open_limiter(tmp_path) as limiter, open_limiter(tmp_path) as other:
            reservation, _ = await limiter.reserve(bounds, [1, 1, 40, 900])
            described = limiter.describe(reservation)
            limiter.leave(reservation)
            limiter.settle(reservation, 0, 0)
            assert await count_used(other, *bounds) == [1, 0, 40, 900], "the request has ended, its task has not"
            other.settle(other.restore(described), 10, 300)
            assert await count_used(limiter, *bounds) == [1, 0, 10, 300]
            requests_only, _ = await limiter.reserve((REQUESTS, OPEN), [1, 1])
            assert limiter.describe(requests_only) == []

    run(test)


# Without a store


def test_while_the_store_of_conf_is_away_this_machine_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limiter_module, "PROBE_SECONDS", 0.01)

    async def test() -> None:
        remote, metrics = SlowStore(tmp_path / "remote"), RecordedMetrics()
        async with open_limiter(tmp_path, remote, metrics=metrics) as limiter:
            before, _ = await limiter.reserve((REQUESTS,), [2])
            remote.is_away = True
            here, _ = await limiter.reserve((REQUESTS,), [3])
            assert limiter.is_degraded
            assert (before.store, here.store) == (remote, limiter.local)
            with pytest.raises(RateLimited):
                await limiter.reserve((REQUESTS,), [1])
            assert caplog.text.count("the store of limits is away") == 1
            remote.is_away = False
            await metrics.came_back.wait()
            assert not limiter.is_degraded
            assert metrics.refusals == [("requests_per_minute", "key")]
            assert await count_used(limiter, REQUESTS) == [2]
            limiter.cancel(here)
            limiter.cancel(before)
            assert await count_used(limiter, REQUESTS) == [0]
            assert [level.used for level in await limiter.local.read((REQUESTS,))] == [0]

    run(test)


def test_a_store_that_is_away_at_the_start_is_reported_with_its_key_of_conf(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with open_limiter(tmp_path, RedisStore("valkey://127.0.0.1:1")) as limiter:
            assert limiter.is_degraded
            assert "the store of limits is away (limits.store in conf)" in caplog.text
            assert "127.0.0.1:1" in caplog.text

    run(test)


def test_without_any_store_requests_are_admitted_and_that_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "local").write_bytes(b"a file in the place of the folder")

    async def test() -> None:
        async with open_limiter(tmp_path) as limiter:
            for _ in range(5):
                reservation, levels = await limiter.reserve((REQUESTS, TOKENS), [1, 99])
                assert reservation.moment == NO_MOMENT
                assert list(levels) == []
                limiter.add_used(reservation, 200, 0)
                assert limiter.describe(reservation) == []
                limiter.settle(reservation, 1, 0)
            assert await limiter.read((REQUESTS,)) == ()
            assert caplog.text.count("limits and budgets are not counted") == 1

    run(test)


def test_a_caller_who_leaves_while_the_store_answers_keeps_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        remote = SlowStore(tmp_path / "remote")
        async with open_limiter(tmp_path, remote) as limiter:
            remote.may_answer.clear()
            request = asyncio.create_task(limiter.reserve((REQUESTS, OPEN), [1, 1]))
            await remote.asked.wait()
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            (reserving,) = limiter._releasing
            remote.may_answer.set()
            assert (await reserving).moment is not None, "the store has counted it although nobody waits for it"
            assert await count_used(limiter, REQUESTS, OPEN) == [0, 0]
            assert not limiter._releasing

    run(test)


# The ledger


def test_many_requests_of_one_subject_wait_for_one_reading_of_the_ledger(tmp_path: Path) -> None:
    readings: list[list[Bound]] = []
    may_read = threading.Event()

    def read_ledger(bounds: Sequence[Bound]) -> Mapping[Bound, Used]:
        readings.append(list(bounds))
        assert may_read.wait(60)
        return {DAY: Used(day_tokens=97, month_tokens=97)}

    async def test() -> None:
        async with open_limiter(tmp_path, read_ledger=read_ledger) as limiter:
            requests = [asyncio.create_task(limiter.reserve((DAY,), [1])) for _ in range(5)]
            for _ in range(10):
                await asyncio.sleep(0)  # all of them wait for the ledger now
            may_read.set()
            outcomes = await asyncio.gather(*requests, return_exceptions=True)
            assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 2, "97 of 100 are used"
            assert readings == [[DAY]]

    run(test)


def test_a_budget_counts_from_now_on_while_the_ledger_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(bounds: Sequence[Bound]) -> Mapping[Bound, Used]:
        raise OSError("the database is away")

    async def test() -> None:
        async with open_limiter(tmp_path, read_ledger=fail) as limiter:
            await limiter.reserve((DAY,), [100])
            with pytest.raises(RateLimited):
                await limiter.reserve((DAY,), [1])
            assert caplog.text.count("the ledger cannot be read: the database is away") == 1

    run(test)
