"""The partitions of the table `usage` in PostgreSQL: one for each month (UTC), made ahead, and dropped when it is too old.

Rows outside all months are in the partition OTHER_ROWS: rows of a wrong clock, and of a month whose partition could not be
made. So every row has a place. The partition `usage_before` has the rows of before the migration.

Every process may change partitions at any time; an advisory lock lets one at a time. Times are those of the clock of
the database, so that a node with a wrong clock drops nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.engine import Connection

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import OTHER_ROWS
from tornado_gate.ledger.rows import find_first_id
from tornado_gate.ledger.spending import find_period

MONTHS_AHEAD: Final = 3
LOCK_MILLISECONDS: Final = 200
"""The time for a lock on the table or on OTHER_ROWS. Writers of rows may wait as long; they have 450 ms."""
MOVE_MILLISECONDS: Final = 20_000
"""The time for one statement that moves rows to the partition of their month. Writers use their spool meanwhile."""
_CHANGE_LOCK: Final = 7_238_411_908
"""The number of the advisory lock of changes: any constant that no other program uses in the same database."""
_LIST: Final = text(
    "SELECT relname, pg_get_expr(relpartbound, pg_class.oid) FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid "
    "WHERE inhparent = to_regclass('usage') ORDER BY relname"
)


_UNBOUNDED: Final = "~"
"""A text after all ids."""


class Partition(NamedTuple):
    """A partition with the ids from `first` to before `end`. Without a lower bound, `first` is ""."""

    name: str
    first: str
    end: str


def list_partitions(connection: Connection) -> list[Partition]:
    """Return the partitions with bounds, oldest first: all but OTHER_ROWS."""
    parts = []
    for name, bounds in connection.execute(_LIST):
        first, has_bounds, end = str(bounds).partition(" TO ")
        if has_bounds:
            parts.append(Partition(str(name), _parse_bound(first, ""), _parse_bound(end, _UNBOUNDED)))
    return sorted(parts, key=lambda part: part.end)


def _parse_bound(words: str, default: str) -> str:
    """Return the id in a text such as FOR VALUES FROM ('0006...'); the default for MINVALUE and MAXVALUE."""
    return words.split("'")[1] if "'" in words else default


def make_months(database: Database, now: float) -> list[str]:
    """Make the partitions of this month and of MONTHS_AHEAD more which are missing. Returns their names.

    Rows of these months that are in OTHER_ROWS are moved. Raises DatabaseError; `is_lock_timeout` then says whether
    another session only has to end its statement.
    """
    made = []
    start = find_period(now).month
    for _ in range(MONTHS_AHEAD + 1):
        made += make_month(database, start)
        start = find_period(start).next_month
    return made


def make_month(database: Database, start: int) -> list[str]:
    """Make the partition of the month that begins at `start`, if it is missing. Returns its name, or nothing.

    Also returns nothing while another process changes partitions. Raises DatabaseError as `make_months` does.
    """
    month = Partition(_name_month(start), find_first_id(start), find_first_id(find_period(start).next_month))
    with database.read() as connection:
        if _overlaps(list_partitions(connection), month):
            return []
    with _change(database) as changed:
        if changed is None or _overlaps(list_partitions(changed), month):
            return []
        _make_partition(changed, month)
    return [month.name]


def drop_month(database: Database, before: str) -> str:
    """Drop the oldest partition all of whose ids are less than `before`. Returns its name, "" if there is none.

    Also returns "" while another process changes partitions. Raises DatabaseError as `make_months` does.
    """
    with database.read() as connection:
        if not _list_old(connection, before):
            return ""
    with _change(database) as changed:
        names = _list_old(changed, before) if changed is not None else []
        if changed is None or not names:
            return ""
        changed.exec_driver_sql(f'DROP TABLE "{names[0]}"')
        return names[0]


def _list_old(connection: Connection, before: str) -> list[str]:
    return [part.name for part in list_partitions(connection) if part.end <= before]


@contextmanager
def _change(database: Database) -> Iterator[Connection | None]:
    """Yield a transaction for a change; None while another process has one."""
    with database.write() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}"))
        connection.execute(text(f"SET LOCAL statement_timeout = {MOVE_MILLISECONDS}"))
        is_first = connection.execute(select(func.pg_try_advisory_xact_lock(_CHANGE_LOCK))).scalar()
        yield connection if is_first else None


def _make_partition(connection: Connection, month: Partition) -> None:
    run = connection.exec_driver_sql
    # Writers wait here. Otherwise PostgreSQL refuses a row that it was about to add to OTHER_ROWS.
    run("LOCK TABLE ONLY usage IN SHARE ROW EXCLUSIVE MODE")
    run(f"LOCK TABLE {OTHER_ROWS} IN ACCESS EXCLUSIVE MODE")
    run(f"CREATE TABLE {month.name} (LIKE usage INCLUDING ALL)")
    run(
        f"WITH moved AS (DELETE FROM {OTHER_ROWS} WHERE id >= '{month.first}' AND id < '{month.end}' RETURNING *) "
        f"INSERT INTO {month.name} SELECT * FROM moved"
    )
    run(f"ALTER TABLE usage ATTACH PARTITION {month.name} FOR VALUES FROM ('{month.first}') TO ('{month.end}')")


def _overlaps(parts: list[Partition], month: Partition) -> bool:
    return any(part.first < month.end and month.first < part.end for part in parts)


def _name_month(start: int) -> str:
    return datetime.fromtimestamp(start, UTC).strftime("usage_%Y_%m")
