"""Move the video tasks of a data directory, and the secrets of their webhooks, to the database of several nodes.

It runs at a start with `tasks: {store: database}`. A task is inserted together with a mark in the table `meta`. Then its files
are deleted, then the mark. So a start that was killed is repeated without doing anything twice, even if the task has ended and
was deleted in the database since. A task that has not ended is moved under its lease.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.progress import Progress
from tornado_gate.database.shared_rows import hash_name
from tornado_gate.database.tables import meta
from tornado_gate.database.task_tables import video_tasks, webhook_secrets
from tornado_gate.errors import NotFound
from tornado_gate.tasks.database_image import CHUNK_BYTES
from tornado_gate.tasks.database_rows import insert_image_chunk, make_row
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.record import TaskRecord
from tornado_gate.tasks.store import Lease
from tornado_gate.tasks.webhook_cipher import WebhookCipher
from tornado_gate.tasks.webhook_secrets import FILE_NAME
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

BATCH = 200
_MARK = "carried task "


class TaskInUse(Exception):
    """An error: another process runs a task of the data directory."""


class _Moved(Value, frozen=True):
    """A task with its image, and whether its cancellation was requested."""

    record: TaskRecord
    image: bytes
    cancel: bool

    @property
    def mark(self) -> str:
        return _MARK + self.record.id


def has_tasks(folder: Path) -> bool:
    """Return whether the folder of a `FileTaskStore` may have tasks."""
    return next((folder / "records").glob("*/*.json"), None) is not None


def carry_over_tasks(database: Database, folder: Path) -> None:
    """Move all tasks of a folder to the database, the oldest first. Blocks until it is done.

    Raises DatabaseError, TaskInUse, and MediaUnavailable for the disk. Readable records of a newer version, and damaged ones,
    stay.
    """
    if has_tasks(folder):
        asyncio.run(_TaskMove(database, FileTaskStore(folder)).run())


class _TaskMove:
    def __init__(self, database: Database, store: FileTaskStore) -> None:
        self._database = database
        self._store = store
        self._leases: list[Lease] = []

    async def run(self) -> None:
        await self._store.open()
        ids = [task_id for _, task_id in sorted([(task.created_ns, task.id) async for task in self._store.scan()])]
        progress = Progress("video tasks", len(ids), self._database.name)
        for first in range(0, len(ids), BATCH):
            try:
                await self._move_batch(ids[first : first + BATCH])
            finally:
                for lease in self._leases:
                    await lease.release()
                self._leases.clear()
            progress.report(min(first + BATCH, len(ids)))
        await self._store.close()

    async def _move_batch(self, ids: Sequence[str]) -> None:
        """Move tasks in their order. A transaction has at most one image."""
        moved: list[_Moved] = []
        for task_id in ids:
            with suppress(NotFound):
                task = await self._read_task(task_id)
                moved.append(task)
                if task.image:
                    await self._move(moved)
                    moved = []
        await self._move(moved)

    async def _read_task(self, task_id: str) -> _Moved:
        """Return a task. Its lease is held if it has not ended. Raises NotFound for a task that is gone."""
        if not (await self._store.get(task_id)).has_ended:
            lease = await self._store.acquire_lease(task_id)
            if lease is None:
                await self._store.get(task_id)
                raise TaskInUse(f"another process runs {task_id} of {self._store.disk.root}")
            self._leases.append(lease)
        record = await self._store.get(task_id)
        image = await self._store.find_image(task_id)
        data = await image.read() if image is not None else b""
        return _Moved(record, data, await self._store.is_cancel_requested(task_id))

    async def _move(self, moved: Sequence[_Moved]) -> None:
        if not moved:
            return
        with self._database.write() as connection:
            _insert_tasks(connection, moved)
        for task in moved:
            with suppress(NotFound):
                await self._store.delete(task.record.id)
        with self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.name.in_([task.mark for task in moved])))


def _insert_tasks(connection: Connection, moved: Sequence[_Moved]) -> None:
    """Insert the tasks that no earlier attempt has inserted, with their marks."""
    marks = select(meta.c.name).where(meta.c.name.in_([task.mark for task in moved]))
    done = set(connection.execute(marks).scalars())
    new = [task for task in moved if task.mark not in done]
    if not new:
        return
    connection.execute(insert(meta), [{"name": task.mark, "value": ""} for task in new])
    keys = [bytes.fromhex(task.record.key) for task in new if task.record.key]
    used = set(connection.execute(select(video_tasks.c.key).where(video_tasks.c.key.in_(keys))).scalars())
    rows: list[dict[str, Any]] = []
    for task in new:
        row = {**make_row(task.record), "cancel": task.cancel}
        rows.append({**row, "key": None if row["key"] in used else row["key"]})
    connection.execute(insert(video_tasks).on_conflict_do_nothing(index_elements=["id"]), rows)
    for task in new:
        for number, start in enumerate(range(0, len(task.image), CHUNK_BYTES)):
            insert_image_chunk(connection, task.record.id, number, task.image[start : start + CHUNK_BYTES])


def carry_over_webhook_secrets(database: Database, data_dir: Path, cipher: WebhookCipher) -> None:
    """Copy the secrets of accounts that have none in the database. The file is only read.

    Raises DatabaseError and WebhookSecretError.
    """
    path = data_dir / FILE_NAME
    secrets = _read_secrets(path) if path.exists() else {}
    if not secrets:
        return
    with database.write() as connection:
        owners = select(webhook_secrets.c.account).where(webhook_secrets.c.account.in_(list(secrets)))
        for owner in set(connection.execute(owners.distinct()).scalars()):
            del secrets[owner]
        for rows in secrets.values():
            for row in rows:
                seconds = row.pop("seconds")
                expires = None if seconds is None else CLOCK + seconds
                secret = cipher.encrypt(row["account"], row["secret"])
                statement = insert(webhook_secrets).values(**{**row, "secret": secret, "expires": expires})
                connection.execute(statement.on_conflict_do_nothing())
    if secrets:
        log.info("copied the webhook secrets of %d accounts from %s to %s", len(secrets), path, database.name)


def _read_secrets(path: Path) -> dict[bytes, list[dict[str, Any]]]:
    """Return the valid rows of a file by the hashes of accounts; `seconds` is the remaining time, None without an end."""
    secrets: dict[bytes, list[dict[str, Any]]] = {}
    now = time.time()
    query = "SELECT account, number, secret, expires FROM webhook_secrets WHERE expires IS NULL OR expires > ?"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            for account, number, secret, expires in source.execute(query, (now,)):
                owner = hash_name(account)
                row = {"account": owner, "number": number, "secret": secret}
                secrets.setdefault(owner, []).append({**row, "seconds": None if expires is None else expires - now})
    except sqlite3.Error as error:
        raise DatabaseError(f"the webhook secrets in {path} cannot be read: {error}. Move the file away.") from error
    return secrets
