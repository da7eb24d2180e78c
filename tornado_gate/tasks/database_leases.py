"""The leases, slots and turns in the rows of a `DatabaseTaskStore`. Synchronous; each function runs in a transaction.

A process is a *holder*: one row with a time, which it renews for all its leases and slots together. If its time has passed, the
next process that takes a lease deletes this row and releases everything of the holder, in one transaction. So a renewal is
before or after it, never in between. Each time that a lease is taken its fence increases. All times are of the database.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sqlalchemy import and_, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK, read_clock
from tornado_gate.database.shared_rows import to_lock_number
from tornado_gate.database.task_tables import video_holders, video_slots, video_tasks, video_turns
from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.database_rows import parse_record
from tornado_gate.tasks.store import ActiveTask, WaitingTasks

_PROVIDER = re.compile(r"[0-9a-f]{8}", re.ASCII)
_PROVIDER_LOCK = 7_238_413
"""The first number of the advisory locks of providers."""


class Claim(NamedTuple):
    """How a process takes leases: its holder, and whether it may take leases of processes whose time has passed."""

    holder: str
    may_take_over: bool


class SlotRow(NamedTuple):
    provider: str
    number: int
    fence: int


class TurnRow(NamedTuple):
    task: ActiveTask
    fence: int
    slot: SlotRow


class Renewal(NamedTuple):
    """The leases of a holder, by task: fence, and whether cancellation was requested. Its slots, and the time."""

    leases: dict[str, tuple[int, bool]]
    slots: set[SlotRow]
    clock: float


def renew(connection: Connection, holder: str, seconds: float) -> Renewal:
    """Renew the leases and slots of a holder for `seconds`. Return its leases and slots."""
    until = CLOCK + seconds
    row = insert(video_holders).values(id=holder, until=until)
    connection.execute(row.on_conflict_do_update(index_elements=["id"], set_={"until": until}))
    tasks = select(video_tasks.c.id, video_tasks.c.fence, video_tasks.c.cancel).where(video_tasks.c.holder == holder)
    leases = {task.id: (task.fence, task.cancel) for task in connection.execute(tasks)}
    slots = select(video_slots.c.provider, video_slots.c.number, video_slots.c.fence)
    rows = connection.execute(slots.where(video_slots.c.holder == holder))
    return Renewal(leases, {SlotRow(*slot) for slot in rows}, read_clock(connection))


def end_holder(connection: Connection, holder: str) -> None:
    """Release everything that a holder has."""
    connection.execute(delete(video_holders).where(video_holders.c.id == holder))
    _release_all(connection, [holder])


def _release_dead(connection: Connection, claim: Claim) -> None:
    """Release everything of other holders whose time has passed. A holder that is being renewed now is left alone."""
    if not claim.may_take_over:
        return
    dead = select(video_holders.c.id).where(video_holders.c.until <= CLOCK, video_holders.c.id != claim.holder)
    holders = list(connection.execute(dead.with_for_update(skip_locked=True)).scalars())
    if holders:
        _release_all(connection, holders)
        connection.execute(delete(video_holders).where(video_holders.c.id.in_(holders)))


def _release_all(connection: Connection, holders: list[str]) -> None:
    for table in (video_slots, video_tasks):
        connection.execute(update(table).where(table.c.holder.in_(holders)).values(holder=None))


def _hold_holder(connection: Connection, holder: str) -> bool:
    """Return whether the holder exists. No other process can release its leases before the end of the transaction."""
    own = select(video_holders.c.id).where(video_holders.c.id == holder)
    return connection.execute(own.with_for_update(read=True, key_share=True)).first() is not None


def claim_lease(connection: Connection, claim: Claim, task_id: str) -> int | None:
    """Return the fence of the lease of a task that has not ended; None when it is not free, or its record is not readable."""
    _release_dead(connection, claim)
    return _take_lease(connection, claim.holder, task_id) if _hold_holder(connection, claim.holder) else None


def claim_slot(connection: Connection, claim: Claim, provider: str, limit: int) -> SlotRow | None:
    """Return one of the `limit` slots of a provider, None when all are held. Raises ValueError if `provider` is no digest."""
    _release_dead(connection, claim)
    return _take_slot(connection, claim.holder, provider, limit) if _hold_holder(connection, claim.holder) else None


def claim_turn(
    connection: Connection, claim: Claim, provider: str, limit: int, waiting: WaitingTasks
) -> TurnRow | None:
    """Return the next task of a provider, with its lease and a slot; see `TaskStore.acquire_turn`."""
    _release_dead(connection, claim)
    free = video_tasks.c.active & (video_tasks.c.provider == provider) & video_tasks.c.holder.is_(None)
    free_ids = set(connection.execute(select(video_tasks.c.id).where(free)).scalars())
    if not free_ids or not _hold_holder(connection, claim.holder):
        return None
    slot = _take_slot(connection, claim.holder, provider, limit)
    if slot is None:
        return None
    turns = select(video_turns.c.account, video_turns.c.number).where(video_turns.c.provider == provider)
    last_turns = {turn.account: turn.number for turn in connection.execute(turns)}
    accounts = [account for account, tasks in waiting.items() if tasks]
    for account in sorted(accounts, key=lambda account: (last_turns.get(account, -1), waiting[account][0])):
        tasks = waiting[account]
        while tasks:
            task = tasks.popleft()
            fence = _take_lease(connection, claim.holder, task.id) if task.id in free_ids else None
            if fence is not None:
                _note_turn(connection, provider, account, max(last_turns.values(), default=0) + 1)
                return TurnRow(task, fence, slot)
    release_slot(connection, claim.holder, slot)
    return None


def _take_lease(connection: Connection, holder: str, task_id: str) -> int | None:
    free = (video_tasks.c.id == task_id, video_tasks.c.active, video_tasks.c.holder.is_(None))
    data = connection.execute(select(video_tasks.c.record).where(*free)).scalar()
    if data is None or not _is_runnable(connection, task_id, data):
        return None
    statement = update(video_tasks).where(*free).values(holder=holder, fence=video_tasks.c.fence + 1)
    fence = connection.execute(statement.returning(video_tasks.c.fence)).scalar()
    return None if fence is None else int(fence)


def _is_runnable(connection: Connection, task_id: str, data: bytes) -> bool:
    """Return whether this gateway can read the record. The task of a damaged one is not run."""
    try:
        parse_record(task_id, data)
    except MediaUnavailable:
        return False
    except NotFound:
        connection.execute(update(video_tasks).where(video_tasks.c.id == task_id).values(active=False))
        return False
    return True


def release_lease(connection: Connection, holder: str, task_id: str, fence: int) -> None:
    own = (video_tasks.c.id == task_id, video_tasks.c.holder == holder, video_tasks.c.fence == fence)
    connection.execute(update(video_tasks).where(*own).values(holder=None))


def _take_slot(connection: Connection, holder: str, provider: str, limit: int) -> SlotRow | None:
    if not _PROVIDER.fullmatch(provider):
        raise ValueError(f"{provider!r} is not the digest of a provider")
    lock = func.pg_advisory_xact_lock(_PROVIDER_LOCK, to_lock_number(bytes.fromhex(provider)))
    connection.execute(select(lock))
    held = select(video_slots.c.number).where(video_slots.c.provider == provider, video_slots.c.holder.is_not(None))
    numbers = set(connection.execute(held).scalars())
    number = next((number for number in range(limit) if number not in numbers), None)
    if number is None:
        return None
    row = insert(video_slots).values(provider=provider, number=number, holder=holder, fence=1)
    values = {"holder": holder, "fence": video_slots.c.fence + 1}
    statement = row.on_conflict_do_update(index_elements=["provider", "number"], set_=values)
    return SlotRow(provider, number, connection.execute(statement.returning(video_slots.c.fence)).scalar_one())


def release_slot(connection: Connection, holder: str, slot: SlotRow) -> None:
    own = and_(
        video_slots.c.provider == slot.provider,
        video_slots.c.number == slot.number,
        video_slots.c.holder == holder,
        video_slots.c.fence == slot.fence,
    )
    connection.execute(update(video_slots).where(own).values(holder=None))


def _note_turn(connection: Connection, provider: str, account: str, number: int) -> None:
    row = insert(video_turns).values(provider=provider, account=account, number=number)
    update_number = row.on_conflict_do_update(index_elements=["provider", "account"], set_={"number": number})
    connection.execute(update_number)
