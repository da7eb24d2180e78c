"""What takes too long is an upstream timeout, and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.quick_loop import run_quickly
from tornado_gate.errors import UpstreamTimeout
from tornado_gate.streams.batches import DeferredItems, iterate_batches
from tornado_gate.streams.deadlines import Deadlines
from tornado_gate.streams.stages import Step, add_step
from tornado_gate.streams.timer_wheel import get_wheel
from tornado_gate.types import Timeouts


async def never() -> None:
    await asyncio.Event().wait()


def deadlines(streaming: bool = True, **timeouts: float) -> Deadlines:
    return Deadlines(Timeouts(**timeouts), "acme", streaming=streaming)


def first(*, streaming: bool = True, **timeouts: float) -> None:
    async def wait() -> None:
        await deadlines(streaming, **timeouts).wait_for_first_event(never())

    run_quickly(wait())


def test_a_first_event_that_does_not_come_is_a_timeout() -> None:
    with pytest.raises(UpstreamTimeout, match="acme"):
        first(first_event=0.01)


def test_a_whole_answer_that_does_not_begin_is_a_timeout_too() -> None:
    with pytest.raises(UpstreamTimeout, match="Request a stream, or raise"):
        first(streaming=False, first_event=0.01)
    with pytest.raises(UpstreamTimeout, match="total timeout"):
        first(streaming=False, first_event=1000, total=0.01)


def test_work_that_starts_slowly_has_all_the_time_there_is() -> None:
    async def wait() -> None:
        limit = Deadlines(Timeouts(first_event=0.01, total=0.05), "acme", streaming=False, slow_start=True)
        await limit.wait_for_first_event(never())

    with pytest.raises(UpstreamTimeout, match="total timeout"):
        run_quickly(wait())


@pytest.mark.qa
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("parsed", [False, True])
def test_after_its_first_bytes_a_whole_answer_may_take_longer(parsed: bool, streaming: bool) -> None:
    """`parsed`: the chunks are parsed by another iterator, as in the common lane. `streaming`: a stream that is collected."""

    async def read() -> bytes:
        limit = deadlines(streaming=streaming, first_event=1, gap=60)
        limit.expect_whole()

        async def chunks() -> AsyncIterator[bytes]:
            yield b"a"
            await asyncio.sleep(1.2)
            yield b"b"

        async def whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            yield b"".join([piece async for piece in pieces])

        async def first_of(items: AsyncIterator[bytes]) -> bytes:
            return await anext(items)

        translated = limit.limit_gaps(whole(limit.extend_gap_on_chunks(chunks())))
        forwarded = whole(limit.limit_gaps(chunks()))
        return await limit.wait_for_first_event(first_of(translated if parsed else forwarded))

    assert run_quickly(read()) == b"ab"


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("parsed", [False, True])
def test_a_silence_inside_a_whole_answer_is_a_gap(parsed: bool, streaming: bool) -> None:
    async def read() -> bytes:
        limit = deadlines(streaming=streaming, first_event=60, gap=0.01, total=60)
        limit.expect_whole()

        async def chunks() -> AsyncIterator[bytes]:
            yield b"a"
            await never()

        async def whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            yield b"".join([piece async for piece in pieces])

        async def first_of(items: AsyncIterator[bytes]) -> bytes:
            return await anext(items)

        translated = limit.limit_gaps(whole(limit.extend_gap_on_chunks(chunks())))
        forwarded = whole(limit.limit_gaps(chunks()))
        return await limit.wait_for_first_event(first_of(translated if parsed else forwarded))

    with pytest.raises(UpstreamTimeout, match=r"sent no data for 0.01 s \(gap timeout\)"):
        run_quickly(read())


def test_the_work_after_the_last_bytes_of_a_whole_answer_is_no_gap() -> None:
    """The translation of a whole answer may wait, for a guard for example: that is no silence of the upstream."""

    async def read() -> bytes:
        limit = deadlines(streaming=False, first_event=60, gap=0.05, total=60)

        async def chunks() -> AsyncIterator[bytes]:
            yield b"a"
            yield b"b"

        async def whole(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
            found = b"".join([piece async for piece in pieces])
            await asyncio.sleep(0.2)
            yield found

        async def first_of(items: AsyncIterator[bytes]) -> bytes:
            return await anext(items)

        return await limit.wait_for_first_event(first_of(limit.limit_gaps(whole(limit.extend_gap_on_chunks(chunks())))))

    assert run_quickly(read()) == b"ab"


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
            async for item in deadlines(True, **timeouts).limit_gaps(items()):
                seen.append(item)
        return seen

    assert run_quickly(read()) == [1]
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
        reading = deadlines().limit_gaps(items())
        assert await anext(reading) == 1
        await reading.aclose()  # type: ignore[attr-defined]

    run_quickly(read())
    assert closed == [True]


def test_a_sign_of_life_puts_off_the_end_of_a_gap() -> None:
    """Chunks that make no event, as pings do, keep the stream going beyond a gap."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(6):
            await asyncio.sleep(0.02)
            yield b": ping\n\n"

    async def read() -> list[bytes]:
        limits = deadlines(gap=0.05)

        async def events() -> AsyncIterator[bytes]:
            yield b"first"
            heard = [chunk async for chunk in limits.extend_gap_on_chunks(chunks())]
            yield b"%d" % len(heard)

        return [event async for event in limits.limit_gaps(events())]

    assert run_quickly(read()) == [b"first", b"6"]


