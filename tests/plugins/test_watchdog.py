"""Plugin code that blocks the event loop is interrupted and named; other code is not."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from tornado_gate.plugins.watchdog import EventLoopBlocked, Watchdog


def owner(frame: FrameType) -> str:
    return "acme" if frame.f_code.co_name == "hook_of_acme" else ""


def hook_of_acme() -> None:
    time.sleep(1000)


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    dog = Watchdog(owner, limit_seconds=0.1)
    yield dog
    dog.stop()


def test_a_hook_that_blocks_the_loop_is_interrupted(watchdog: Watchdog) -> None:
    async def serve() -> str:
        watchdog.start(asyncio.get_running_loop())
        with pytest.raises(EventLoopBlocked) as caught:
            hook_of_acme()
        return caught.value.plugin

    assert asyncio.run(serve()) == "acme"


def test_a_loop_in_python_is_interrupted_too(watchdog: Watchdog) -> None:
    def hook_of_acme() -> None:
        while True:
            try:
                while True:
                    pass
            except Exception:
                continue

    async def serve() -> None:
        watchdog.start(asyncio.get_running_loop())
        with pytest.raises(EventLoopBlocked):
            hook_of_acme()

    asyncio.run(serve())


def test_a_search_that_keeps_pythons_lock_is_interrupted_too(watchdog: Watchdog) -> None:
    def hook_of_acme() -> None:
        re.match(r"(a+)+b", "a" * 60)

    async def serve() -> None:
        watchdog.start(asyncio.get_running_loop())
        with pytest.raises(EventLoopBlocked):
            hook_of_acme()

    asyncio.run(serve())


def test_code_that_logs_is_interrupted_outside_of_the_lock_of_logs(watchdog: Watchdog) -> None:
    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sum(range(200))

    log, handler = logging.getLogger("an.acme"), Handler()
    log.propagate = False
    log.addHandler(handler)

    def hook_of_acme() -> None:
        while True:
            log.warning("blocked")
            for _ in range(200):
                pass

    async def serve() -> None:
        watchdog.start(asyncio.get_running_loop())
        with pytest.raises(EventLoopBlocked):
            hook_of_acme()

    asyncio.run(serve())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(can_take, handler).result()


def can_take(handler: logging.Handler) -> bool:
    """Whether another thread can write a log."""
    assert handler.lock is not None
    taken: bool = handler.lock.acquire(timeout=5)
    if taken:
        handler.lock.release()
    return taken


def test_code_of_nobodys_plugin_is_left_alone(watchdog: Watchdog, caplog: pytest.LogCaptureFixture) -> None:
    async def serve() -> None:
        watchdog.start(asyncio.get_running_loop())
        ends = time.monotonic() + 60
        while time.monotonic() < ends and not caplog.messages:
            pass

    asyncio.run(serve())
    assert "the event loop is blocked" in caplog.text


def test_a_loop_that_beats_is_left_alone(watchdog: Watchdog) -> None:
    async def serve() -> None:
        watchdog.start(asyncio.get_running_loop())
        watchdog.limit_seconds = 5
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(serve())
