"""Processes that share a folder and are killed, each in turn at every single step that it takes on the disk."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import REPOSITORY, Child
from tests.tasks.test_store_contract import IMAGE, a_task, end, is_gone, leased
from tornado_gate.tasks import file_disk
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.queues import TaskQueues
from tornado_gate.types import replace

TASK, NEIGHBOUR = "video_" + "1" * 32, "video_" + "2" * 32
EXPIRES = 5000.0

COMMON = """
import asyncio, os, signal, sys
from aiofiles.threadpool.binary import AsyncBufferedIOBase
from tornado_gate.types import replace
from pathlib import Path
from tests.tasks.test_store_contract import IMAGE, a_task, end, pieces
from tornado_gate.tasks.file_store import FileTaskStore

base = Path(sys.argv[1])
TASK, NEIGHBOUR = "video_" + "1" * 32, "video_" + "2" * 32
EXPIRES = 5000.0
"""

KILLED = COMMON + textwrap.dedent(
    """
    def kill_at(point):
        '''From now on, end this process before its `point`-th step on the disk; a write is torn in the middle.'''
        count = 0

        def wrap(name):
            real = getattr(os, name)

            def wrapped(*arguments, **named):
                nonlocal count
                count += 1
                if count == point:
                    if name in ("write", "pwrite"):
                        real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], *arguments[2:])
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*arguments, **named)

            setattr(os, name, wrapped)

        write, write_file = os.write, AsyncBufferedIOBase.write

        async def torn(self, data):
            nonlocal count
            count += 1
            if count == point:
                write(self.fileno(), data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return await write_file(self, data)

        AsyncBufferedIOBase.write = torn
        for name in ("open", "write", "pwrite", "fsync", "rename", "unlink", "mkdir", "rmdir"):
            wrap(name)

    async def child(operation, point):
        store = FileTaskStore(base / str(point))
        await store.open()
        await store.create(a_task(id=NEIGHBOUR), None, "neighbour")
        create = lambda: store.create(a_task(id=TASK), pieces(IMAGE), "key")
        if operation == "create":
            kill_at(point)
            await create()
            return
        made = await create()
        await store.request_cancel(TASK)
        if operation == "sweep":
            await end(store, made, expires_at=EXPIRES)
            kill_at(point)
            await store.sweep(EXPIRES)
            return
        lease = await store.acquire_lease(TASK)
        kill_at(point)
        if operation == "save":
            await store.save(replace(made, step="running", progress=50), lease)
        elif operation == "ended":
            done = replace(made, step="done", status="completed", expires_at=EXPIRES)
            await store.finish(done, lease)
        elif operation == "delete":
            await store.delete(TASK)

    point = 0
    while True:
        point += 1
        pid = os.fork()
        if pid == 0:
            asyncio.run(child(sys.argv[2], point))
            os.kill(os.getpid(), signal.SIGTERM)  # it came to its end, and died a moment after
        _, status = os.waitpid(pid, 0)
        if os.WTERMSIG(status) != signal.SIGKILL:
            assert os.WTERMSIG(status) == signal.SIGTERM, status
            break
    print("points", point)
    """
)


def run(script: str, *arguments: str) -> str:
    """The output of a script in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def killed_everywhere(folder: Path, operation: str) -> Iterator[FileTaskStore]:
    """The stores that are left when a process is killed in `operation`: before each of its steps, and right after it."""
    points = int(run(KILLED, str(folder), operation).split()[1])
    assert points > 5
    for point in range(1, points + 1):
        yield FileTaskStore(folder / str(point))


@pytest.fixture(autouse=True)
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_disk, "LEFT_SECONDS", -1.0)


async def clean(store: FileTaskStore) -> None:
    """Whatever happened, nothing is left of the task, and nothing of its neighbour is lost."""
    for shard in {path.name for path in (store.disk.root / "keys").iterdir()}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tornado_gate.tasks.file_sweep.secrets.token_hex", lambda _, shard=shard: shard)
            await store.sweep(EXPIRES)
    found = [path.relative_to(store.disk.root) for path in store.disk.root.rglob("*") if path.is_file()]
    kinds = sorted(path.parts[0] for path in found if path.parts[0] != "locks")
    assert kinds == ["accounts", "active", "keys", "records"], found
    neighbour = await store.get(NEIGHBOUR)
    assert [task.id for task in await store.list_active()] == [NEIGHBOUR]
    assert (await store.list("acme", "", 9, "asc")).records == (neighbour,)
    assert await store.create(a_task(), None, "neighbour") == neighbour
    await (await leased(store, NEIGHBOUR)).release()


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_a_process_killed_while_it_makes_a_task_has_made_it_whole_or_not_at_all(tmp_path: Path) -> None:
    made: list[bool] = []
    for store in killed_everywhere(tmp_path, "create"):
        made.append(not await is_gone(store, TASK))
        listed = [record.id for record in (await store.list("acme", "", 9, "asc")).records]
        assert listed == ([NEIGHBOUR, TASK] if made[-1] else [NEIGHBOUR])
        lease = await store.acquire_lease(TASK)
        assert (lease is not None) == made[-1], "it is run exactly when it is there"
        if lease is not None:
            await lease.release()
            image = await store.find_image(TASK)
            assert image is not None
            assert await image.read() == IMAGE
        sent_again = await store.create(a_task(), None, "key")
        assert (sent_again.id == TASK) == made[-1]
        runnable = [task.id for task in await store.list_active() if await is_runnable(store, task.id)]
        assert sorted(runnable) == sorted([NEIGHBOUR, sent_again.id]), "sent twice, made once"
        await store.delete(sent_again.id)
        await clean(store)
    assert made == sorted(made), "one moment divides the two"
    assert made[-1], "what was answered for is there"
    assert not made[0]