def test_a_flow_of_chunks_stays_one_flow_whose_gaps_are_between_chunks() -> None:
    """As of a provider that puts its steps into the flow of chunks: chunks without an event keep it going as well."""

    class Pings(Step[bytes, bytes]):
        def take(self, items: list[bytes], out: list[bytes]) -> None:
            out += [item for item in items if not item.startswith(b":")]

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        for _ in range(6):
            await asyncio.sleep(0.02)
            yield b": ping\n\n"
        yield b"last"
        await never()

    async def read() -> list[bytes]:
        limits = deadlines(gap=0.05)
        heard = add_step(limits.extend_gap_on_chunks(chunks()), Pings())
        events = limits.limit_gaps(heard)
        assert events is heard
        seen = []
        with pytest.raises(UpstreamTimeout, match="sent no data for"):
            async for event in events:
                seen.append(event)
        assert get_wheel().is_empty
        return seen

    assert run_quickly(read()) == [b"first", b"last"]


def test_what_comes_before_the_first_event_is_no_gap() -> None:
    class Second(Step[bytes, bytes]):
        def take(self, items: list[bytes], out: list[bytes]) -> None:
            out += [item for item in items if item == b"second"]

    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.sleep(0.2)  # beyond a gap, which the wheel tells within a sixteenth of a second
        yield b"second"

    async def read() -> list[bytes]:
        limits = deadlines(gap=0.01)
        return [event async for event in limits.limit_gaps(add_step(limits.extend_gap_on_chunks(chunks()), Second()))]

    assert run_quickly(read()) == [b"second"]


def test_events_that_have_limits_of_their_own_get_others_around_them() -> None:
    """As of a provider that is made of other models: each has its own time."""

    async def items() -> AsyncIterator[int]:
        yield 1
        await never()

    async def read(inner: Deadlines, outer: Deadlines) -> None:
        with pytest.raises(UpstreamTimeout, match="sent no data for"):
            async for _ in outer.limit_gaps(inner.limit_gaps(items())):
                pass

    async def both() -> None:
        await read(deadlines(gap=0.01), deadlines(gap=1000))
        await read(deadlines(gap=1000), deadlines(gap=0.01))

    run_quickly(both())


def test_who_is_cancelled_while_a_limit_holds_stays_cancelled() -> None:
    async def wait() -> None:
        waiting = asyncio.ensure_future(deadlines().wait_for_first_event(never()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run_quickly(wait())


def test_a_first_event_is_limited_as_a_whole_however_lively_its_making() -> None:
    async def items() -> AsyncIterator[int]:
        await never()
        yield 1

    async def wait() -> None:
        limits = deadlines(first_event=0.01, gap=1000)
        with pytest.raises(UpstreamTimeout, match="did not start its response"):
            await limits.wait_for_first_event(anext(limits.limit_gaps(items())))

    run_quickly(wait())


def test_nothing_is_left_in_the_wheel_after_the_last_item() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1

    async def read() -> None:
        limits = deadlines()
        await limits.wait_for_first_event(asyncio.sleep(0))
        assert [item async for item in limits.limit_gaps(items())] == [1]
        assert get_wheel().is_empty

    run_quickly(read())


def test_nothing_is_left_in_the_wheel_when_the_last_item_comes_before_the_first_event_is_given() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1

    async def read() -> None:
        limits = deadlines()

        async def all_of_them() -> list[int]:
            return [item async for item in limits.limit_gaps(items())]

        assert await limits.wait_for_first_event(all_of_them()) == [1]
        assert get_wheel().is_empty

    run_quickly(read())


def test_what_the_items_raise_is_blamed_and_the_end_is_not() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        raise ValueError("a plugin's fault")

    def blame(error: BaseException) -> BaseException:
        return KeyError("the plugin") if isinstance(error, ValueError) else error

    async def read() -> None:
        with pytest.raises(KeyError, match="the plugin"):
            async for _ in deadlines().limit_gaps(items(), blame):
                pass

    run_quickly(read())


def test_items_that_came_together_have_one_limit() -> None:
    async def together() -> list[int]:
        return [1, 2]

    async def nothing() -> AsyncIterator[int]:
        for item in ():
            yield item

    async def read() -> list[list[int]]:
        return [batch async for batch in iterate_batches(deadlines().limit_gaps(DeferredItems(together, nothing())))]

    assert run_quickly(read()) == [[1, 2]]
