"""A time limit counts only the time in which this process runs."""

from __future__ import annotations

import asyncio
import time

import pytest

from tornado_gate.streams.fair_timeouts import limit_running_time


def test_a_block_that_takes_too_long_is_ended() -> None:
    async def wait() -> None:
        async with limit_running_time(0.01):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_a_process_that_did_not_run_still_gets_what_has_arrived_meanwhile() -> None:
    async def wait() -> str:
        arrived = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, arrived.set)
        async with limit_running_time(0.2):
            await asyncio.sleep(0)
            time.sleep(0.4)  # noqa: ASYNC251  the process is stopped
            await arrived.wait()
        return "it is here"

    assert asyncio.run(wait()) == "it is here"
