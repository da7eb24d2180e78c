"""Items that came together go on together; for whoever iterates nothing is different."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.garbage import find_garbage
from tornado_gate.errors import GateError, UpstreamError
from tornado_gate.streams import stages
from tornado_gate.streams.batches import BatchIterator, DeferredItems, iterate_batches


class Source(BatchIterator[int]):
    """Gives batches; an error among them is raised in its place. Counts how often it was closed."""

    def __init__(self, batches: Iterable[list[int] | BaseException]) -> None:
        super().__init__()
        self._batches = iter(batches)
        self.closed = 0

    async def fetch_batch(self) -> list[int]:
        for batch in self._batches:
            if isinstance(batch, BaseException):
                raise batch
            return batch
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1


class Doubled(stages.Step[int, int]):
    """Every item twice; ends with a 9, fails with an 8, and says -1 at the end."""

    def take(self, items: list[int], out: list[int]) -> bool:
        for item in items:
            if item == 8:
                raise UpstreamError("eight")
            out += [item, item]
            if item == 9:
                return True
        return False

    def end(self, out: list[int]) -> None:
        out.append(-1)


class Told(stages.Step[int, int]):
    """Passes items on, and tells a failure by an item."""

    def take(self, items: list[int], out: list[int]) -> None:
        out += items

    def end(self, out: list[int]) -> None:
        out.append(-2)

    def fail(self, error: GateError) -> list[int] | GateError:
        return [-8]


async def plain(items: Iterable[int]) -> AsyncIterator[int]:
    for item in items:
        yield item


async def batches(items: AsyncIterator[Any]) -> list[Any]:
    """All batches, and at the end the error that there was, if any."""
    seen: list[Any] = []
    try:
        async for batch in iterate_batches(items):
            seen.append(batch)
    except Exception as error:
        seen.append(type(error))
    return seen


def seen(given_batches: Iterable[list[int] | BaseException], *steps: stages.Step[int, int]) -> list[Any]:
    return asyncio.run(batches(stages.Flow(Source(given_batches), *steps)))


def test_items_that_came_together_go_on_together() -> None:
    assert seen([[1, 2], [3]], Doubled()) == [[1, 1, 2, 2], [3, 3], [-1]]


def test_items_of_an_iterator_that_knows_no_batches_go_on_one_by_one() -> None:
    assert asyncio.run(batches(stages.add_step(plain([1, 2]), Doubled()))) == [[1, 1], [2, 2], [-1]]


def test_a_flow_without_steps_gives_what_its_source_gives() -> None:
    assert seen([[1, 2], [3]]) == [[1, 2], [3]]


def test_a_batch_of_which_nothing_becomes_is_passed_over() -> None:
    class Odd(stages.Step[int, int]):
        def take(self, items: list[int], out: list[int]) -> None:
            out += [item for item in items if item % 2]

    assert seen([[2], [4, 6], [1, 2, 3]], Odd()) == [[1, 3]]


def test_what_came_before_a_failure_of_a_step_is_given_before_it() -> None:
    assert seen([[1, 8, 2]], Doubled()) == [[1, 1], UpstreamError]
    assert seen([[8]], Doubled()) == [UpstreamError]


def test_a_later_step_may_tell_a_failure_which_ends_the_items_well() -> None:
    assert seen([[1, 8, 2], [3]], Doubled(), Told(), Doubled()) == [[1, 1, 1, 1, -8, -8, -1]]


def test_a_failure_of_the_source_is_told_too() -> None:
    assert seen([[1], UpstreamError("broke off")], Told()) == [[1], [-8]]
    assert seen([[1], UpstreamError("broke off")], Doubled()) == [[1, 1], UpstreamError]


def test_a_step_is_asked_for_the_end_of_its_own_failure() -> None:
    class Own(Told):
        def take(self, items: list[int], out: list[int]) -> None:
            out.append(7)
            raise UpstreamError("own")

    assert seen([[1], [2]], Own()) == [[7, -8]]


def test_what_is_no_gate_error_is_told_by_nobody() -> None:
    class Broken(stages.Step[int, int]):
        def take(self, items: list[int], out: list[int]) -> None:
            out.append(items[0])
            raise ValueError("a bug")

    assert seen([[1]], Broken(), Told()) == [[1], ValueError]
    assert seen([[1], ValueError("a bug")], Told()) == [[1], ValueError]


def test_a_step_may_end_the_items_and_what_follows_it_is_asked_for_its_end() -> None:
    source = Source([[1, 9, 2], [3]])
    assert asyncio.run(batches(stages.Flow(source, Doubled(), Told()))) == [[1, 1, 9, 9, -2]]
    assert source.closed == 1


def test_a_source_is_closed_once_whatever_ends_it() -> None:
    async def closed(*given_batches: list[int] | BaseException) -> int:
        source = Source(given_batches)
        items = stages.add_step(source, Doubled())
        await batches(items)
        await items.aclose()
        assert await batches(items) == []
        return source.closed

    for ends in ([[1]], [[1, 9]], [[1, 8]], [UpstreamError("no")], [ValueError("a bug")]):
        assert asyncio.run(closed(*ends)) == 1  # type: ignore[arg-type]


def test_who_stops_early_closes_the_source_and_gets_nothing_more() -> None:
    async def read() -> None:
        source = Source([[1, 2], [3]])
        items = stages.add_step(source, Doubled())
        assert await anext(items) == 1
        await items.aclose()
        assert source.closed == 1
        assert await batches(items) == []

    asyncio.run(read())


def test_who_is_cancelled_while_waiting_closes_the_source() -> None:
    closed = asyncio.Event()

    async def waits() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            closed.set()

    async def read() -> None:
        reading = asyncio.ensure_future(batches(stages.add_step(waits(), Told())))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert closed.is_set()

    asyncio.run(read())


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=5), st.lists(st.booleans(), max_size=30))
def test_single_items_and_batches_may_be_taken_by_turns(given_batches: list[list[int]], singly: list[bool]) -> None:
    async def read() -> list[int]:
        items = stages.Flow(Source(given_batches), Told())
        taken: list[int] = []
        for one in singly:
            try:
                taken += [await anext(items)] if one else await items.next_batch()
            except StopAsyncIteration:
                break
        return taken + [item async for item in items]

    assert asyncio.run(read()) == [item for batch in given_batches for item in batch] + [-2]


def test_a_step_goes_into_a_flow_that_nobody_has_read_from() -> None:
    first = stages.add_step(Source([[1]]), Doubled())
    assert stages.add_step(first, Told()) is first
    assert asyncio.run(batches(first)) == [[1, 1], [-1, -2]]


def test_a_step_goes_around_a_flow_that_somebody_has_read_from() -> None:
    async def read() -> list[Any]:
        first = stages.add_step(Source([[1, 2]]), Told())
        assert await anext(first) == 1
        return await batches(stages.add_step(first, Doubled()))

    assert asyncio.run(read()) == [[2, 2], [-2, -2], [-1]]


class Held(stages.Step[int, int]):
    """Gives what comes before a 5, and the 5 with all after it when `until` was awaited."""

    def __init__(self, until: Awaitable[None]) -> None:
        self.until: Awaitable[None] | None = until

    def take(self, items: list[int], out: list[int]) -> stages.Pause | None:
        if self.until is None or 5 not in items:
            out += items
            return None
        place, until, self.until = items.index(5), self.until, None
        out += items[:place]
        return stages.Pause(items[place:], lambda: until)

    def end(self, out: list[int]) -> None:
        out.append(-5)


async def nothing() -> None:
    await asyncio.sleep(0)


async def refusal() -> None:
    raise UpstreamError("not kept")


def test_what_came_before_a_pause_is_given_before_it_and_the_rest_after_it() -> None:
    async def read() -> list[Any]:
        until = asyncio.get_running_loop().create_future()
        items = stages.Flow(Source([[1, 5, 2], [3]]), Told(), Held(until), Doubled())
        assert await items.next_batch() == [1, 1]
        waiting = asyncio.ensure_future(items.next_batch())
        await asyncio.sleep(0)
        assert not waiting.done()
        until.set_result(None)
        return [await waiting, *await batches(items)]

    assert asyncio.run(read()) == [[5, 5, 2, 2], [3, 3], [-2, -2, -5, -5, -1]]


def test_a_pause_keeps_the_end_that_came_with_its_items() -> None:
    assert seen([[5, 9, 1], [3]], Doubled(), Held(nothing()), Told()) == [[5, 5, 9, 9, -5, -2]]
    assert seen([[1, 5, 8]], Doubled(), Held(nothing()), Told()) == [[1, 1], [5, 5, -8]]


def test_a_pause_that_fails_is_told_by_the_steps_from_there_on() -> None:
    assert seen([[1, 5, 2], [3]], Told(), Held(refusal()), Told()) == [[1], [-8]]
    assert seen([[1, 5, 2], [3]], Told(), Held(refusal()), Doubled()) == [[1, 1], UpstreamError]


def test_a_later_step_that_ends_the_items_ends_a_pause_too() -> None:
    until = nothing()
    assert seen([[9, 5, 2], [3]], Held(until), Doubled()) == [[9, 9]]
    until.close()


def named(error: BaseException) -> BaseException:
    return UpstreamError("the culprit") if isinstance(error, ValueError) else error


def test_an_error_before_an_attribution_is_told_as_what_it_was_attributed_to() -> None:
    class Broken(stages.Step[int, int]):
        def take(self, items: list[int], out: list[int]) -> None:
            raise ValueError("a bug")

    assert seen([[1], ValueError("a bug")], Doubled(), stages.Attributed(named), Told()) == [[1, 1], [-8]]
    assert seen([[1]], Broken(), stages.Attributed(named), Told()) == [[-8]]
    assert seen([[1]], stages.Attributed(named), Broken(), Told()) == [ValueError]


def test_an_error_in_closing_the_source_is_attributed_too() -> None:
    class Stuck(Source):
        async def aclose(self) -> None:
            raise ValueError("a bug")

    items = stages.Flow(Stuck([[9]]), Doubled(), stages.Attributed(named))
    assert asyncio.run(batches(items)) == [[9, 9], UpstreamError]


def test_a_source_is_closed_before_a_failure_is_told() -> None:
    async def read() -> None:
        source = Source([[1, 8]])
        items = stages.Flow(source, Doubled(), Told())
        assert await items.next_batch() == [1, 1, -8]
        assert source.closed == 1

    asyncio.run(read())


def test_items_that_are_put_back_are_given_again_before_all_others() -> None:
    async def read() -> list[Any]:
        items = stages.Flow(Source([[1, 2, 3], [4]]))
        first = await items.next_batch()
        items.put_back(first)
        assert await anext(items) == 1
        return await batches(items)

    assert asyncio.run(read()) == [[2, 3], [4]]


def test_later_items_are_made_when_they_are_read_and_the_source_is_closed() -> None:
    made: list[str] = []

    async def make() -> list[int]:
        made.append("made")
        return [1, 2]

    async def read() -> None:
        source = Source([])
        items = DeferredItems(make, source)
        assert made == []
        assert await batches(items) == [[1, 2]]
        assert source.closed
        unread = Source([])
        await DeferredItems(make, unread).aclose()
        assert unread.closed

    asyncio.run(read())
    assert made == ["made"]


def test_a_failure_leaves_nothing_that_only_a_collector_could_free() -> None:
    class Refused(UpstreamError):
        pass

    class Failing(stages.Step[int, Any]):
        def take(self, items: list[int], out: list[Any]) -> None:
            out.append(1)
            raise Refused("no")

    class Telling(stages.Step[Any, Any]):
        def take(self, items: list[Any], out: list[Any]) -> None:
            out += items

        def fail(self, error: GateError) -> list[Any] | GateError:
            return [error]

    async def read(*steps: stages.Step[Any, Any]) -> None:
        for source in (Source([[1]]), plain([1])):
            try:
                async for _ in stages.Flow(source, *steps):
                    pass
            except Refused:
                pass

    async def read_both() -> None:
        await read(Failing())
        await read(Failing(), Telling())

    assert asyncio.run(find_garbage(read_both, lambda value: isinstance(value, Refused | stages.Flow))) == {}


class Slow(stages.Step[int, int]):
    """Gives 5 to the thread of large answers, with what follows it in the batch; at the end a 50, in the thread too."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.on_work: Callable[[], object] = lambda: None
        self.released = threading.Event()
        self.released.set()
        self._ended = False

    def take(self, items: list[int], out: list[int]) -> stages.Large | None:
        for place, item in enumerate(items):
            if item == 5:
                return stages.Large(items[place + 1 :], self.work)
            out.append(item)
        return None

    def work(self, out: list[int]) -> bool:
        self.threads.append(threading.current_thread().name)
        self.on_work()
        assert self.released.wait(60)
        out.append(5)
        return False

    def end(self, out: list[int]) -> stages.Large | None:
        if self._ended:
            return None
        self._ended = True
        return stages.Large([], lambda out: out.append(50))


