"""What takes too long is an upstream timeout, and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tornado_gate.deadlines import Deadlines
from tornado_gate.errors import UpstreamTimeout
from tornado_gate.types import Timeouts


async def never() -> None:
    await asyncio.Event().wait()


def deadlines(streaming: bool = True, **timeouts: float) -> Deadlines:
    return Deadlines(Timeouts(**timeouts), "acme", streaming=streaming)


def first(**timeouts: float) -> None:
    async def wait() -> None:
        await deadlines(**timeouts).first(never())

    asyncio.run(wait())


def test_a_first_event_that_does_not_come_is_a_timeout() -> None:
    with pytest.raises(UpstreamTimeout, match="acme"):
        first(first_event=0.01)


def test_a_whole_answer_has_all_the_time_there_is() -> None:
    with pytest.raises(UpstreamTimeout):
        first(streaming=False, first_event=1000, total=0.01)


@pytest.mark.parametrize("timeouts", [{"gap": 0.01}, {"total": 0.01}])
def test_a_silence_between_events_ends_and_closes_the_stream(timeouts: dict[str, float]) -> None:
    closed = []

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            await never()
        finally:
            closed.append(True)

    async def read() -> list[int]:
        seen = []
        with pytest.raises(UpstreamTimeout):
            async for item in deadlines(**timeouts).between(items()):
                seen.append(item)
        return seen

    assert asyncio.run(read()) == [1]
    assert closed == [True]


def test_a_reader_who_stops_closes_the_stream() -> None:
    closed = []

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def read() -> None:
        reading = deadlines().between(items())
        assert await anext(reading) == 1
        await reading.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())
    assert closed == [True]
