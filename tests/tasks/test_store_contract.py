"""What every store of tasks promises. A test module of a store inherits `StoreContract` and gives it its fixtures."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.ioloop import IOLoop

from tests.support.databases import empty
from tornado_gate.database.engine import Database
from tornado_gate.errors import InvalidField, NotFound, RateLimited
from tornado_gate.tasks.database_store import DatabaseTaskStore
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.queues import TaskQueues
from tornado_gate.tasks.record import TaskRecord, advance
from tornado_gate.tasks.store import ActiveTask, Lease, TaskConflict, TaskStore, Turn, WaitingTasks
from tornado_gate.types import replace

IMAGE = b"\x89PNG" + bytes(range(256)) * 2000
BAD_IDS = [
    "", "video_", "x", "..", "../../etc/passwd", "video_" + "0" * 31, "video_" + "0" * 33, "video_" + "A" * 32,
    "video_" + "0" * 31 + "\n", "video_" + "0" * 32 + "\n", "video_" + "0" * 32 + "\0", "video_../" + "0" * 29,
    "video_" + "٠" * 32, "\0", "/", "video_" + "0" * 32 + "/..", "a" * 5000, "video_\udcff",
]  # fmt: skip


def a_task(**values: Any) -> TaskRecord:
    known: dict[str, Any] = {
        "id": "video_" + secrets.token_hex(16),
        "account": "acme",
        "model": "film",
        "provider": "studio",
        "upstream_model": "film-1",
        "created_at": time.time(),
        "deadline": time.time() + 3600,
        "request": {"model": "film", "prompt": "a cat"},
        "digest": "body-1",
    }
    return TaskRecord(**{**known, **values})


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def leased(store: TaskStore, task_id: str) -> Lease:
    lease = await store.acquire_lease(task_id)
    assert lease is not None
    return lease


async def end(store: TaskStore, record: TaskRecord, **changes: Any) -> TaskRecord:
    """Run a task to its end, as an engine does."""
    lease = await leased(store, record.id)
    values = {"step": "done", "status": "completed", "progress": 100, "expires_at": time.time() + 60, **changes}
    record = advance(record, **values)
    await store.finish(record, lease)
    await lease.release()
    return record


async def is_gone(store: TaskStore, task_id: str) -> bool:
    try:
        await store.get(task_id)
    except NotFound as error:
        return error.code == "task_not_found"
    return False


async def waiting(store: TaskStore) -> WaitingTasks:
    """The active tasks as an engine groups them that runs none of them."""
    return TaskQueues(await store.list_active()).group_waiting(())[store.digest("studio")]


async def release(turn: Turn) -> None:
    await turn.lease.release()
    await turn.slot.release()


class StoreContract:
    """Needs the fixtures `store`, and `twin`: another object on the same storage, as another process has it."""

    # Making

    @pytest.mark.gen_test
    async def test_a_task_that_was_made_is_there_for_every_process(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        assert await store.get(made.id) == await twin.get(made.id) == made
        (task,) = await twin.list_active()
        assert (task.id, task.created) == (made.id, made.created_ns)
        assert (task.provider, task.account) == (twin.digest("studio"), twin.digest("acme"))
        assert await twin.count_active("acme") == 1
        assert await twin.count_active("other") == 0

    @pytest.mark.gen_test
    async def test_an_image_is_kept_with_its_task_until_that_has_ended(self, store: TaskStore, twin: TaskStore) -> None:
        about = {"media_type": "image/png", "filename": "cat.png"}
        made = await store.create(a_task(image=about), pieces(IMAGE[:1000], b"", IMAGE[1000:]))
        assert made.image == {**about, "size": len(IMAGE)}
        image = await twin.find_image(made.id)
        assert image is not None
        assert (image.field, image.filename, image.media_type, image.size) == (
            "image",
            "cat.png",
            "image/png",
            len(IMAGE),
        )
        assert await image.read() == IMAGE
        assert await image.read(10) == IMAGE[:10]
        for _ in range(2):
            assert b"".join([chunk async for chunk in image.chunks()]) == IMAGE
        await end(store, made)
        assert await twin.find_image(made.id) is None

    @pytest.mark.gen_test
    async def test_a_task_without_an_image_has_none(self, store: TaskStore) -> None:
        made = await store.create(a_task(), None)
        assert await store.find_image(made.id) is None
        with pytest.raises(NotFound):
            await store.find_image("video_" + "0" * 32)

    @pytest.mark.gen_test
    async def test_an_image_that_breaks_off_makes_no_task(self, store: TaskStore) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield IMAGE
            raise EOFError

        task = a_task()
        with pytest.raises(EOFError):
            await store.create(task, broken())
        assert await is_gone(store, task.id)
        assert await store.list_active() == []

    @pytest.mark.gen_test
    async def test_tasks_that_come_at_one_time_differ_in_it_by_a_little(self, store: TaskStore) -> None:
        made = [await store.create(a_task(created_at=1_790_000_000.0), None) for _ in range(20)]
        assert len({task.created_ns for task in made}) == 20
        assert all(0 <= task.created_at - 1_790_000_000.0 < 0.001 for task in made)
        assert [task.id for task in await store.list_active()] == [task.id for task in made]

    # Idempotency

    @pytest.mark.gen_test
    async def test_the_same_key_and_body_give_the_same_task(self, store: TaskStore, twin: TaskStore) -> None:
        first = await store.create(a_task(), None, "key")
        assert await twin.create(a_task(), pieces(IMAGE), "key") == first
        assert len(await store.list_active()) == 1

    @pytest.mark.gen_test
    async def test_the_same_key_gives_the_task_as_it_is_now(self, store: TaskStore) -> None:
        first = await store.create(a_task(), None, "key")
        ended = await end(store, first)
        assert await store.create(a_task(), None, "key") == ended

    @pytest.mark.gen_test
    async def test_the_same_key_with_another_body_is_a_conflict(self, store: TaskStore, twin: TaskStore) -> None:
        await store.create(a_task(), None, "key")
        with pytest.raises(TaskConflict) as raised:
            await twin.create(a_task(digest="body-2"), None, "key")
        assert (raised.value.status, raised.value.code) == (409, "idempotency_conflict")
        assert len(await store.list_active()) == 1

    @pytest.mark.gen_test
    @pytest.mark.parametrize("key", ["../../x", "\0", "k" * 10_000, "\ud800", " "])
    async def test_a_key_is_the_accounts_own_whatever_it_looks_like(self, store: TaskStore, key: str) -> None:
        first = await store.create(a_task(), None, key)
        other = await store.create(a_task(account="other", digest="body-2"), None, key)
        assert first.id != other.id
        assert (await store.create(a_task(), None, key)).id == first.id

    @pytest.mark.gen_test
    async def test_an_account_and_a_key_cannot_pass_for_another_account_and_key(self, store: TaskStore) -> None:
        first = await store.create(a_task(account="ab"), None, "c")
        assert (await store.create(a_task(account="a"), None, "bc")).id != first.id

    @pytest.mark.gen_test
    async def test_of_many_that_come_with_one_key_at_once_one_makes_the_task(
        self, store: TaskStore, twin: TaskStore
    ) -> None:
        both = (store, twin)
        made = await asyncio.gather(*(both[turn % 2].create(a_task(), None, "key") for turn in range(12)))
        assert len({task.id for task in made}) == 1
        assert len(await store.list_active()) == 1

    @pytest.mark.gen_test
    async def test_a_key_is_free_again_when_its_task_is_gone(self, store: TaskStore) -> None:
        first = await store.create(a_task(), None, "key")
        await store.delete(first.id)
        second = await store.create(a_task(digest="body-2"), None, "key")
        assert second.id != first.id

    # Leases

    @pytest.mark.gen_test
    async def test_one_at_a_time_has_the_lease(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        assert (lease.task_id, lease.is_held) == (made.id, True)
        assert await store.acquire_lease(made.id) is None
        assert await twin.acquire_lease(made.id) is None
        await lease.release()
        await lease.release()
        assert not lease.is_held
        other = await leased(twin, made.id)
        assert await store.acquire_lease(made.id) is None
        await other.release()

    @pytest.mark.gen_test
    async def test_many_ask_for_one_lease_and_one_gets_it(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        asked = await asyncio.gather(*((store, twin)[turn % 2].acquire_lease(made.id) for turn in range(20)))
        (lease,) = [lease for lease in asked if lease is not None]
        await lease.release()

    @pytest.mark.gen_test
    async def test_a_task_that_has_ended_or_never_was_has_no_lease(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        await twin.list_active()  # which may be what a process remembers
        await end(store, made)
        assert await store.acquire_lease(made.id) is None
        assert await twin.acquire_lease(made.id) is None
        for bad in ["video_" + "0" * 32, *BAD_IDS]:
            assert await store.acquire_lease(bad) is None

    @pytest.mark.gen_test
    async def test_a_lease_whose_asker_left_meanwhile_is_not_lost(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        for _ in range(20):
            asking = asyncio.ensure_future(store.acquire_lease(made.id))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        async with asyncio.timeout(60):
            while (lease := await twin.acquire_lease(made.id)) is None:
                pass
        await lease.release()

    # Changing

    @pytest.mark.gen_test
    async def test_what_was_saved_is_there_for_every_process(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        for progress in (10, 20):
            record = replace(made, step="running", progress=progress, operation={"name": "o"})
            await store.save(record, lease)
            assert await twin.get(made.id) == record
        await lease.release()

    @pytest.mark.gen_test
    async def test_nothing_is_saved_without_the_tasks_own_lease(self, store: TaskStore) -> None:
        made, other = [await store.create(a_task(), None) for _ in range(2)]
        lease = await leased(store, other.id)
        for attempt in (store.save, store.finish):
            with pytest.raises(ValueError, match="lease"):
                await attempt(replace(made, step="done"), lease)
        await lease.release()
        with pytest.raises(ValueError, match="lease"):
            await store.save(replace(other, progress=3), lease)
        assert await store.get(other.id) == other

    @pytest.mark.gen_test
    async def test_only_what_is_done_can_end(self, store: TaskStore) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        with pytest.raises(ValueError, match="not ended"):
            await store.finish(made, lease)
        assert len(await store.list_active()) == 1
        await lease.release()

    @pytest.mark.gen_test
    async def test_what_has_ended_is_active_no_more_and_may_end_again(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        ended = replace(made, step="done", status="completed", expires_at=time.time() + 60)
        for _ in range(2):
            await store.finish(ended, lease)
        await lease.release()
        assert await twin.list_active() == []
        assert await twin.count_active("acme") == 0
        assert await twin.get(made.id) == ended

    @pytest.mark.gen_test
    async def test_a_task_that_is_deleted_while_it_runs_does_not_come_back(
        self, store: TaskStore, twin: TaskStore
    ) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        await twin.delete(made.id)
        for attempt, record in ((store.save, made), (store.finish, replace(made, step="done", expires_at=1.0))):
            with pytest.raises(NotFound):
                await attempt(record, lease)
        await lease.release()
        assert await is_gone(store, made.id)
        assert await store.list_active() == []
        assert await store.sweep(time.time()) == []

    # Cancelling

    @pytest.mark.gen_test
    async def test_any_process_can_ask_that_a_task_be_cancelled(self, store: TaskStore, twin: TaskStore) -> None:
        made, other = [await store.create(a_task(), None) for _ in range(2)]
        assert not await store.is_cancel_requested(made.id)
        for _ in range(2):
            await twin.request_cancel(made.id)
        assert await store.is_cancel_requested(made.id)
        assert not await store.is_cancel_requested(other.id)
        await end(store, made, status="failed")
        assert not await store.is_cancel_requested(made.id)

    @pytest.mark.gen_test
    async def test_what_is_not_there_or_has_ended_cannot_be_cancelled(self, store: TaskStore) -> None:
        made = await store.create(a_task(), None)
        await end(store, made)
        await store.request_cancel(made.id)
        assert not await store.is_cancel_requested(made.id)
        for bad in ["video_" + "0" * 32, *BAD_IDS]:
            with pytest.raises(NotFound):
                await store.request_cancel(bad)
            assert not await store.is_cancel_requested(bad)

    # Names

    @pytest.mark.gen_test
    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: ascii(bad)[:40])
    async def test_what_is_no_id_is_not_found(self, store: TaskStore, bad: str) -> None:
        await store.create(a_task(), None)
        assert await is_gone(store, bad)
        for attempt in (store.find_image, store.delete):
            with pytest.raises(NotFound):
                await attempt(bad)

    @pytest.mark.gen_test
    @pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: ascii(bad)[:40])
    async def test_no_task_is_made_under_what_is_no_id(self, store: TaskStore, bad: str) -> None:
        with pytest.raises(ValueError, match="not the id"):
            await store.create(a_task(id=bad), None)

    @pytest.mark.gen_test
    @pytest.mark.parametrize("account", ["../x", "a/b", "\0", "a" * 5000, "ž\ud800", ".", ""])
    async def test_an_account_may_be_called_anything(self, store: TaskStore, account: str) -> None:
        made = await store.create(a_task(account=account, provider=account), None)
        assert (await store.list(account, "", 5, "desc")).records == (made,)
        assert await store.count_active(account) == 1

    # Lists

    @pytest.mark.gen_test
    @pytest.mark.parametrize("order", ["asc", "desc"])
    @pytest.mark.parametrize("limit", [1, 3, 7, 100])
    async def test_pages_hold_every_task_once_and_in_order(self, store: TaskStore, order: Any, limit: int) -> None:
        made = [await store.create(a_task(account=("acme", "other")[number % 2]), None) for number in range(14)]
        mine = [record.id for record in made if record.account == "acme"]
        seen: list[str] = []
        after, has_more = "", True
        while has_more:
            records, has_more = await store.list("acme", after, limit, order)
            assert len(records) == limit if has_more else 0 < len(records) <= limit
            seen += [record.id for record in records]
            after = seen[-1]
        assert seen == (mine if order == "asc" else mine[::-1])
        assert await store.list("acme", after, limit, order) == ((), False)

    @pytest.mark.gen_test
    async def test_an_account_without_tasks_has_an_empty_list(self, store: TaskStore) -> None:
        assert await store.list("nobody", "", 20, "desc") == ((), False)

    @pytest.mark.gen_test
    async def test_a_list_shows_tasks_as_they_are_now(self, store: TaskStore) -> None:
        made = [await store.create(a_task(), None) for _ in range(3)]
        ended = await end(store, made[0])
        await store.delete(made[1].id)
        assert await store.list("acme", "", 2, "asc") == ((ended, made[2]), False)

    @pytest.mark.gen_test
    async def test_a_list_begins_only_after_a_task_of_the_account(self, store: TaskStore) -> None:
        await store.create(a_task(), None)
        theirs = await store.create(a_task(account="other"), None)
        for bad in [theirs.id, "video_" + "0" * 32, *filter(None, BAD_IDS)]:
            for account in ("acme", "nobody"):
                with pytest.raises(InvalidField) as raised:
                    await store.list(account, bad, 20, "desc")
                assert raised.value.param == "after"

    @pytest.mark.gen_test
    async def test_a_clock_that_is_set_back_breaks_no_list(self, store: TaskStore) -> None:
        now = time.time()
        made = [await store.create(a_task(created_at=now + step), None) for step in (0, 1, -3600, -3599, 2)]
        ids = [record.id for record in made]
        assert [record.id for record in (await store.list("acme", "", 9, "desc")).records] == ids[::-1]
        assert [record.id for record in (await store.list("acme", ids[1], 9, "asc")).records] == ids[2:]
        assert [task.id for task in await store.list_active()] == [ids[2], ids[3], ids[0], ids[1], ids[4]]
        lease = await leased(store, ids[2])
        await lease.release()

    @pytest.mark.gen_test
    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_a_search_finds_the_tasks_of_all_accounts_newest_first(
        self, store: TaskStore, twin: TaskStore, limit: int
    ) -> None:
        made = [
            await store.create(a_task(account=f"a{number % 3}", model=f"m{number % 2}"), None) for number in range(9)
        ]
        await store.delete(made[4].id)
        wanted = [record.id for record in made[::-1] if record.model == "m0" and record is not made[4]]
        seen: list[str] = []
        after = ""
        while True:
            found = await twin.list_all(after, limit, lambda record: record.model == "m0")
            assert len(found.records) <= limit
            seen += [record.id for record in found.records]
            if not found.next:
                break
            after = found.next
        assert seen == wanted

    @pytest.mark.gen_test
    async def test_a_search_begins_only_after_a_task(self, store: TaskStore) -> None:
        await store.create(a_task(), None)
        for bad in filter(None, BAD_IDS):
            with pytest.raises(InvalidField):
                await store.list_all(bad, 20, lambda _record: True)

    # The end

    @pytest.mark.gen_test
    async def test_a_task_is_forgotten_whole(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), pieces(IMAGE), "key")
        await store.request_cancel(made.id)
        await twin.delete(made.id)
        assert await is_gone(store, made.id)
        assert await store.list_active() == []
        assert await store.acquire_lease(made.id) is None
        assert await store.list("acme", "", 20, "desc") == ((), False)
        assert not await store.is_cancel_requested(made.id)
        with pytest.raises(NotFound):
            await store.delete(made.id)

    @pytest.mark.gen_test
    async def test_of_many_that_delete_a_task_one_does(self, store: TaskStore, twin: TaskStore) -> None:
        made = await end(store, await store.create(a_task(), None))
        both = (store, twin)
        results = await asyncio.gather(*(both[turn % 2].delete(made.id) for turn in range(8)), return_exceptions=True)
        assert [result for result in results if not isinstance(result, NotFound)] == [None]

    @pytest.mark.gen_test
    async def test_what_expired_is_forgotten_and_nothing_else(self, store: TaskStore, twin: TaskStore) -> None:
        now = 1_790_000_000.5
        made = {
            name: await store.create(a_task(), None, name) for name in ("long ago", "now", "soon", "later", "running")
        }
        ends = {"long ago": now - 90_000, "now": now, "soon": now + 0.01, "later": now + 90_000}
        for name, expires in ends.items():
            await end(store, made[name], expires_at=expires)
        assert set(await twin.sweep(now)) == {made["long ago"].id, made["now"].id}
        left = {made[name].id for name in ("soon", "later", "running")}
        assert {record.id for record in (await store.list("acme", "", 9, "asc")).records} == left
        assert [await is_gone(store, record.id) for record in made.values()] == [True, True, False, False, False]
        assert (await store.create(a_task(digest="body-2"), None, "now")).id != made["now"].id
        assert await store.sweep(now) == []
        assert set(await store.sweep(now + 90_000)) == {made["soon"].id, made["later"].id}

    @pytest.mark.gen_test
    async def test_a_task_that_ended_without_a_date_stays(self, store: TaskStore) -> None:
        made = await end(store, await store.create(a_task(), None), expires_at=None)
        assert await store.sweep(time.time() + 1e9) == []
        assert await store.get(made.id) == made

    @pytest.mark.gen_test
    async def test_a_task_whose_date_was_moved_goes_at_the_later_one(self, store: TaskStore) -> None:
        made = await store.create(a_task(), None)
        lease = await leased(store, made.id)
        for expires in (1000.0, 9000.0):
            await store.finish(replace(made, step="done", status="failed", expires_at=expires), lease)
        await lease.release()
        assert await store.sweep(2000.0) == []
        assert await store.sweep(9000.0) == [made.id]

    @pytest.mark.gen_test
    async def test_two_processes_may_sweep_at_once(self, store: TaskStore, twin: TaskStore) -> None:
        made = [await end(store, await store.create(a_task(), None), expires_at=5.0) for _ in range(20)]
        swept = await asyncio.gather(store.sweep(10.0), twin.sweep(10.0))
        assert sorted(swept[0] + swept[1]) == sorted(record.id for record in made)

    # Slots

    @pytest.mark.gen_test
    async def test_there_are_as_many_slots_as_were_said(self, store: TaskStore, twin: TaskStore) -> None:
        studio, other = store.digest("studio"), store.digest("other")
        asked = await asyncio.gather(*((store, twin)[turn % 2].acquire_slot(studio, 3) for turn in range(12)))
        taken = [slot for slot in asked if slot is not None]
        assert len(taken) == 3
        elsewhere = await store.acquire_slot(other, 1)
        assert elsewhere is not None
        await taken[1].release()
        await taken[1].release()
        again = await twin.acquire_slot(studio, 3)
        assert again is not None
        assert await store.acquire_slot(studio, 3) is None
        for slot in (*taken, again, elsewhere):
            await slot.release()
        assert await store.acquire_slot(studio, 0) is None

    @pytest.mark.gen_test
    @pytest.mark.parametrize("bad", ["studio", "../../xy", "", "........"])
    async def test_slots_are_asked_for_by_digest(self, store: TaskStore, bad: str) -> None:
        with pytest.raises(ValueError, match="digest"):
            await store.acquire_slot(bad, 1)

    # Turns

    @pytest.mark.gen_test
    async def test_accounts_take_turns_over_all_processes(self, store: TaskStore, twin: TaskStore) -> None:
        made: dict[str, list[str]] = {"large": [], "small": [], "late": []}
        for account in ["large"] * 5 + ["small", "large", "small", "late"]:
            made[account].append((await store.create(a_task(account=account), None)).id)
        studio = store.digest("studio")
        turns: list[Turn] = []
        for number in range(9):  # each look is another process's, and begins from nothing
            process = (store, twin)[number % 2]
            turn = await process.acquire_turn(studio, 20, await waiting(process))
            assert turn is not None
            turns.append(turn)
        order = [turn.task.id for turn in turns]
        large, small = made["large"], made["small"]
        assert order == [large[0], small[0], made["late"][0], large[1], small[1], *large[2:]]
        assert await store.acquire_turn(studio, 20, await waiting(store)) is None
        for turn in turns:
            await release(turn)

    @pytest.mark.gen_test
    async def test_an_account_gets_every_other_turn_beside_one_with_a_long_queue(
        self, store: TaskStore, twin: TaskStore
    ) -> None:
        studio = store.digest("studio")
        for _ in range(10):
            await store.create(a_task(account="large"), None)
        one = await store.create(a_task(account="one"), None)
        started = []
        for number in range(6):
            process = (store, twin)[number % 2]
            turn = await process.acquire_turn(studio, 1, await waiting(process))
            assert turn is not None
            assert await store.acquire_turn(studio, 1, await waiting(store)) is None, "there is one slot"
            started.append(turn.task.account)
            await release(turn)
            await end(store, await store.get(turn.task.id))
            if turn.task.id == one.id:
                one = await store.create(a_task(account="one"), None)
        assert started == [store.digest("large"), store.digest("one")] * 3

    @pytest.mark.gen_test
    async def test_a_turn_that_finds_no_task_leaves_its_slot(self, store: TaskStore) -> None:
        studio, missing = (
            store.digest("studio"),
            ActiveTask(1, store.digest("studio"), store.digest("a"), "video_" + "0" * 32),
        )
        assert await store.acquire_turn(studio, 1, {missing.account: deque([missing])}) is None
        slot = await store.acquire_slot(studio, 1)
        assert slot is not None
        await slot.release()

    # Limits

    @pytest.mark.gen_test
    async def test_an_account_has_exactly_as_many_tasks_as_it_may(self, store: TaskStore, twin: TaskStore) -> None:
        async def create(number: int, account: str) -> TaskRecord | None:
            try:
                return await (store, twin)[number % 2].create(a_task(account=account), None, limit=10)
            except RateLimited as error:
                assert error.code == "too_many_tasks"
                return None

        asked = await asyncio.gather(*(create(number, "acme") for number in range(40)))
        made = [record for record in asked if record is not None]
        assert len(made) == await store.count_active("acme") == 10
        assert await create(0, "other") is not None
        await end(store, made[0])
        assert await create(1, "acme") is not None
        assert await create(1, "acme") is None

    @pytest.mark.gen_test
    async def test_a_repeated_request_at_the_limit_gets_its_task(self, store: TaskStore, twin: TaskStore) -> None:
        made = await store.create(a_task(), None, "key", limit=1)
        assert (await twin.create(a_task(), None, "key", limit=1)).id == made.id

    # Restart

    @pytest.mark.gen_test
    async def test_a_store_may_be_closed_and_opened_again(self, store: TaskStore) -> None:
        made = await store.create(a_task(), None)
        await store.close()
        await store.open()
        await store.open()
        assert [task.id for task in await store.list_active()] == [made.id]


class TestDatabaseTaskStore(StoreContract):
    @pytest.fixture
    def address(self, migrated_postgres: str) -> str:
        empty(migrated_postgres)
        return migrated_postgres

    @pytest.fixture
    def store(self, address: str, tmp_path: Path, io_loop: IOLoop) -> Iterator[TaskStore]:
        opened = DatabaseTaskStore(Database(tmp_path, address))
        yield opened
        io_loop.run_sync(opened.close)

    @pytest.fixture
    def twin(self, address: str, tmp_path: Path, io_loop: IOLoop) -> Iterator[TaskStore]:
        opened = DatabaseTaskStore(Database(tmp_path, address))
        yield opened
        io_loop.run_sync(opened.close)


class TestFileTaskStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> TaskStore:
        return FileTaskStore(tmp_path / "tasks")

    @pytest.fixture
    def twin(self, tmp_path: Path) -> TaskStore:
        return FileTaskStore(tmp_path / "tasks")