async def is_runnable(store: FileTaskStore, task_id: str) -> bool:
    lease = await store.acquire_lease(task_id)
    if lease is not None:
        await lease.release()
    return lease is not None


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_a_process_killed_while_it_saves_leaves_the_old_record_or_the_new(tmp_path: Path) -> None:
    seen: list[int] = []
    for store in killed_everywhere(tmp_path, "save"):
        record = await store.get(TASK)
        seen.append(record.progress)
        lease = await leased(store, TASK)
        await store.save(replace(record, progress=60), lease)
        await lease.release()
        assert (await store.get(TASK)).progress == 60
        await store.delete(TASK)
        await clean(store)
    assert seen == sorted(seen)
    assert set(seen) == {0, 50}


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_a_process_killed_while_a_task_ends_leaves_it_to_be_ended_by_another(tmp_path: Path) -> None:
    ended: list[bool] = []
    for store in killed_everywhere(tmp_path, "ended"):
        record = await store.get(TASK)
        ended.append(record.has_ended)
        active = TASK in {task.id for task in await store.list_active()}
        assert active or record.has_ended, "what has not ended is still to be run"
        if not record.has_ended:
            assert await store.sweep(EXPIRES + 9000) == [], "a date alone takes nothing away"
        if active:
            await end(store, record, expires_at=EXPIRES)
        assert not await is_runnable(store, TASK)
        assert not await store.is_cancel_requested(TASK) or not active
        assert await store.sweep(EXPIRES) == [TASK]
        await clean(store)
    assert ended == sorted(ended)
    assert set(ended) == {False, True}


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_a_process_killed_while_it_deletes_leaves_a_task_that_can_be_deleted_or_none(tmp_path: Path) -> None:
    gone: list[bool] = []
    for store in killed_everywhere(tmp_path, "delete"):
        gone.append(await is_gone(store, TASK))
        assert await is_runnable(store, TASK) != gone[-1]
        if not gone[-1]:
            await store.delete(TASK)
        await clean(store)
    assert gone == sorted(gone)
    assert set(gone) == {False, True}


@pytest.mark.qa
@pytest.mark.gen_test(timeout=50)
async def test_a_process_killed_while_it_sweeps_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    for store in killed_everywhere(tmp_path, "sweep"):
        await store.sweep(EXPIRES)
        assert await is_gone(store, TASK)
        await clean(store)


# Several at once


HOLDER = COMMON + textwrap.dedent(
    """
    async def main():
        store = FileTaskStore(base)
        held = await store.acquire_lease(TASK), await store.acquire_slot(store.digest("studio"), 1)
        assert all(held)
        print("held", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())
    """
)


@pytest.mark.gen_test(timeout=50)
async def test_a_lease_and_a_slot_end_with_their_process_at_once(tmp_path: Path) -> None:
    store = FileTaskStore(tmp_path)
    await store.create(a_task(id=TASK), None)
    child = Child([sys.executable, "-c", HOLDER, str(tmp_path)])
    child.wait_for_line("held")
    assert await store.acquire_lease(TASK) is None
    assert await store.acquire_slot(store.digest("studio"), 1) is None
    child.kill()
    await (await leased(store, TASK)).release()
    slot = await store.acquire_slot(store.digest("studio"), 1)
    assert slot is not None
    await slot.release()


FORKED = COMMON + textwrap.dedent(
    """
    def forked(number, work):
        '''Run `work(index)` in so many processes at the same time; all of them begin when the last is there.'''
        starts, start = os.pipe()
        for index in range(number):
            if os.fork() == 0:
                os.close(start)
                os.read(starts, 1)
                asyncio.run(work(index))
                sys.stdout.flush()
                os._exit(0)
        os.close(starts)
        os.close(start)
        for _ in range(number):
            os.wait()
    """
)

