"""Threads for reviews: accounts take turns, a review that takes too long is stopped, and one that cannot be harms its account."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tornado_gate import guard_impl, types
from tornado_gate.config.model import PluginOptions
from tornado_gate.errors import Unavailable
from tornado_gate.guards import review_threads
from tornado_gate.guards.review_threads import MAX_STUCK, QUEUE, THREADS, ReviewThreads
from tornado_gate.plugins.guard_lanes import GuardFailed, GuardLane, ReviewHangs, ReviewTimeout
from tornado_gate.plugins.host import PluginHost
from tornado_gate.plugins.wrappers import Scope
from tornado_gate.streams.pausable import complete
from tornado_gate.testing import call_to
from tornado_gate.types import GuardedText


class Site:
    """Threads for reviews whose state can be waited for, and functions that return when they are told to."""

    def __init__(self) -> None:
        self.told: tuple[int, int, int, int] = (0, 0, 0, 0)
        self.changed = asyncio.Event()
        self.threads = ReviewThreads(self.note)
        self.releases: list[threading.Event] = []
        self.order: list[str] = []

    def note(self, *told: int) -> None:
        self.told = (told[0], told[1], told[2], told[3])
        self.changed.set()

    async def wait_until(self, condition: Callable[[int, int, int, int], bool]) -> None:
        while not condition(*self.told):
            self.changed.clear()
            await self.changed.wait()

    def hold(self, account: str, **rest: Any) -> asyncio.Task[None]:
        """Begin a review that holds a lock until `release`: no exception stops it."""
        release = threading.Event()
        self.releases.append(release)
        return asyncio.ensure_future(self.threads.run(account, self._wait, release, account, **rest))

    def _wait(self, release: threading.Event, account: str) -> None:
        self.order.append(account)
        release.wait()

    def release(self) -> None:
        for release in self.releases:
            release.set()


def run(test: Callable[[Site], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        site = Site()
        try:
            async with asyncio.timeout(30):
                await test(site)
        finally:
            site.release()

    asyncio.run(begin())


@pytest.fixture(autouse=True)
def all_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reviews do not wait for others to be slow."""
    monkeypatch.setattr(review_threads, "SLOW_SECONDS", 0.001)


def spin() -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def test_an_account_has_one_thread_and_accounts_take_turns() -> None:
    async def test(site: Site) -> None:
        first = [site.hold(account) for account in ("a", "b", "c", "d")]
        later = [site.hold("a"), site.hold("a"), site.hold("e"), site.hold("a"), site.hold("f")]
        await site.wait_until(lambda running, waiting, *_: (running, waiting) == (THREADS, 5))
        assert site.told[3] == 4, "the account that has most"
        site.release()
        await asyncio.gather(*first, *later)
        assert sorted(site.order[:4]) == ["a", "b", "c", "d"]
        assert set(site.order[4:7]) == {"a", "e", "f"}
        assert site.order[7:] == ["a", "a"]
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))

    run(test)


def test_the_next_thread_begins_when_the_one_before_has_run_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(site: Site) -> None:
        monkeypatch.setattr(review_threads, "SLOW_SECONDS", 0.3)
        first, second = site.hold("a"), site.hold("b")
        await site.wait_until(lambda running, waiting, *_: (running, waiting) == (1, 1))
        began = time.monotonic()
        await site.wait_until(lambda running, waiting, *_: (running, waiting) == (2, 0))
        assert time.monotonic() - began > 0.1
        site.release()
        await asyncio.gather(first, second)

    run(test)


def test_the_time_in_the_queue_does_not_count() -> None:
    async def test(site: Site) -> None:
        holding = site.hold("a")
        later = asyncio.ensure_future(site.threads.run("a", lambda: "done", seconds=0.2))
        await site.wait_until(lambda running, waiting, *_: (running, waiting) == (1, 1))
        await asyncio.wait([later], timeout=0.4)
        assert not later.done()
        site.release()
        assert await later == "done"
        await holding

    run(test)


def test_a_review_in_python_is_stopped_and_the_account_goes_on() -> None:
    async def test(site: Site) -> None:
        with pytest.raises(ReviewTimeout):
            await site.threads.run("a", spin, seconds=0.1)
        assert await site.threads.run("a", lambda: "next") == "next"
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))
        left = asyncio.ensure_future(site.threads.run("a", spin))
        await site.wait_until(lambda running, *_: running == 1)
        left.cancel()  # its caller has disconnected
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))

    run(test)


def test_a_review_that_logs_is_not_stopped_while_it_holds_the_lock_of_logs() -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sum(range(200))

    log, handler = logging.getLogger("a.guard"), Handler()
    log.propagate = False
    log.addHandler(handler)

    def spin() -> None:
        while True:
            log.warning("found")
            for _ in range(200):
                pass

    async def test(site: Site) -> None:
        assert handler.lock is not None
        for _ in range(10):
            with pytest.raises(ReviewTimeout):
                await site.threads.run("a", spin, seconds=0.01)
            await site.wait_until(lambda *told: told == (0, 0, 0, 0))
            assert handler.lock.acquire(timeout=5)
            handler.lock.release()

    run(test)


