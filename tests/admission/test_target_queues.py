"""Places and the queue of a provider entry: who runs, who waits, who is next, and that every end gives its place back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tornado_gate.admission.embedded import EmbeddedStore
from tornado_gate.admission.target_queues import TargetQueue, TargetQueues
from tornado_gate.config.model import TargetConcurrency
from tornado_gate.errors import TargetBusy

RULES = TargetConcurrency(most=2, queue=4, wait=60.0)


class Told:
    """What a queue reports."""

    def __init__(self) -> None:
        self.counts: tuple[int, int] = (0, 0)
        self.reasons: list[str] = []

    def report(self, _provider: str, running: int, waiting: int) -> None:
        self.counts = running, waiting


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedStore:
    return EmbeddedStore(tmp_path)


def make_queue(store: EmbeddedStore) -> tuple[TargetQueue, Told]:
    told = Told()
    return TargetQueue("p", store, told.report, told.reasons.append), told


async def begin(queue: TargetQueue, account: str, rules: TargetConcurrency = RULES) -> asyncio.Task[Callable[[], None]]:
    task = asyncio.ensure_future(queue.enter(account, rules))
    await asyncio.sleep(0)  # it runs until it has a place or waits
    return task


@pytest.mark.gen_test
async def test_requests_without_a_slot_wait(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    first, second, third = [await begin(queue, "a") for _ in range(3)]
    assert (first.done(), second.done(), third.done()) == (True, True, False)
    assert told.counts == (2, 1)
    first.result()()
    leave = await third
    assert told.counts == (2, 0)
    leave()
    second.result()()
    assert told.counts == (0, 0)


@pytest.mark.gen_test
async def test_the_account_with_the_fewest_running_requests_is_next(store: EmbeddedStore) -> None:
    queue, _ = make_queue(store)
    held = [await queue.enter("a", RULES) for _ in range(2)]
    again = [await begin(queue, "a") for _ in range(2)]
    other = await begin(queue, "b")
    held.pop()()
    await other
    assert not any(task.done() for task in again)
    held.pop()()
    assert again[0] in (await asyncio.wait(again, return_when=asyncio.FIRST_COMPLETED))[0]
    again[0].result()()
    other.result()()
    (await again[1])()
    assert queue.running == 0


@pytest.mark.gen_test
async def test_an_account_cannot_fill_the_queue(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    held = [await queue.enter("a", RULES) for _ in range(2)]
    waiting = [await begin(queue, "a") for _ in range(2)]
    with pytest.raises(TargetBusy, match="this account's share of it, is full") as caught:
        await queue.enter("a", RULES)
    assert (caught.value.status, caught.value.code, caught.value.retry_after) == (503, "target_busy", 60)
    waiting.append(await begin(queue, "b"))
    assert told.counts == (2, 3)
    assert told.reasons == ["target_queue"]
    for leave in held:
        leave()
    for task in waiting:
        (await task)()
    assert told.counts == (0, 0)


@pytest.mark.gen_test
async def test_without_a_queue_a_request_is_rejected_immediately(store: EmbeddedStore) -> None:
    queue, _ = make_queue(store)
    rules = TargetConcurrency(most=1, queue=0)
    leave = await queue.enter("a", rules)
    with pytest.raises(TargetBusy):
        await queue.enter("b", rules)
    leave()
    (await queue.enter("b", rules))()


@pytest.mark.gen_test
async def test_a_request_waits_for_a_limited_time(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    leave = await queue.enter("a", RULES)
    rules = TargetConcurrency(most=1, queue=4, wait=0.01)
    with pytest.raises(TargetBusy, match=r"none ended within 0\.01 s") as caught:
        await queue.enter("b", rules)
    assert caught.value.retry_after == 1
    assert (told.counts, told.reasons) == ((1, 0), ["target_wait"])
    leave()


@pytest.mark.gen_test
async def test_the_next_request_gets_the_slot_of_a_request_whose_caller_disconnected(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    rules = TargetConcurrency(most=1, queue=4)
    leave = await queue.enter("a", rules)
    gone, next_one = await begin(queue, "b", rules), await begin(queue, "c", rules)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert told.counts == (1, 1)
    leave()
    (await next_one)()
    assert told.counts == (0, 0)


@pytest.mark.gen_test
async def test_a_request_that_is_cancelled_as_it_gets_a_slot_releases_it(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    rules = TargetConcurrency(most=1, queue=4)
    leave = await queue.enter("a", rules)
    waiting = await begin(queue, "b", rules)
    leave()  # the place is now that of `waiting`, which has not run since
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert told.counts == (0, 0)


@pytest.mark.gen_test
async def test_a_request_that_has_just_been_cancelled_gets_no_slot(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    rules = TargetConcurrency(most=1, queue=4)
    leave = await queue.enter("a", rules)
    gone, next_one = await begin(queue, "b", rules), await begin(queue, "b", rules)
    gone.cancel()  # it has not run since
    leave()
    (await next_one)()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert told.counts == (0, 0)


@pytest.mark.gen_test
async def test_a_lower_limit_applies_from_the_next_request_on(store: EmbeddedStore) -> None:
    queue, told = make_queue(store)
    held = [await queue.enter("a", RULES) for _ in range(2)]
    waiting = await begin(queue, "b", TargetConcurrency(most=1, queue=4))
    assert told.counts == (2, 1)
    held.pop()()
    assert told.counts == (1, 1)
    held.pop()()
    (await waiting)()


# Several processes: each has its own store on the same files.


@pytest.mark.gen_test
async def test_processes_share_the_slots_and_the_queue(store: EmbeddedStore, tmp_path: Path) -> None:
    (queue, _), (other, told) = make_queue(store), make_queue(EmbeddedStore(tmp_path))
    rules = TargetConcurrency(most=2, queue=3)
    first, second = await queue.enter("a", rules), await other.enter("b", rules)
    waiting = [await begin(queue, "a", rules), await begin(other, "b", rules)]
    assert not any(task.done() for task in waiting)
    with pytest.raises(TargetBusy, match="its queue, or this account's share of it, is full"):
        await other.enter("b", rules)  # two of three wait: the last place of the queue is for another account
    assert told.reasons == ["target_queue"]
    first()
    second()
    for leave in await asyncio.gather(*waiting):
        leave()
    assert (queue.running, other.running, other.waiting) == (0, 0, 0)


@pytest.mark.gen_test
async def test_no_process_keeps_its_slots_while_others_wait(
    store: EmbeddedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue, _), (other, _) = make_queue(store), make_queue(EmbeddedStore(tmp_path))
    rules = TargetConcurrency(most=1, queue=9)
    leave = await queue.enter("a", rules)
    own, foreign = await begin(queue, "a", rules), await begin(other, "b", rules)
    monkeypatch.setattr("random.random", lambda: 0.9)  # one of two that wait: at 0.5 and above the others are due
    leave()
    assert not own.done()
    other._look_again()
    (await foreign)()
    (await own)()


@pytest.mark.gen_test
async def test_the_slots_of_a_dead_process_become_free(store: EmbeddedStore, tmp_path: Path) -> None:
    dead = EmbeddedStore(tmp_path)
    (queue, _), (other, _) = make_queue(store), make_queue(dead)
    rules = TargetConcurrency(most=1, queue=9)
    await other.enter("b", rules)
    waiting = await begin(queue, "a", rules)
    dead._leases.close()  # as the end of its process does
    (await waiting)()


@pytest.mark.gen_test
async def test_without_the_store_a_process_counts_its_own_requests(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    queue, _ = make_queue(EmbeddedStore(tmp_path / "file"))
    rules = TargetConcurrency(most=1, queue=1)
    leave = await queue.enter("a", rules)
    waiting = await begin(queue, "b", rules)
    with pytest.raises(TargetBusy):
        await queue.enter("c", rules)
    leave()
    (await waiting)()
    assert (queue.running, queue.waiting) == (0, 0)


@pytest.mark.gen_test
async def test_queues_of_removed_entries_are_removed_when_their_requests_have_ended(store: EmbeddedStore) -> None:
    told = Told()
    queues = TargetQueues(store, told.report, told.reasons.append)
    busy, idle = queues.find_queue("busy"), queues.find_queue("idle")
    leave = await busy.enter("a", RULES)
    queues.keep(frozenset())
    assert queues.find_queue("busy") is busy
    assert queues.find_queue("idle") is not idle
    leave()
