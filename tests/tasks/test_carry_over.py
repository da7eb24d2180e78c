"""The tasks and webhook secrets of a data directory move to the database once, whenever the start is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases import empty
from tests.tasks.test_store_contract import IMAGE, a_task, end, leased, pieces
from tornado_gate.database.engine import Database
from tornado_gate.errors import NotFound
from tornado_gate.tasks import carry_over
from tornado_gate.tasks.database_store import DatabaseTaskStore
from tornado_gate.tasks.database_webhook_secrets import DatabaseWebhookSecretStore
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.record import TaskRecord, advance
from tornado_gate.tasks.webhook_cipher import WebhookCipher
from tornado_gate.tasks.webhook_secrets import WebhookSecretStore

CIPHER = WebhookCipher({"GATE_SECRET_KEY": "k" * 32})


@pytest.fixture
def target(migrated_postgres: str, tmp_path: Path) -> Iterator[Database]:
    """The database, empty."""
    empty(migrated_postgres)
    database = Database(tmp_path, migrated_postgres)
    yield database
    database.close()


async def fill(store: FileTaskStore) -> list[TaskRecord]:
    """Create tasks: one that has ended, one with an image that is cancelled, and one that an upstream works on."""
    await store.open()
    ended = await end(store, await store.create(a_task(), None, "key-1"))
    image = {"media_type": "image/png", "filename": "fox.png"}
    cancelled = await store.create(a_task(image=image), pieces(IMAGE[:1000], IMAGE[1000:]))
    await store.request_cancel(cancelled.id)
    running = await store.create(a_task(), None)
    lease = await leased(store, running.id)
    running = advance(running, step="running", status="pending", operation={"id": "up-1"}, progress=30)
    await store.save(running, lease)
    await lease.release()
    return [ended, cancelled, running]


def move(target: Database, folder: Path) -> None:
    carry_over.carry_over_tasks(target, folder)


async def read_moved(store: DatabaseTaskStore, tasks: list[TaskRecord]) -> list[TaskRecord]:
    await store.open()
    records = [await store.get(task.id) for task in tasks]
    image = await store.find_image(tasks[1].id)
    assert image is not None
    assert await image.read() == IMAGE
    assert [await store.is_cancel_requested(task.id) for task in tasks] == [False, True, False]
    assert {task.id for task in await store.list_active()} == {tasks[1].id, tasks[2].id}
    again = await store.create(a_task(account=tasks[0].account, digest=tasks[0].digest), None, "key-1")
    assert again.id == tasks[0].id, "the idempotency key still belongs to its task"
    assert [task.id for task in (await store.list("acme", "", 10, "asc")).records] == [task.id for task in tasks]
    await store.close()
    return records


def test_tasks_move_with_their_images_keys_and_requested_cancellations(target: Database, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    tasks = asyncio.run(fill(FileTaskStore(folder)))
    move(target, folder)
    assert not carry_over.has_tasks(folder)
    assert not list((folder / "images").iterdir())
    move(target, folder)
    assert asyncio.run(read_moved(DatabaseTaskStore(target), tasks)) == tasks


@pytest.mark.qa
def test_a_move_that_was_killed_is_repeated_and_brings_no_deleted_task_back(
    target: Database, migrated_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tasks"
    tasks = asyncio.run(fill(FileTaskStore(folder)))

    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(FileTaskStore, "delete", die)  # everything is inserted that belongs to one transaction
        move(target, folder)

    async def delete(task: TaskRecord) -> None:
        store = DatabaseTaskStore(Database(tmp_path, migrated_postgres))
        await store.open()
        await store.delete(task.id)
        await store.close()

    asyncio.run(delete(tasks[1]))
    move(target, folder)

    async def list_all() -> set[str]:
        store = DatabaseTaskStore(target)
        await store.open()
        found = {task.id async for task in store.scan()}
        with pytest.raises(NotFound):
            await store.get(tasks[1].id)
        await store.close()
        return found

    assert asyncio.run(list_all()) == {tasks[0].id, tasks[2].id}
    assert not carry_over.has_tasks(folder)


def test_a_task_that_another_process_runs_stays_and_ends_the_start(target: Database, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"

    async def run() -> TaskRecord:
        store = FileTaskStore(folder)
        await store.open()
        task = await store.create(a_task(), None)
        lease = await leased(store, task.id)
        with pytest.raises(carry_over.TaskInUse, match=f"another process runs {task.id}"):
            await asyncio.to_thread(move, target, folder)
        await lease.release()
        return task

    task = asyncio.run(run())
    assert carry_over.has_tasks(folder)
    move(target, folder)
    assert not carry_over.has_tasks(folder), task.id


def test_webhook_secrets_are_copied_once_and_not_over_newer_ones(target: Database, tmp_path: Path) -> None:
    file, shared = WebhookSecretStore(tmp_path), DatabaseWebhookSecretStore(target, CIPHER)
    (old,) = file.get("acme")
    new = file.rotate("acme")
    file.get("other")
    mine = shared.rotate("other")
    file.turn_off("silent")
    for _ in range(2):
        carry_over.carry_over_webhook_secrets(target, tmp_path, CIPHER)
        assert [shared.get(account) for account in ("acme", "other", "silent")] == [(new, old), (mine,), ()]
    newest = shared.rotate("acme")
    carry_over.carry_over_webhook_secrets(target, tmp_path, CIPHER)
    assert shared.get("acme") == (newest, new, old)