class Watched(Told):
    """Notes the thread in which it takes each item."""

    def __init__(self, takes_large: bool) -> None:
        self.takes_large = takes_large  # type: ignore[misc]
        self.threads: dict[int, str] = {}

    def take(self, items: list[int], out: list[int]) -> None:
        self.threads |= dict.fromkeys(items, threading.current_thread().name)
        out += items


def test_large_items_and_what_becomes_of_them_are_processed_in_a_thread_and_keep_their_place() -> None:
    slow, may, may_not = Slow(), Watched(takes_large=True), Watched(takes_large=False)
    assert seen([[1, 5, 2], [3]], slow, may, may_not) == [[1], [5], [2], [3], [50], [-2, -2]]
    (here,) = {may.threads[1], may.threads[2], may.threads[3], *may_not.threads.values()}
    assert here == threading.current_thread().name
    (aside,) = {*slow.threads, may.threads[5], may.threads[50]}
    assert aside != here


def test_a_later_step_may_pause_while_an_earlier_one_has_more() -> None:
    assert seen([[5, 1, 5, 2]], Slow(), Held(nothing()), Told()) == [[5], [1], [5], [2], [50], [-5, -2]]


def test_a_failure_in_the_thread_is_told_like_any_other() -> None:
    class Failing(Slow):
        def work(self, out: list[int]) -> bool:
            out.append(4)
            raise UpstreamError("large")

    assert seen([[1, 5, 2], [3]], Failing(), Told()) == [[1], [4, -8]]


