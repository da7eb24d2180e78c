"""Copy what the SQLite file of one machine has to the PostgreSQL database of several nodes: `tornado-gate database copy`.

Accounts are copied as at a start (`database/carry_over.py`), the other tables in batches, each of them once. The plan and the
progress are in the table `meta`, under a digest of the counts and sums of the file. A file that has changed since has
another digest and is refused, because its totals would be added twice.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Final

import msgspec
from sqlalchemy import Table, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from tornado_gate.accounts.devices import SECRET_NAME
from tornado_gate.accounts.revision import bump_revision
from tornado_gate.config.model import LedgerConfig
from tornado_gate.database import tables
from tornado_gate.database.alert_tables import alert_messages, alerts
from tornado_gate.database.clock import read_clock
from tornado_gate.database.engine import Database, DatabaseError, is_lock_timeout
from tornado_gate.database.node_tables import nodes
from tornado_gate.database.opening import carry_over_accounts
from tornado_gate.database.table_copy import Copied, CopiedTable, TableCopy
from tornado_gate.database.usage_tables import OWNER_DAYS, usage
from tornado_gate.ledger.partitions import MONTHS_AHEAD, make_month
from tornado_gate.ledger.retention import find_oldest_id
from tornado_gate.ledger.rows import DAY, HOUR, find_first_id, find_moment
from tornado_gate.ledger.spending import find_period
from tornado_gate.server.control.copy_plan import (
    ACCOUNTS,
    CopyPlan,
    compare_sums,
    count_copied,
    list_rules,
    measure_compared,
    measure_file,
)
from tornado_gate.types.value import Value, replace

SAMPLE: Final = 1000
"""The number of ids of each table by which the accounts of the file are recognized in the database."""
LIVE_SECONDS: Final = 30.0
LOCK_TRIES: Final = 30
"""How often, once a second, the partition of a month is tried while other sessions use the table."""
_BEGIN_LOCK: Final = 7_238_411_909
"""The number of the advisory lock by which one copy begins at a time: no other part of the gateway uses it."""
_MARK: Final = "copy "
_META: Final = tables.meta


class CopyRefused(Exception):
    """The file is not copied to this database. The message says why, and what to do."""


class CopyResult(Value, frozen=True, kw_only=True):
    """What was copied, by the name of the table, and where the database differs from the file: nothing after a good copy.

    `done_before` is the Unix time of an earlier copy of the same file, which left nothing to do.
    """

    copied: Mapping[str, Copied]
    differences: list[str]
    done_before: float | None = None


def check_unused(source: Database) -> None:
    """Raise CopyRefused if the SQLite file is missing or another process uses it: every connection to it holds a lock."""
    path = source.path
    if not path.exists():
        raise CopyRefused(f"{path} does not exist. Name the data directory of the gateway with --data-dir.")
    try:
        address = f"{path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as file:
            file.execute("PRAGMA locking_mode = EXCLUSIVE")
            file.execute("BEGIN EXCLUSIVE")
            file.execute("ROLLBACK")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            raise CopyRefused(f"{path} is in use. Stop the gateway that uses it, then copy.") from error
        raise DatabaseError(f"{path} cannot be read: {error}") from error


def copy_database(
    source: Database, target: Database, rules: LedgerConfig, report: Callable[[str, int, int], None], *, adds: bool
) -> CopyResult:
    """Copy everything, or continue a copy that was interrupted. Both databases have the newest schema.

    `report` gets the name of a table, the number of its rows in the file, and how many were read. `adds`: the database may
    have the data of another gateway. Raises CopyRefused and DatabaseError.
    """
    with source.read() as rows:
        sums = measure_file(rows)
        mark = _MARK + hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()[:16]
        plan = _begin(source, rows, target, rules, mark, adds=adds)
        if plan.done is not None:
            return CopyResult(copied={}, differences=[], done_before=plan.done)
        carry_over_accounts(target)
        _make_months(target, rows, plan)
        copied = {}
        for rule in list_rules(plan):
            name = rule.table.name
            copied[name] = _copy_table(rule, rows, target, mark, partial(report, name, sums[name][0]))
        differences = list(_find_differences(rows, target, plan, copied))
        if not differences:
            _finish(target, plan, mark)
    return CopyResult(copied=copied, differences=differences)


def _copy_table(
    rule: CopiedTable, rows: Connection, target: Database, mark: str, report: Callable[[int], None]
) -> Copied:
    copy = TableCopy(rule, rows, target, f"{mark} {rule.table.name}")
    has_more = True
    while has_more:
        copied, has_more = copy.copy_batch()
        report(copied.read)
    return copied


# The plan


def _begin(
    source: Database, rows: Connection, target: Database, rules: LedgerConfig, mark: str, *, adds: bool
) -> CopyPlan:
    """Return the plan of the copy with this mark. It is made and stored now if there is none."""
    with target.write() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(select(func.pg_advisory_xact_lock(_BEGIN_LOCK)))
        plans = _read_plans(connection)
        if mark in plans:
            return plans[mark]
        _check_other_copies(source, rows, target, list(plans.values()))
        if not adds:
            _check_content(connection, rows, target)
        plan = _make_plan(connection, rows, rules, str(source.path))
        connection.execute(insert(_META).values(name=mark, value=msgspec.json.encode(plan).decode()))
        _make_room(connection, rows, plan)
        if plan.is_fresh:
            _copy_device_secret(connection, rows)
        return plan


def _read_plans(connection: Connection) -> dict[str, CopyPlan]:
    """Return the plans of all copies by their marks. The progress of a table has another word in its name."""
    query = select(_META).where(_META.c.name.like(f"{_MARK}%"), ~_META.c.name.like(f"{_MARK}% %"))
    return {row.name: msgspec.json.decode(row.value, type=CopyPlan) for row in connection.execute(query)}


def _make_plan(connection: Connection, rows: Connection, rules: LedgerConfig, path: str) -> CopyPlan:
    now = read_clock(connection)
    last_row = rows.execute(select(func.max(usage.c.id))).scalar() or ""
    last_bucket = rows.execute(select(func.max(OWNER_DAYS.c.bucket))).scalar() or 0
    last_day = find_period(max(last_bucket, find_moment(last_row) if last_row else 0)).day
    live = select(nodes.c.id).where(nodes.c.seen > now - LIVE_SECONDS)
    is_served = _count(connection, OWNER_DAYS) > 0 or connection.execute(live).first() is not None
    plan = CopyPlan(
        path=path,
        began=now,
        is_fresh=not any(_count(connection, table) for table in ACCOUNTS),
        has_alerts=_count(connection, alerts) > 0,
        first_row=find_oldest_id(rules, now + HOUR),  # nodes may delete rows meanwhile
        last_row=last_row,
        last_event=rows.execute(select(func.max(tables.audit.c.id))).scalar() or 0,
        first_bucket=int(now + DAY - rules.keep_totals_days * DAY),
        end_bucket=last_day if is_served else None,
        before={},
    )
    before = measure_compared(connection, plan)
    return replace(plan, before={**before, tables.audit.name: [0]})


def _make_room(connection: Connection, rows: Connection, plan: CopyPlan) -> None:
    """Number the events of the database after those of the file, so that the audit log keeps its order."""
    audit = tables.audit
    connection.execute(text("LOCK TABLE audit IN EXCLUSIVE MODE"))  # an event that is added now waits for its number
    highest = max(plan.last_event, _read_last(connection, audit))
    connection.execute(update(audit).values(id=audit.c.id + highest))
    numbers = [(audit, 2 * highest)]
    if not plan.has_alerts:
        numbers += [(table, _read_last(rows, table)) for table in (alerts, alert_messages)]
    for table, last in numbers:
        if last:
            connection.execute(select(func.setval(func.pg_get_serial_sequence(table.name, "id"), last)))


def _copy_device_secret(connection: Connection, rows: Connection) -> None:
    """Let browsers that have signed in before stay known."""
    for row in rows.execute(select(_META).where(_META.c.name == SECRET_NAME)):
        connection.execute(insert(_META).values(name=row.name, value=row.value).on_conflict_do_nothing())


def _read_last(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.max(table.c.id))).scalar() or 0)


def _finish(target: Database, plan: CopyPlan, mark: str) -> None:
    """Record that the copy is done, and let all nodes read accounts and temporary limits again."""
    with target.write() as connection:
        done = msgspec.json.encode(replace(plan, done=read_clock(connection))).decode()
        connection.execute(update(_META).where(_META.c.name == mark).values(value=done))
        connection.execute(delete(_META).where(_META.c.name.like(f"{mark} %")))
        bump_revision(connection)


# Checks


def _check_other_copies(source: Database, rows: Connection, target: Database, plans: list[CopyPlan]) -> None:
    """Raise CopyRefused if another copy is not done, or has copied an earlier state of this file."""
    for plan in plans:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(plan.began))
        if plan.done is None:
            raise CopyRefused(
                f"A copy of {plan.path} to {target.name}, begun on {when} UTC, is not done. {source.path} is another file or has "
                "changed since. Continue with the file as it was, or copy to a new database."
            )
        if plan.last_row and rows.execute(select(usage.c.id).where(usage.c.id == plan.last_row)).first():
            raise CopyRefused(
                f"{source.path} was copied to {target.name} on {when} UTC, and a gateway has used it since. Totals cannot be "
                "added twice. Copy to a new database."
            )


def _check_content(connection: Connection, rows: Connection, target: Database) -> None:
    """Raise CopyRefused if the database has data, and none of the accounts of the file."""
    checked = (*ACCOUNTS, usage, OWNER_DAYS, tables.audit)
    numbers = {table.name: number for table in checked if (number := _count(connection, table))}
    with_ids = [table for table in ACCOUNTS if "id" in table.c]
    if numbers and not any(_shares_ids(connection, rows, table) for table in with_ids):
        content = ", ".join(f"{name} {number}{'+' * (number == SAMPLE)}" for name, number in numbers.items())
        raise CopyRefused(
            f"{target.name} has data, but no account or key of the file (rows: {content}). Copy to a new database, or add the "
            "file to this one with --add."
        )


def _shares_ids(connection: Connection, rows: Connection, table: Table) -> bool:
    ids = rows.execute(select(table.c.id).order_by(table.c.id).limit(SAMPLE)).scalars().all()
    return connection.execute(select(table.c.id).where(table.c.id.in_(ids)).limit(1)).first() is not None


def _count(connection: Connection, table: Table) -> int:
    """Return the number of rows, at most SAMPLE."""
    some = select(table).limit(SAMPLE).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one())


def _find_differences(
    rows: Connection, target: Database, plan: CopyPlan, copied: Mapping[str, Copied]
) -> Iterator[str]:
    for rule in list_rules(plan):
        number, read = count_copied(rows, rule), copied[rule.table.name].read
        if read != number:
            yield f"{rule.table.name}: {number} rows must be read, but {read} were"
    with target.read() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        for table in ACCOUNTS if plan.is_fresh else ():
            ids = select(func.count()).select_from(table)
            number, seen = (int(side.execute(ids).scalar_one()) for side in (rows, connection))
            if seen < number:
                yield f"{table.name}: the file has {number} rows, but the database {seen}"
        yield from compare_sums(plan, measure_compared(rows, plan), measure_compared(connection, plan))


# Months


def _make_months(target: Database, rows: Connection, plan: CopyPlan) -> None:
    """Make the partitions of the months that have rows in the file. Rows of a wrong clock need none."""
    latest = find_period(plan.began + (MONTHS_AHEAD - 1) * 31 * DAY).next_month
    first = plan.first_row
    while (row := rows.execute(select(func.min(usage.c.id)).where(usage.c.id >= first)).scalar()) is not None:
        month = find_period(find_moment(row))
        if month.month >= latest:
            return
        _make_month(target, month.month)
        first = find_first_id(month.next_month)


def _make_month(target: Database, start: int) -> None:
    for left in reversed(range(LOCK_TRIES)):
        try:
            make_month(target, start)
        except DatabaseError as error:
            if not is_lock_timeout(error) or not left:
                raise
            time.sleep(1.0)
        else:
            return
