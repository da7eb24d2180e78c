"""The rows of a `DatabaseTaskStore`: records, idempotency keys, images, requested cancellations.

The functions are synchronous. Each runs in a transaction of its caller, on a PostgreSQL database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sqlalchemy import delete, exists, func, insert, select, update
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK, read_clock
from tornado_gate.database.shared_rows import hash_name, to_lock_number
from tornado_gate.database.task_tables import video_images, video_tasks, video_turns
from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.record import ID, RecordDamaged, RecordNewer, TaskRecord, decode_record, encode_record
from tornado_gate.tasks.store import (
    MAX_SEARCHED,
    ActiveTask,
    ActiveTasks,
    LeaseLost,
    TaskIds,
    TaskPage,
    TaskSearch,
    compute_digest,
    key_conflict_error,
    newer_record_error,
    task_not_found_error,
    too_many_tasks_error,
    unknown_after_error,
)

log = logging.getLogger(__name__)

BATCH = 200
IMAGE_SECONDS = 3600.0
"""Age from which an image without an active task counts as abandoned: its task may not have been stored yet."""
MAX_TURNS = 1000
"""The number of turns of a provider that are stored. An account with an older turn counts as an account without a turn."""
_ACCOUNT_LOCK = 7_238_412
"""The first number of the advisory locks of accounts: any constant that no other program uses in the same database."""


def parse_record(task_id: str, data: bytes) -> TaskRecord:
    """Return a record. Raises NotFound for a damaged one, which is logged, and MediaUnavailable for one of a newer gateway."""
    try:
        return decode_record(data)
    except RecordNewer as error:
        log.error("task %s cannot be used: %s. Upgrade this gateway.", task_id, error)
        raise newer_record_error() from error
    except RecordDamaged as error:
        log.error("the record of task %s in the database is damaged, %s. Its task is lost.", task_id, error)
        raise task_not_found_error() from None


# Creating


def create_task(connection: Connection, record: TaskRecord, limit: int | None) -> TaskRecord:
    """Insert a task under a lock of its account, or return the task that has its idempotency key."""
    account = hash_name(record.account)
    connection.execute(select(func.pg_advisory_xact_lock(_ACCOUNT_LOCK, to_lock_number(account))))
    if (earlier := find_earlier(connection, record)) is not None:
        return earlier
    if limit is not None and count_active(connection, record.account) >= limit:
        raise too_many_tasks_error(limit)
    connection.execute(insert(video_tasks), make_row(record))
    return record


def make_row(record: TaskRecord) -> dict[str, Any]:
    """Return the row of a task that nobody runs."""
    return {
        "id": record.id,
        "account": hash_name(record.account),
        "provider": compute_digest(record.provider),
        "created": record.created_ns,
        "record": encode_record(record),
        "active": not record.has_ended,
        "expires": record.expires_at if record.has_ended else None,
        "key": bytes.fromhex(record.key) or None,
        "cancel": False,
        "fence": 0,
    }


def find_earlier(connection: Connection, record: TaskRecord) -> TaskRecord | None:
    """Return the task that the account has created with this key. Raises TaskConflict when its digest differs."""
    if not record.key:
        return None
    columns = select(video_tasks.c.id, video_tasks.c.record)
    row = connection.execute(columns.where(video_tasks.c.key == bytes.fromhex(record.key))).first()
    if row is None:
        return None
    try:
        earlier = parse_record(row.id, row.record)
    except NotFound:  # it is damaged: the key is free again
        connection.execute(update(video_tasks).where(video_tasks.c.id == row.id).values(key=None))
        return None
    if earlier.digest != record.digest:
        raise key_conflict_error()
    return earlier


# One task


def get_record(connection: Connection, task_id: str) -> TaskRecord:
    data = connection.execute(select(video_tasks.c.record).where(video_tasks.c.id == task_id)).scalar()
    if data is None:
        raise task_not_found_error()
    return parse_record(task_id, data)


def replace_record(connection: Connection, record: TaskRecord, holder: str, fence: int) -> None:
    """Replace a record, under the lease with this number. Raises LeaseLost and NotFound."""
    values: dict[str, Any] = {"record": encode_record(record)}
    if record.has_ended:
        values |= {"active": False, "cancel": False, "expires": record.expires_at}
        delete_image(connection, record.id)
    own = (video_tasks.c.id == record.id, video_tasks.c.holder == holder, video_tasks.c.fence == fence)
    if connection.execute(update(video_tasks).where(*own).values(values)).rowcount:
        return
    if connection.execute(select(exists().where(video_tasks.c.id == record.id))).scalar():
        raise LeaseLost(f"{record.id} was taken by another process")
    raise task_not_found_error()


def delete_task(connection: Connection, task_id: str) -> None:
    if not connection.execute(delete(video_tasks).where(video_tasks.c.id == task_id)).rowcount:
        raise task_not_found_error()
    delete_image(connection, task_id)


def request_cancel(connection: Connection, task_id: str) -> None:
    active = (video_tasks.c.id == task_id, video_tasks.c.active)
    if not connection.execute(update(video_tasks).where(*active).values(cancel=True)).rowcount:
        get_record(connection, task_id)


def is_cancel_requested(connection: Connection, task_id: str) -> bool:
    return bool(connection.execute(select(video_tasks.c.cancel).where(video_tasks.c.id == task_id)).scalar())


# Images


def insert_image_chunk(connection: Connection, task_id: str, number: int, data: bytes) -> None:
    row = {"task": task_id, "number": number, "data": data, "stored": CLOCK}
    connection.execute(insert(video_images).values(row))


def read_image_chunk(connection: Connection, task_id: str, number: int) -> bytes:
    """Return a chunk of an image, b"" after the last one."""
    own = (video_images.c.task == task_id, video_images.c.number == number)
    return bytes(connection.execute(select(video_images.c.data).where(*own)).scalar() or b"")


def delete_image(connection: Connection, task_id: str) -> None:
    connection.execute(delete(video_images).where(video_images.c.task == task_id))


def delete_image_without_task(connection: Connection, task_id: str) -> None:
    """Delete an image, unless its task was stored although its caller got an error."""
    has_task = exists().where(video_tasks.c.id == task_id)
    connection.execute(delete(video_images).where(video_images.c.task == task_id, ~has_task))


# Many tasks


def list_active(connection: Connection) -> tuple[ActiveTasks, float]:
    """Return the tasks that have not ended, oldest first, and the time by the clock of the database."""
    columns = select(video_tasks.c.created, video_tasks.c.provider, video_tasks.c.account, video_tasks.c.id)
    rows = connection.execute(columns.where(video_tasks.c.active)).all()
    active = [ActiveTask(row.created, row.provider, row.account[:4].hex(), row.id) for row in rows]
    return sorted(active), read_clock(connection)


def count_active(connection: Connection, account: str) -> int:
    own = (video_tasks.c.account == hash_name(account), video_tasks.c.active)
    return int(connection.execute(select(func.count()).select_from(video_tasks).where(*own)).scalar_one())


def read_page(connection: Connection, account: str, after: str, limit: int, newest_first: bool) -> TaskPage:
    own = video_tasks.c.account == hash_name(account)
    number = video_tasks.c.number
    query = select(video_tasks.c.id, video_tasks.c.record).where(own)
    if after:
        last = _find_number(connection, after, own)
        query = query.where(number < last if newest_first else number > last)
    rows = connection.execute(query.order_by(number.desc() if newest_first else number).limit(limit + 1)).all()
    return TaskPage(tuple(_parse_readable(rows[:limit])), len(rows) > limit)


def search(connection: Connection, after: str, limit: int, accepts: Callable[[TaskRecord], bool]) -> TaskSearch:
    last = _find_number(connection, after) if after else None
    matches: list[TaskRecord] = []
    last_id, searched = "", 0
    for row in _iterate_newest(connection, last):
        if searched == MAX_SEARCHED:
            return TaskSearch(tuple(matches), last_id)
        for record in _parse_readable([row]):
            if accepts(record):
                if len(matches) == limit:
                    return TaskSearch(tuple(matches), last_id)
                matches.append(record)
        last_id, searched = row.id, searched + 1
    return TaskSearch(tuple(matches), "")


def read_batch(connection: Connection, last: int | None) -> tuple[list[TaskRecord], int | None]:
    """Return a batch of records that are older than the number `last`, and the number of its last one, None at the end."""
    rows = _read_rows_before(connection, last)
    return list(_parse_readable(rows)), rows[-1].number if rows else None


def _find_number(connection: Connection, task_id: str, *conditions: Any) -> int:
    """Return the number of the task after which a list begins. Raises InvalidField without such a task."""
    number = None
    if ID.fullmatch(task_id):
        where = (video_tasks.c.id == task_id, *conditions)
        number = connection.execute(select(video_tasks.c.number).where(*where)).scalar()
    if number is None:
        raise unknown_after_error()
    return int(number)


def _iterate_newest(connection: Connection, last: int | None) -> Iterator[Any]:
    while rows := _read_rows_before(connection, last):
        yield from rows
        last = rows[-1].number


def _read_rows_before(connection: Connection, last: int | None) -> list[Any]:
    query = select(video_tasks.c.number, video_tasks.c.id, video_tasks.c.record)
    query = query if last is None else query.where(video_tasks.c.number < last)
    return list(connection.execute(query.order_by(video_tasks.c.number.desc()).limit(BATCH)).all())


def _parse_readable(rows: Iterable[Any]) -> Iterator[TaskRecord]:
    for row in rows:
        try:
            yield parse_record(row.id, row.record)
        except (NotFound, MediaUnavailable):
            continue


# The sweep


def delete_expired(connection: Connection, now: float) -> TaskIds:
    """Delete a batch of tasks that have ended and expired at `now`, and return their ids. Other processes may do the same."""
    due = select(video_tasks.c.number).where(video_tasks.c.expires <= now, ~video_tasks.c.active)
    batch = due.limit(BATCH).with_for_update(skip_locked=True)
    gone = delete(video_tasks).where(video_tasks.c.number.in_(batch)).returning(video_tasks.c.id)
    return list(connection.execute(gone).scalars())


def delete_leftovers(connection: Connection) -> None:
    """Delete images without an active task, and the oldest turns."""
    active = select(video_tasks.c.id).where(video_tasks.c.active)
    is_left = video_images.c.stored < CLOCK - IMAGE_SECONDS
    connection.execute(delete(video_images).where(is_left, video_images.c.task.not_in(active)))
    same = video_turns.alias()
    newest = select(func.max(same.c.number)).where(same.c.provider == video_turns.c.provider).scalar_subquery()
    connection.execute(delete(video_turns).where(video_turns.c.number <= newest - MAX_TURNS))