def test_a_failure_of_a_later_step_is_told_by_the_steps_after_it() -> None:
    class Failing(Told):
        takes_large = True

        def take(self, items: list[int], out: list[int]) -> None:
            for item in items:
                if item == 5:
                    raise UpstreamError("large")
                out.append(item)

        def fail(self, error: GateError) -> list[int] | GateError:
            return error

    assert seen([[1, 5, 2], [3]], Slow(), Failing(), Told()) == [[1], [-8]]


def test_a_step_that_ends_the_flow_in_the_thread_ends_it() -> None:
    class Last(Slow):
        def work(self, out: list[int]) -> bool:
            out.append(9)
            return True

    assert seen([[1, 5, 2], [3]], Last(), Told()) == [[1], [9, -2]]


def test_a_cancelled_reader_waits_for_the_thread_because_the_steps_are_in_use() -> None:
    async def read() -> bool:
        slow, working = Slow(), asyncio.Event()
        slow.on_work = partial(asyncio.get_running_loop().call_soon_threadsafe, working.set)
        slow.released.clear()
        source = Source([[5]])
        waiting = asyncio.ensure_future(stages.Flow(source, slow).next_batch())
        await working.wait()
        waiting.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        was_done, was_closed = waiting.done(), source.closed
        slow.released.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return not was_done and not was_closed and source.closed == 1

    assert asyncio.run(read())
