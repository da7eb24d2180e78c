"""The task store in PostgreSQL: processes that die, are suspended or lose the database. The rest is in the contract."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from tornado.ioloop import IOLoop

from tests.support.databases import empty
from tests.support.postgres import PostgresServer
from tests.tasks.test_store_contract import IMAGE, a_task, end, is_gone, leased, pieces, waiting
from tornado_gate.database import calls
from tornado_gate.database.engine import Database
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks import database_holder, database_leases, record
from tornado_gate.tasks.database_leases import Claim
from tornado_gate.tasks.database_store import DatabaseTaskStore
from tornado_gate.tasks.queues import TaskQueues
from tornado_gate.tasks.record import encode_record
from tornado_gate.tasks.store import LeaseLost
from tornado_gate.types import replace

LEASE = 1.5
MakeStore = Callable[[], DatabaseTaskStore]


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_holder, "LEASE_SECONDS", LEASE)
    monkeypatch.setattr(database_holder, "RENEWAL_SECONDS", 0.05)
    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.05)


@pytest.fixture
def address(migrated_postgres: str) -> str:
    empty(migrated_postgres)
    return migrated_postgres


@pytest.fixture
def make_store(address: str, tmp_path: Path, io_loop: IOLoop) -> Iterator[MakeStore]:
    """Makes the store of another node. All are closed in the end."""
    stores: list[DatabaseTaskStore] = []

    def make() -> DatabaseTaskStore:
        stores.append(DatabaseTaskStore(Database(tmp_path, address)))
        return stores[-1]

    yield make
    for store in stores:
        io_loop.run_sync(store.close)


def execute(address: str, statement: str, *values: object) -> None:
    with psycopg.connect(address) as connection:
        connection.execute(statement.encode(), values)


def suspend(store: DatabaseTaskStore) -> None:
    """Renew nothing from now on, as a process that was killed or suspended."""
    renewing = store._holder._renewing
    assert renewing is not None
    renewing.cancel()


async def taken_over(store: DatabaseTaskStore, task_id: str) -> database_holder.DatabaseLease:
    async with asyncio.timeout(60):
        while (lease := await store.acquire_lease(task_id)) is None:
            pass
    return lease


# Leases


@pytest.mark.gen_test
async def test_a_node_that_dies_loses_its_lease_and_one_that_lives_keeps_it(make_store: MakeStore) -> None:
    dying, living, other = make_store(), make_store(), make_store()
    made, kept = [await dying.create(a_task(), None) for _ in range(2)]
    lease = await leased(dying, made.id)
    living_lease = await leased(living, kept.id)
    suspend(dying)
    began = time.monotonic()
    new = await taken_over(other, made.id)
    assert time.monotonic() - began < 10 * LEASE
    assert isinstance(lease, database_holder.DatabaseLease)
    assert new.fence == lease.fence + 1
    assert await other.acquire_lease(kept.id) is None
    await living.check_lease(living_lease)


@pytest.mark.gen_test
async def test_what_a_node_writes_after_its_lease_was_taken_is_refused(make_store: MakeStore) -> None:
    suspended, other = make_store(), make_store()
    made = await suspended.create(a_task(), None)
    lease = await leased(suspended, made.id)
    suspend(suspended)
    new = await taken_over(other, made.id)
    progressed = replace(made, step="running", progress=40)
    await other.save(progressed, new)
    for attempt in (suspended.save, suspended.finish):
        with pytest.raises(LeaseLost):
            await attempt(replace(made, step="done", status="failed"), lease)
    with pytest.raises(LeaseLost):
        await suspended.check_lease(lease)
    with pytest.raises(LeaseLost):
        await suspended.is_cancel_requested(made.id)
    await lease.release()
    assert await other.get(made.id) == progressed
    await other.check_lease(new)
    await end(suspended, await suspended.create(a_task(), None))  # it works again


@pytest.mark.gen_test
async def test_a_slot_of_a_dead_node_is_free_again(make_store: MakeStore) -> None:
    dying, other = make_store(), make_store()
    studio = dying.digest("studio")
    await dying.create(a_task(), None)
    assert await dying.acquire_turn(studio, 1, await waiting(dying)) is not None
    await other.create(a_task(), None)
    assert await other.acquire_turn(studio, 1, await waiting(other)) is None
    suspend(dying)
    async with asyncio.timeout(60):
        while await other.acquire_turn(studio, 1, await waiting(other)) is None:
            pass
    assert await other.acquire_turn(studio, 1, await waiting(other)) is None


@pytest.mark.gen_test
async def test_a_node_that_has_just_reached_the_database_lets_others_renew_first(make_store: MakeStore) -> None:
    dying = make_store()
    made = await dying.create(a_task(), None)
    free = await dying.create(a_task(), None)
    await leased(dying, made.id)
    suspend(dying)
    await asyncio.sleep(LEASE)
    new = make_store()
    began = time.monotonic()
    await leased(new, free.id)  # which no node has
    assert await new.acquire_lease(made.id) is None
    await taken_over(new, made.id)
    assert time.monotonic() - began >= LEASE


@pytest.mark.gen_test
async def test_a_lease_whose_taking_got_no_response_is_not_held_for_ever(make_store: MakeStore) -> None:
    store, other = make_store(), make_store()
    made, held = [await store.create(a_task(), None) for _ in range(2)]
    await leased(store, held.id)
    fence = await store._calls.write(database_leases.claim_lease, Claim(store._holder.id, False), made.id)
    slot = await store._calls.write(database_leases.claim_slot, Claim(store._holder.id, False), "0" * 8, 1)
    assert fence is not None
    assert slot is not None
    await taken_over(other, made.id)
    async with asyncio.timeout(60):
        while await other.acquire_slot("0" * 8, 1) is None:
            pass
    assert await other.acquire_lease(held.id) is None


@pytest.mark.gen_test
async def test_a_store_that_is_closed_releases_all_it_has(make_store: MakeStore) -> None:
    store, other = make_store(), make_store()
    made = await store.create(a_task(), None)
    await store.acquire_turn(store.digest("studio"), 1, await waiting(store))
    await store.close()
    assert await other.acquire_turn(store.digest("studio"), 1, await waiting(other)) is not None
    assert await store.acquire_lease(made.id) is None


@pytest.mark.gen_test
async def test_nodes_that_take_turns_together_never_have_one_task_twice(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_holder, "LEASE_SECONDS", 60.0)
    stores = [make_store() for _ in range(3)]
    ids = {(await stores[0].create(a_task(account=f"a{number % 4}"), None)).id for number in range(30)}
    studio, started, running = stores[0].digest("studio"), Counter[str](), Counter[int]()

    async def work(store: DatabaseTaskStore) -> None:
        while active := await store.list_active():
            turn = await store.acquire_turn(studio, 4, TaskQueues(active).group_waiting(())[studio])
            if turn is None:
                continue
            started[turn.task.id] += 1
            running[0] += 1
            assert running[0] <= 4
            done = replace(await store.get(turn.task.id), step="done", status="completed")
            await store.finish(done, turn.lease)
            running[0] -= 1
            await turn.lease.release()
            await turn.slot.release()

    await asyncio.gather(*(work(stores[number % 3]) for number in range(6)))
    assert started == Counter(dict.fromkeys(ids, 1))


# Clocks


@pytest.mark.gen_test
async def test_the_clock_of_a_node_does_not_matter(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fast = make_store(), make_store()
    await store.open()
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 120)
        await fast.open()
        assert abs(fast.get_time() - store.get_time()) < 5
        await asyncio.sleep(2 * LEASE)
        assert await fast.acquire_lease(made.id) is None
    await store.check_lease(lease)


# Cancellation


@pytest.mark.gen_test
async def test_the_node_that_runs_a_task_sees_its_cancellation_with_the_next_renewal(make_store: MakeStore) -> None:
    store, other = make_store(), make_store()
    made = await store.create(a_task(), None)
    await leased(store, made.id)
    assert not await store.is_cancel_requested(made.id)
    await other.request_cancel(made.id)
    async with asyncio.timeout(60):
        while not await store.is_cancel_requested(made.id):
            await store.list_active()


# Outages


@pytest.mark.gen_test
async def test_while_the_database_is_away_running_tasks_wait_and_new_ones_are_refused(
    make_store: MakeStore, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = make_store(), make_store()
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    await other.list_active()
    postgres.stop()
    try:
        with pytest.raises(MediaUnavailable) as raised:
            await store.create(a_task(), None)
        assert (raised.value.status, raised.value.code) == (503, "task_database_unavailable")
        with pytest.raises(MediaUnavailable):
            await other.acquire_lease(made.id)
        assert not await store.is_cancel_requested(made.id)
        progressed = replace(made, step="running", operation={"id": "up"})
        saving = asyncio.create_task(store.save(progressed, lease))
        await asyncio.sleep(2 * LEASE)
        assert not saving.done()
        assert caplog.text.count("video tasks cannot be stored, will retry") == 2, "each store reports it once"
        assert "password" not in caplog.text
    finally:
        postgres.start()
    await saving
    assert await other.get(made.id) == progressed
    assert await other.acquire_lease(made.id) is None, "the node renews its lease first"
    await store.check_lease(lease)


@pytest.mark.gen_test
async def test_a_change_that_has_begun_is_stored_before_its_lease_is_released(
    make_store: MakeStore, postgres: PostgresServer
) -> None:
    store, other = make_store(), make_store()
    made = await store.create(a_task(), None)
    lease = await leased(store, made.id)
    started = replace(made, step="running", operation={"id": "up"})
    postgres.stop()
    try:
        saving = asyncio.create_task(store.save(started, lease))
        await asyncio.sleep(0)
        saving.cancel()
        releasing = asyncio.create_task(lease.release())
        with pytest.raises(asyncio.CancelledError):
            await saving
    finally:
        postgres.start()
    await releasing
    assert await other.get(made.id) == started
    await leased(other, made.id)


@pytest.mark.gen_test
async def test_a_database_that_does_not_respond_is_an_error_in_time(
    make_store: MakeStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CALL_SECONDS", 0.3)
    store = make_store()
    await store.count_active("acme")
    with psycopg.connect(address) as connection:
        connection.execute(b"LOCK TABLE video_tasks IN ACCESS EXCLUSIVE MODE")
        refused = await asyncio.gather(
            *(store.create(a_task(), None, "key") for _ in range(8)), store.list_active(), return_exceptions=True
        )
    assert all(isinstance(error, MediaUnavailable) for error in refused)
    made = await store.create(a_task(), None, "key")  # a call that got no response may have stored it
    assert [task.id for task in await store.list_active()] == [made.id]


@pytest.mark.gen_test
async def test_a_store_without_a_database_says_which_and_why(tmp_path: Path) -> None:
    store = DatabaseTaskStore(Database(tmp_path, f"postgresql://gate:secret@/tasks?host={tmp_path}"))
    with pytest.raises(MediaUnavailable, match="PostgreSQL database 'tasks'") as raised:
        await store.open()
    assert "secret" not in raised.value.message
    await store.close()


# Rows


@pytest.mark.gen_test
async def test_a_damaged_record_is_not_run_and_its_key_is_free(
    make_store: MakeStore, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store()
    made = await store.create(a_task(), None, "key")
    execute(address, "UPDATE video_tasks SET record = %s", encode_record(made)[:-9])
    assert await is_gone(store, made.id)
    assert f"the record of task {made.id} in the database is damaged" in caplog.text
    assert await store.acquire_lease(made.id) is None
    assert await store.list_active() == []
    assert (await store.create(a_task(), None, "key")).id != made.id


@pytest.mark.gen_test
async def test_a_record_of_a_newer_gateway_is_left_to_it(
    make_store: MakeStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    made = await store.create(a_task(), None)
    execute(address, "UPDATE video_tasks SET record = %s", encode_record(replace(made, version=record.VERSION + 1)))
    with pytest.raises(MediaUnavailable, match="newer version"):
        await store.get(made.id)
    assert await store.acquire_lease(made.id) is None
    assert [task.id for task in await store.list_active()] == [made.id]
    assert await store.list("acme", "", 9, "desc") == ((), False)


@pytest.mark.gen_test
async def test_what_dead_processes_have_left_is_swept(make_store: MakeStore, address: str) -> None:
    store = make_store()
    kept = await store.create(a_task(image={"media_type": "image/png"}), pieces(IMAGE))
    execute(address, "INSERT INTO video_images SELECT 'video_left', number, data, stored FROM video_images")
    await store.sweep(store.get_time())
    assert count_rows(address, "video_images") == 4, "the left one is young"
    execute(address, "UPDATE video_images SET stored = stored - 7200")
    await store.sweep(store.get_time())
    assert count_rows(address, "video_images") == 2
    await store.delete(kept.id)
    assert count_rows(address, "video_images") == 0


def count_rows(address: str, table: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.gen_test
async def test_a_task_deleted_while_its_image_is_read_is_an_error(make_store: MakeStore) -> None:
    store = make_store()
    made = await store.create(a_task(image={"media_type": "image/png"}), pieces(IMAGE))
    image = await store.find_image(made.id)
    assert image is not None
    await store.delete(made.id)
    with pytest.raises(MediaUnavailable):
        await image.read()


@pytest.mark.gen_test
async def test_a_scan_reads_every_task(make_store: MakeStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    store = make_store()
    made = [await store.create(a_task(account=f"a{number}"), None) for number in range(5)]
    assert [task.id async for task in store.scan()] == [task.id for task in made[::-1]]
