"""Writes rows and their totals in one transaction. A row that the database has already changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import orjson
from sqlalchemy import Table, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import (
    ALL_DIMENSIONS,
    COUNTERS,
    ERROR_OUTCOMES,
    SHARED_DIMENSIONS,
    TOTALS,
    usage,
)
from tornado_gate.ledger.rows import DAY, HOUR

COLUMNS: Final = tuple(column.name for column in usage.columns)
"""The order of values in a stored row."""

StoredRow = tuple[Any, ...]
"""The values of a row of the table `usage`, in the order of COLUMNS."""

Sums = dict[tuple[Any, ...], list[Any]]
"""Values of COUNTERS by bucket and dimensions."""

_INDEX: Final = {name: index for index, name in enumerate(COLUMNS)}
_ID, _TAGS, _OUTCOME = (_INDEX[name] for name in ("id", "tags", "outcome"))
COST: Final = _INDEX["cost"]
"""The place of the cost in a stored row."""
_get_dimensions: Final = itemgetter(*(_INDEX[name] for name in ALL_DIMENSIONS))
_OWNERS: Final = len(ALL_DIMENSIONS) - len(SHARED_DIMENSIONS)
_HOUR_MICROSECONDS: Final = HOUR * 1_000_000
_SUMMED: Final = tuple(_INDEX[name] for name in COUNTERS[2:-2])
_LONG_WRITES: Final = _INDEX["cache_write_1h_tokens"]
_CACHE_WRITES: Final = COUNTERS.index("cache_write_tokens")
_SECONDS: Final = {"hours": HOUR, "days": DAY}

FAST_INSERT: Final = str(insert(usage).compile(dialect=sqlite.dialect(), column_keys=list(COLUMNS)))
"""The statement for a row in SQLite, with its values in the order of COLUMNS."""


def write_rows(database: Database, rows: Sequence[StoredRow], *, may_repeat: bool) -> int:
    """Insert the rows that are new, and add them to the totals; return their number. Raises DatabaseError: nothing is changed.

    `may_repeat`: a row of `rows` may be in the database.
    """
    with database.write() as connection:
        new = _insert(connection, database.dialect, rows, may_repeat=may_repeat)
        _add_totals(connection, database.dialect, new)
    return len(new)


def _insert(
    connection: Connection, dialect: str, rows: Sequence[StoredRow], *, may_repeat: bool
) -> Sequence[StoredRow]:
    if dialect == "sqlite" and not may_repeat:
        connection.exec_driver_sql(
            FAST_INSERT, list(rows)
        )  # one statement for each row, without SQLAlchemy's cost for each
        return rows
    build: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = build(usage).on_conflict_do_nothing().returning(usage.c.id)
    unique = {row[_ID]: row for row in rows}
    values = [dict(zip(COLUMNS, row, strict=True)) for row in unique.values()]
    return [unique[identity] for (identity,) in connection.execute(statement, values)]


def _add_totals(connection: Connection, dialect: str, rows: Sequence[StoredRow]) -> None:
    for tagged in (False, True):
        by_hour = _sum_rows(rows, tagged=tagged)
        if not by_hour:
            continue
        for span in ("hours", "days"):
            for keyed in (True, False):
                table = TOTALS[span, tagged, keyed]
                sums = _combine(by_hour, _SECONDS[span], tagged=tagged, keyed=keyed)
                connection.execute(_STATEMENTS[dialect, table.name], _make_parameters(table, sums))


def _sum_rows(rows: Iterable[StoredRow], *, tagged: bool) -> Sums:
    """The sums of `rows` by hour and all dimensions; with `tagged` by hour, tag and all dimensions, of rows that have tags."""
    sums: Sums = {}
    for row in rows:
        bucket = int(row[_ID][:14], 16) // _HOUR_MICROSECONDS * HOUR
        dimensions = _get_dimensions(row)
        if tagged:
            for tag in orjson.loads(row[_TAGS]) if row[_TAGS] != "[]" else ():
                _add(sums.setdefault((bucket, tag, *dimensions), [0] * len(COUNTERS)), row)
            continue
        found = sums.get((bucket, *dimensions))
        if found is None:
            found = sums[bucket, *dimensions] = [0] * len(COUNTERS)
        _add(found, row)
    return sums


def _combine(by_hour: Sums, seconds: int, *, tagged: bool, keyed: bool) -> Sums:
    """The sums by a longer time, or without key and user."""
    if keyed and seconds == HOUR:
        return by_hour
    first = 2 if tagged else 1
    combined: Sums = {}
    for group, sums in by_hour.items():
        bucket = group[0] // seconds * seconds
        rest = group[1:] if keyed else group[1:first] + group[first + _OWNERS :]
        known = combined.get((bucket, *rest))
        combined[bucket, *rest] = (
            sums if known is None else [one + other for one, other in zip(known, sums, strict=True)]
        )
    return combined


def _add(found: list[Any], row: StoredRow) -> None:
    found[0] += 1
    found[1] += row[_OUTCOME] in ERROR_OUTCOMES
    for place, index in enumerate(_SUMMED, 2):
        found[place] += row[index] or 0
    found[_CACHE_WRITES] += row[_LONG_WRITES] or 0
    cost = row[COST]
    if cost is None:
        found[-1] += 1
    else:
        found[-2] += cost


def _make_parameters(table: Table, sums: Sums) -> list[dict[str, Any]]:
    names = [column.name for column in table.columns]
    # In one order in every process, so that two of them never wait for each other's rows.
    return [dict(zip(names, (*group, *sums[group]), strict=True)) for group in sorted(sums)]


def _make_upsert(dialect: str, table: Table) -> Any:
    build: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = build(table)
    added = {name: table.c[name] + statement.excluded[name] for name in COUNTERS}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=added)


_STATEMENTS: Final = {
    (dialect, table.name): _make_upsert(dialect, table)
    for dialect in ("sqlite", "postgresql")
    for table in TOTALS.values()
}
