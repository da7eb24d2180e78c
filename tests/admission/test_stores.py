"""What every store of counters does, on this machine and in a real Valkey; and several processes with one store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.valkey import Valkey
from tornado_gate.admission import redis_store
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.counters import MOST_LEASES
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.limiter import Limiter, TrialLimiter
from tornado_gate.admission.redis_store import RedisStore, _make_name
from tornado_gate.admission.store import Outcome, Store, StoreUnavailable
from tornado_gate.errors import RateLimited
from tornado_gate.ledger.spending import Used, find_period
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Bound

MakeStore = Callable[[], Store]


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.kill()


@pytest.fixture(params=["embedded", "valkey"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """Makes stores with the same counters, as those of two processes or nodes."""
    if request.param == "embedded":
        return lambda: EmbeddedStore(tmp_path)
    url = request.getfixturevalue("valkey").url
    return lambda: RedisStore(url)


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    return request.node.name


@pytest.fixture(autouse=True)
def patient_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine Valkey does not run for a while."""
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 20.0)


async def settle(store: Store) -> None:
    """Wait until what was returned is counted."""
    for _ in range(200):
        if (not store._pending and getattr(store, "_sending", None) is None) or store.name == "embedded":  # type: ignore[attr-defined]
            return
        sending = getattr(store, "_sending", None)
        if sending is not None:
            await asyncio.wait([sending])
            if not store._pending:  # type: ignore[attr-defined]
                return


async def use(store: Store, *bounds: Bound, amounts: list[int] | None = None) -> bool:
    outcome = await store.reserve(bounds, amounts or [1] * len(bounds))
    if outcome.unread:
        await store.raise_used({bound: Used() for bound in outcome.unread}, find_period(time.time()))
        outcome = await store.reserve(bounds, amounts or [1] * len(bounds))
    return outcome.moment is not None


def test_a_trial_refuses_what_a_reservation_would_and_reserves_nothing(
    make_store: MakeStore, subject: str, tmp_path: Path
) -> None:
    bounds = tuple(
        make_bound("key", subject, name, limit)
        for name, limit in (("requests_per_minute", 2), ("concurrent_requests", 5), ("usd_per_day", 1e-9))
    )

    async def run() -> None:
        store = make_store()
        metrics = Metrics().limits
        limiter = Limiter(EmbeddedStore(tmp_path / "local"), store, lambda _bounds: {}, metrics)
        await limiter.start()
        trial = TrialLimiter(limiter)
        for _ in range(4):
            await trial.reserve(bounds, (1, 1, 1), (1, 1, 0))
        assert [level.used for level in await store.read(bounds)] == [0, 0, 0]
        await limiter.reserve(bounds, (1, 1, 1))
        for _ in range(2):
            with pytest.raises(RateLimited) as spent:
                await trial.reserve(bounds, (1, 1, 1), (1, 1, 0))
            assert spent.value.code == "budget_exceeded"
            assert spent.value.exceeded["bound"] == "usd_per_day"
        assert [level.used for level in await store.read(bounds)] == [1, 1, 1]
        await limiter.close()

    asyncio.run(run())