def test_one_that_cannot_be_stopped_is_replaced_and_refuses_its_account_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_threads, "STOP_SECONDS", 0.05)

    async def test(site: Site) -> None:
        for number in range(THREADS):
            with pytest.raises(ReviewTimeout):
                await site.hold(f"a{number}", seconds=0.01)
        waiting = asyncio.ensure_future(site.threads.run("a0", lambda: "never"))
        with pytest.raises(ReviewHangs):
            await waiting
        with pytest.raises(ReviewHangs):
            await site.threads.run("a0", lambda: "never")
        assert site.told[2] == THREADS
        assert await site.threads.run("b", lambda: "b") == "b"
        site.release()
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))
        assert await site.threads.run("a0", lambda: "again") == "again"

    run(test)


def test_the_number_of_threads_has_a_bound_and_the_process_is_then_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_threads, "STOP_SECONDS", 0.05)

    async def test(site: Site) -> None:
        hanging = [site.hold(f"a{number}", seconds=0.01) for number in range(MAX_STUCK + THREADS - 1)]
        assert all(isinstance(error, ReviewTimeout) for error in await asyncio.gather(*hanging, return_exceptions=True))
        assert site.threads.explain_stuck() == ""
        assert await site.threads.run("b", lambda: "b") == "b"
        with pytest.raises(ReviewTimeout):
            await site.hold("c", seconds=0.01)
        assert "restart" in site.threads.explain_stuck()
        monkeypatch.setattr(review_threads, "WAIT_SECONDS", 0.1)
        with pytest.raises(Unavailable) as refused:
            await site.threads.run("b", lambda: "b")
        assert (refused.value.code, refused.value.headers) == ("overloaded", {"Retry-After": "10"})
        site.release()
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))
        assert site.threads.explain_stuck() == ""

    run(test)


def test_an_account_cannot_fill_the_queue() -> None:
    async def test(site: Site) -> None:
        held = [site.hold(account) for account in ("a", "b", "c", "d")]
        await site.wait_until(lambda running, *_: running == THREADS)
        waiting = [asyncio.ensure_future(site.threads.run("a", lambda: None)) for _ in range(QUEUE)]
        await asyncio.sleep(0)
        refused = [task for task in waiting if task.done()]
        assert len(refused) == QUEUE // 2
        assert all(isinstance(task.exception(), Unavailable) for task in refused)
        other = asyncio.ensure_future(site.threads.run("e", lambda: "e"))
        site.release()
        assert await other == "e"
        await asyncio.gather(*held, *(task for task in waiting if task not in refused))

    run(test)


TEXTS = [GuardedText(kind="user", path="messages.0.content", text="hello")]


def make_guard(hook: Any, **options: Any) -> GuardLane:
    class Guard:
        review_request = guard_impl(hook)

    host, given = PluginHost(), PluginOptions(**options)
    host.add("guard", Guard())
    return GuardLane(host, host.configure("guard", given, Scope(given)))


def test_the_time_limit_grows_with_the_text() -> None:
    lane = make_guard(lambda self: None)
    assert (lane.get_limit(0), lane.get_limit(10_000_000)) == (5, 55)
    lane = make_guard(lambda self: None, review_timeout=1.0, review_timeout_per_mb=0.0)
    assert lane.get_limit(10_000_000) == 1


def test_what_a_coroutine_passes_to_call_run_is_stopped_and_its_time_in_the_queue_does_not_count() -> None:
    def work(text: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return text if text == "hello" else spin()  # type: ignore[func-returns-value,return-value]

    async def review(self: object, call: types.Call, texts: list[GuardedText]) -> types.Decision:
        found = await call.run(work, texts[0].text)
        return types.Block(message=found)

    lane = make_guard(review, review_timeout=0.3, required=True)

    async def test(site: Site) -> None:
        async def beside(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
            return await site.threads.run("a", function, *arguments, seconds=seconds)

        assert await complete(lane.review("request", call_to(), TEXTS, 5, beside)) == types.Block(message="hello")
        holding = site.hold("a")
        waiting = asyncio.ensure_future(complete(lane.review("request", call_to(), TEXTS, 5, beside)))
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
        site.release()
        assert await waiting == types.Block(message="hello")
        await holding
        began = time.monotonic()
        spinning = [types.replace(TEXTS[0], text="spin")]
        with pytest.raises(GuardFailed, match="longer than review_timeout"):
            await complete(lane.review("request", call_to(), spinning, 5, beside))
        assert time.monotonic() - began < 10
        await site.wait_until(lambda *told: told == (0, 0, 0, 0))

    run(test)