SAME_KEYS = FORKED + textwrap.dedent(
    """
    async def work(index):
        store = FileTaskStore(base)
        for number in range(30):
            made = await store.create(a_task(), None, f"key-{number}")
            os.write(1, f"{number} {made.id}\\n".encode())

    forked(4, work)
    """
)


@pytest.mark.gen_test(timeout=50)
async def test_processes_that_come_with_the_same_keys_at_once_make_each_task_once(tmp_path: Path) -> None:
    lines = run(SAME_KEYS, str(tmp_path)).splitlines()
    assert len(lines) == 4 * 30
    assert len(set(lines)) == 30
    store = FileTaskStore(tmp_path)
    assert {task.id for task in await store.list_active()} == {line.split()[1] for line in lines}
    assert len((await store.list("acme", "", 100, "asc")).records) == 30


SLOTS = FORKED + textwrap.dedent(
    """
    counted, count = os.pipe()
    all_counted, done = os.pipe()

    async def work(index):
        store = FileTaskStore(base)
        held = [slot for slot in [await store.acquire_slot(store.digest("studio"), 5) for _ in range(3)] if slot]
        os.write(count, bytes([len(held)]))
        os.read(all_counted, 1)  # ends when nobody can write any more: all keep what they have until then

    if os.fork() == 0:
        print(sum(os.read(counted, 1)[0] for _ in range(6)), flush=True)
        os._exit(0)
    if os.fork() == 0:
        os.close(done)
        forked(6, work)
        os._exit(0)
    os.wait()
    os.close(done)
    os.wait()
    """
)


def test_slots_are_exact_over_processes(tmp_path: Path) -> None:
    assert run(SLOTS, str(tmp_path)).split() == ["5"]


RUNNERS = FORKED + textwrap.dedent(
    """
    async def work(index):
        store = FileTaskStore(base)
        ran = 0
        while tasks := await store.list_active():
            for task in tasks:
                lease = await store.acquire_lease(task.id)
                if lease is None:
                    continue
                record = await store.get(task.id)
                record = replace(record, polls=record.polls + 1)
                await store.save(record, lease)
                ran += 1
                if index == 0 and ran == 3:
                    os.kill(os.getpid(), signal.SIGKILL)
                done = replace(record, step="done", status="completed", expires_at=EXPIRES)
                await store.finish(done, lease)
                await lease.release()

    forked(4, work)
    """
)


@pytest.mark.gen_test(timeout=50)
async def test_each_task_is_run_by_one_process_and_taken_over_from_one_that_is_killed(tmp_path: Path) -> None:
    store = FileTaskStore(tmp_path)
    made = [await store.create(a_task(), None) for _ in range(60)]
    run(RUNNERS, str(tmp_path))
    records = [await store.get(record.id) for record in made]
    assert all(record.has_ended for record in records)
    assert [record.polls for record in records].count(1) >= 59
    assert max(record.polls for record in records) <= 2
    assert await store.list_active() == []
    assert len(await store.sweep(time.time())) == 60


LIMITED = COMMON + textwrap.dedent(
    """
    from tornado_gate.errors import RateLimited

    async def child():
        store = FileTaskStore(base)
        await store.open()
        print("ready", flush=True)
        while not (base / "go").exists():
            await asyncio.sleep(0.001)

        async def create():
            try:
                await store.create(a_task(), None, limit=10)
                return 1
            except RateLimited:
                return 0

        print("made", sum(await asyncio.gather(*(create() for _ in range(20)))), flush=True)

    asyncio.run(child())
    """
)


@pytest.mark.qa
def test_processes_that_create_tasks_at_once_keep_the_limit_of_an_account_together(tmp_path: Path) -> None:
    children = [Child([sys.executable, "-c", LIMITED, str(tmp_path)]) for _ in range(3)]
    for child in children:
        child.wait_for_line("ready")
    (tmp_path / "go").touch()
    made = [int(child.wait_for_line(r"made (\d+)")[1]) for child in children]
    for child in children:
        child.process.wait()
        child.stop()
    assert sum(made) == 10


@pytest.mark.qa
@pytest.mark.gen_test(timeout=60)
async def test_a_process_that_is_killed_while_it_creates_a_task_keeps_no_place_of_its_account(tmp_path: Path) -> None:
    for store in killed_everywhere(tmp_path, "create"):
        turns = []
        queues = TaskQueues(await store.list_active())
        for provider, waiting in queues.group_waiting(()).items():
            while (turn := await store.acquire_turn(provider, 5, waiting)) is not None:
                turns.append(turn.task.id)
        assert await store.count_active("acme") == len(turns), "every place is that of a task that runs"
        assert NEIGHBOUR in turns