def test_two_stores_together_admit_exactly_the_limit(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        stores = [make_store(), make_store()]
        bound = make_bound("key", subject, "requests_per_minute", 25)
        found = await asyncio.gather(*[use(stores[number % 2], bound) for number in range(60)])
        assert sum(found) == 25
        refused = await stores[0].reserve((bound,), [1])
        assert refused.moment is None
        assert 58 < refused.levels[0].wait <= 60
        assert refused.levels[0].used == 25
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_no_amount_is_reserved_if_one_bound_rejects_the_request(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        store = make_store()
        wide = make_bound("key", subject, "requests_per_minute", 10)
        narrow = make_bound("model", subject, "tokens_per_minute", 100)
        places = make_bound("team", subject, "concurrent_requests", 5)
        budget = make_bound("user", subject, "usd_per_day", 1)
        bounds = (wide, places, budget, narrow)
        assert await use(store, *bounds, amounts=[1, 1, 5, 60])
        assert not await use(store, *bounds, amounts=[1, 1, 5, 60])
        assert [level.used for level in await store.read(bounds)] == [1, 1, 5, 60]
        await store.close()

    asyncio.run(run())


def test_unused_amounts_are_returned_and_usage_beyond_the_estimate_counts(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        store = make_store()
        tokens = make_bound("key", subject, "tokens_per_minute", 100)
        day, month = (make_bound("key", subject, f"usd_per_{each}", 1) for each in ("day", "month"))
        bounds = (tokens, day, month)
        await use(store, *bounds, amounts=[1, 1, 1])
        outcome = await store.reserve(bounds, [80, 1000, 1000])
        assert outcome.moment is not None
        store.change(bounds, [-50, 500, 500], outcome.moment)
        await settle(store)
        assert [level.used for level in await store.read(bounds)] == [31, 1501, 1501]
        store.change(bounds, [0, -1400, -(10**9)], outcome.moment)
        await settle(store)
        assert [level.used for level in await store.read(bounds)] == [31, 101, 0]
        await store.close()

    asyncio.run(run())


def test_amounts_of_yesterday_or_last_month_are_not_returned_today(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        store = make_store()
        bounds = tuple(make_bound("key", subject, f"tokens_per_{each}", 1000) for each in ("day", "month"))
        await use(store, *bounds, amounts=[100, 100])
        outcome = await store.reserve(bounds, [100, 100])
        assert outcome.moment is not None
        store.change(bounds, [-50, -50], outcome.moment._replace(day=outcome.moment.day - 86_400))
        await settle(store)
        assert [level.used for level in await store.read(bounds)] == [200, 150]
        await store.close()

    asyncio.run(run())


def test_a_budget_starts_again_at_midnight_utc_and_a_clock_set_back_frees_no_amount(
    tmp_path: Path, subject: str
) -> None:
    async def run() -> None:
        now = [datetime(2026, 11, 30, 23, 59, 58, tzinfo=UTC).timestamp()]
        store = EmbeddedStore(tmp_path, wall=lambda: now[0])
        bounds = tuple(
            make_bound("key", subject, f"tokens_per_{each}", limit) for each, limit in (("day", 100), ("month", 150))
        )

        async def reserve(amount: int) -> Outcome:
            outcome = await store.reserve(bounds, [amount, amount])
            if outcome.unread:
                await store.raise_used({bound: Used() for bound in outcome.unread}, find_period(now[0]))
                outcome = await store.reserve(bounds, [amount, amount])
            return outcome

        before = await reserve(80)
        assert before.moment is not None
        refused = await reserve(21)
        assert [(level.bound.name, level.used, level.wait) for level in refused.levels] == [("tokens_per_day", 80, 2.0)]
        now[0] += 2.5  # the first of December: a new day, and a new month
        assert (await reserve(100)).moment is not None
        store.change(bounds, [-80, -80], before.moment)
        assert [level.used for level in await store.read(bounds)] == [100, 100], "what is returned was of yesterday"
        now[0] -= 3600
        assert (await reserve(1)).moment is None, "the clock was set back by an hour"
        assert [level.used for level in await store.read(bounds)] == [100, 100]
        now[0] += 86_400
        assert [level.used for level in await store.read(bounds)] == [100, 100], "it is still the first of December"
        now[0] += 3600
        assert (await reserve(51)).levels[0].bound.name == "tokens_per_month"
        assert (await reserve(50)).moment is not None
        await store.close()

    asyncio.run(run())


def test_the_ledger_is_read_before_a_budget_is_used_and_only_raises_it(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        store, period = make_store(), find_period(time.time())
        bounds = tuple(make_bound("key", subject, f"tokens_per_{each}", 1000) for each in ("day", "month"))
        assert set((await store.reserve(bounds, [1, 1])).unread) == set(bounds)
        await store.raise_used({bounds[0]: Used(1, 10, 2, 20)}, period)
        assert await use(store, *bounds, amounts=[5, 5])
        assert [level.used for level in await store.read(bounds)] == [15, 25]
        await store.raise_used({bounds[0]: Used(0, 3, 0, 100)}, period)
        assert [level.used for level in await store.read(bounds)] == [15, 100]
        await store.close()

    asyncio.run(run())


def test_a_new_store_continues_with_the_same_counters(make_store: MakeStore, subject: str) -> None:
    async def run() -> None:
        bounds = tuple(make_bound("key", subject, name, 50) for name in ("requests_per_minute", "tokens_per_month"))
        first = make_store()
        assert await use(first, *bounds, amounts=[40, 40])
        await first.close()
        second = make_store()
        assert [level.used for level in await second.read(bounds)] == [40, 40]
        assert not await use(second, *bounds, amounts=[11, 1])
        await second.close()

    asyncio.run(run())


HOLDER = """
import asyncio, sys
from pathlib import Path
from tornado_gate.admission import redis_store
from tornado_gate.admission.bounds import make_bound
from tornado_gate.admission.counters import MOST_LEASES
from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.limiter import Limiter, TrialLimiter
from tornado_gate.admission.redis_store import RedisStore
async def main():
    kind, place, subject = sys.argv[1:]
    store = RedisStore(place) if kind == "valkey" else EmbeddedStore(Path(place))
    await store.start()
    bound = make_bound("key", subject, "concurrent_requests", 2)
    for _ in range(2):
        assert (await store.reserve((bound,), [1])).moment
    print("held", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["embedded", "valkey"])
def test_the_open_requests_of_a_killed_process_are_removed(
    kind: str, tmp_path: Path, valkey: Valkey, subject: str
) -> None:
    place = str(tmp_path) if kind == "embedded" else valkey.url
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, kind, place, subject], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    bound = make_bound("key", subject, "concurrent_requests", 2)

    async def run() -> None:
        store: Store = EmbeddedStore(tmp_path) if kind == "embedded" else RedisStore(valkey.url)
        assert not await use(store, bound)
        holder.kill()
        holder.wait()
        began = time.monotonic()
        while not await use(store, bound):
            assert time.monotonic() - began < 60
            await asyncio.sleep(0.02)
        assert await use(store, bound)
        assert not await use(store, bound)
        await store.close()

    try:
        asyncio.run(run())
    finally:
        holder.kill()


def test_open_requests_are_counted_again_after_valkey_lost_them(valkey: Valkey, subject: str) -> None:
    async def run() -> None:
        store, other = RedisStore(valkey.url), RedisStore(valkey.url)
        await store.start()
        bound = make_bound("key", subject, "concurrent_requests", 2)
        outcome = await store.reserve((bound,), [1])
        assert outcome.moment is not None
        valkey.kill()
        with pytest.raises(StoreUnavailable):
            await store.reserve((bound,), [1])
        valkey.start()
        await store.start()
        await settle(store)
        assert [level.used for level in await other.read((bound,))] == [1]
        store.change((bound,), [-1], outcome.moment)
        await settle(store)
        assert [level.used for level in await other.read((bound,))] == [0]
        await store.close()
        await other.close()

    asyncio.run(run())


def test_a_process_that_did_not_run_for_a_while_still_uses_valkey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.2)

    async def answer_late() -> str:
        await asyncio.sleep(0.25)
        return "answer"

    async def run() -> None:
        store = RedisStore("valkey://127.0.0.1:1")
        task = asyncio.create_task(store._guard(answer_late()))
        await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251  the process is stopped
        assert await task == "answer"
        await store.close()

    asyncio.run(run())


def test_a_hanging_valkey_is_not_used_after_the_time_limit(
    valkey: Valkey, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        store = RedisStore(valkey.url)
        bound = make_bound("key", subject, "requests_per_minute", 2)
        assert await use(store, bound)
        valkey.hang()
        monkeypatch.setattr(redis_store, "TIMEOUT_SECONDS", 0.5)
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await store.reserve((bound,), [1])
            assert 0.4 < time.monotonic() - began < 15
        finally:
            valkey.go_on()
        await store.close()

    asyncio.run(run())


def test_the_file_grows_while_two_processes_use_it(tmp_path: Path) -> None:
    async def run() -> None:
        stores = [EmbeddedStore(tmp_path), EmbeddedStore(tmp_path)]
        bounds = [make_bound("key", str(number), "requests_per_minute", 3) for number in range(1500)]
        for number, bound in enumerate(bounds):
            assert await use(stores[number % 2], bound)
        for number, bound in enumerate(bounds):
            level = (await stores[(number + 1) % 2].read((bound,)))[0]
            assert level.used == 1
        for store in stores:
            await store.close()

    asyncio.run(run())


def test_a_damaged_file_is_created_again(tmp_path: Path) -> None:
    (tmp_path / "counters").write_bytes(b"something else")

    async def run() -> None:
        store = EmbeddedStore(tmp_path)
        assert await use(store, make_bound("key", "a", "requests_per_minute", 3))
        await store.close()

    asyncio.run(run())


def test_after_a_failover_the_new_primary_is_used(valkey: Valkey, subject: str) -> None:
    """The old primary answers as a replica on the connections that are open; the address leads to the new one."""

    async def run() -> None:
        new, ports = Valkey(), [valkey.port]

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            other_reader, other_writer = await asyncio.open_connection("127.0.0.1", ports[0])
            await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        proxy = await asyncio.start_server(forward, "127.0.0.1", 0)
        store = RedisStore(f"valkey://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        await store.start()
        bound = make_bound("key", subject, "concurrent_requests", 5)
        assert await use(store, bound)
        try:
            valkey.command("REPLICAOF", "127.0.0.1", str(new.port))
            ports[0] = new.port
            with pytest.raises(StoreUnavailable, match=r"(?i)read ?only"):
                await store.reserve((bound,), [1])
            await store.start()
            outcome = await store.reserve((bound,), [1])
            assert outcome.moment is not None
            await settle(store)
            assert [level.used for level in await store.read((bound,))] == [2], "what was open counts there, too"
        finally:
            valkey.command("REPLICAOF", "NO", "ONE")
            await store.close()
            proxy.close()
            new.kill()

    asyncio.run(run())


def test_a_lease_that_expired_is_counted_again_although_a_request_renewed_it(valkey: Valkey, subject: str) -> None:
    """A process that did not run for some seconds, and whose open requests others have removed meanwhile."""

    async def run() -> None:
        store, other = RedisStore(valkey.url), RedisStore(valkey.url)
        bound = make_bound("key", subject, "concurrent_requests", 3)
        assert all([await use(store, bound) for _ in range(3)])
        began = time.monotonic()
        while not await use(other, bound):  # until the lease of the first store has expired, which nobody renews
            assert time.monotonic() - began < 60
            await asyncio.sleep(0.05)
        await use(store, bound)
        await store.start()
        await settle(store)
        assert (await other.read((bound,)))[0].used >= 4
        assert not await use(other, bound)
        await store.close()
        await other.close()

    asyncio.run(run())


def test_after_a_clock_was_wrong_for_a_while_every_budget_still_starts_again(tmp_path: Path, subject: str) -> None:
    async def run() -> None:
        now = [datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()]
        store = EmbeddedStore(tmp_path, wall=lambda: now[0])
        bounds = tuple(make_bound("key", subject, f"tokens_per_{each}", 100) for each in ("day", "month"))

        async def reserve(amount: int, used: Used) -> Outcome:
            outcome = await store.reserve(bounds, [amount, amount])
            if outcome.unread:
                await store.raise_used(dict.fromkeys(outcome.unread, used), find_period(now[0]))
                outcome = await store.reserve(bounds, [amount, amount])
            return outcome

        assert (await reserve(30, Used())).moment is not None
        now[0] += 3650 * 86_400
        assert (await reserve(90, Used())).moment is not None
        now[0] -= 3650 * 86_400
        refused = await reserve(80, Used(day_tokens=30, month_tokens=30))
        assert [level.used for level in refused.levels] == [30, 30], "what the ledger has"
        now[0] += 86_400
        assert (await reserve(60, Used(month_tokens=30))).moment is not None
        await store.close()

    asyncio.run(run())


def test_amounts_counted_by_a_wrong_clock_of_valkey_are_removed(valkey: Valkey, subject: str) -> None:
    async def run() -> None:
        store = RedisStore(valkey.url)
        day, minute = (make_bound("key", subject, name, 10) for name in ("tokens_per_day", "requests_per_minute"))
        later = int(time.time()) // 86_400 * 86_400 + 3650 * 86_400
        period = {"day": later, "month": later, "read": later, "td": 10, "tm": 10}
        await store._redis.hset(_make_name(day), mapping=period)
        await store._redis.hset(_make_name(minute), str(later * 2), f"10:{later * 1000}")
        assert await use(store, day, minute, amounts=[10, 10])
        assert not await use(store, day)
        await store.close()

    asyncio.run(run())


def test_a_valkey_without_memory_is_not_used_and_gets_returned_amounts_when_it_has_memory(
    valkey: Valkey, subject: str
) -> None:
    """Of a script, it refuses only the first write that needs memory."""

    async def run() -> None:
        store = RedisStore(valkey.url)
        await store.start()
        bounds = tuple(make_bound("key", subject, name, 2) for name in ("tokens_per_day", "concurrent_requests"))
        assert await use(store, *bounds)
        outcome = await store.reserve(bounds, [1, 1])
        assert outcome.moment is not None
        try:
            valkey.command("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await store.reserve(bounds, [0, 0])
            store.change(bounds, [0, -2], outcome.moment)
            with pytest.raises(StoreUnavailable, match="maxmemory"):
                await store.reserve(bounds, [0, 0])
        finally:
            valkey.command("CONFIG", "SET", "maxmemory", "0")
        began = time.monotonic()
        while (await store.read(bounds))[1].used:
            assert time.monotonic() - began < 60
            await asyncio.sleep(0.05)
        await store.close()

    asyncio.run(run())


def test_a_change_for_which_the_script_fails_is_dropped_and_the_others_are_made(
    valkey: Valkey, subject: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the first one would be repeated for ever, and no other amount be returned."""

    async def run() -> None:
        store = RedisStore(valkey.url)
        await store.start()
        broken, sound = (make_bound(kind, subject, "concurrent_requests", 5) for kind in ("key", "team"))
        for bound in (broken, sound):
            assert await use(store, bound)
        outcome = await store.reserve((sound,), [1])
        assert outcome.moment is not None
        valkey.command("SET", _make_name(broken), "text")
        store.change((broken,), [-1], outcome.moment)
        store.change((sound,), [-1], outcome.moment)
        await settle(store)
        assert not store._pending
        assert [level.used for level in await store.read((sound,))] == [1]
        assert "a change of 1 counters of limits is dropped: ResponseError: WRONGTYPE" in caplog.text
        await store.close()

    asyncio.run(run())


def test_open_requests_are_counted_after_many_processes_were_killed(tmp_path: Path, subject: str) -> None:
    async def run() -> None:
        bound = make_bound("key", subject, "concurrent_requests", 150)
        for _ in range(MOST_LEASES):
            killed = EmbeddedStore(tmp_path)
            assert await use(killed, bound)
            await killed.close()
        store = EmbeddedStore(tmp_path)
        assert sum([await use(store, bound) for _ in range(160)]) == 150
        await store.close()

    asyncio.run(run())
