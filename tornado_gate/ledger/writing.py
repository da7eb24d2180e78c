"""Writes rows and their totals in one transaction. A row that the database has already changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import Table, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import COUNTERS, ERROR_OUTCOMES, TOTALS, usage
from tornado_gate.ledger.rows import DAY, HOUR

COLUMNS: Final = tuple(column.name for column in usage.columns)
"""The order of values in a stored row."""

StoredRow = tuple[Any, ...]
"""The values of a row of the table `usage`, in the order of COLUMNS."""

_INDEX: Final = {name: index for index, name in enumerate(COLUMNS)}
_ID, _TAGS, _OUTCOME = (_INDEX[name] for name in ("id", "tags", "outcome"))
COST: Final = _INDEX["cost"]
"""The place of the cost in a stored row."""
_DIMENSIONS: Final = {
    key: tuple(_INDEX[column.name] for column in table.primary_key.columns if column.name not in ("bucket", "tag"))
    for key, table in TOTALS.items()
}
_SUMMED: Final = tuple(_INDEX[name] for name in COUNTERS[2:-2])
_LONG_WRITES: Final = _INDEX["cache_write_1h_tokens"]
_CACHE_WRITES: Final = COUNTERS.index("cache_write_tokens")
_SECONDS: Final = {"hours": HOUR, "days": DAY}

_INSERT_FAST: Final = str(insert(usage).compile(dialect=sqlite.dialect(), column_keys=list(COLUMNS)))


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
            _INSERT_FAST, list(rows)
        )  # one statement for each row, without SQLAlchemy's cost for each
        return rows
    build: Any = sqlite.insert if dialect == "sqlite" else postgresql.insert
    statement = build(usage).on_conflict_do_nothing().returning(usage.c.id)
    unique = {row[_ID]: row for row in rows}
    values = [dict(zip(COLUMNS, row, strict=True)) for row in unique.values()]
    return [unique[identity] for (identity,) in connection.execute(statement, values)]


def _add_totals(connection: Connection, dialect: str, rows: Sequence[StoredRow]) -> None:
    for key, table in TOTALS.items():
        sums = _sum_rows(rows, key)
        if sums:
            connection.execute(_STATEMENTS[dialect, table.name], _make_parameters(table, sums))


def _sum_rows(rows: Iterable[StoredRow], key: tuple[str, bool, bool]) -> dict[tuple[Any, ...], list[Any]]:
    """The sums of `rows` by bucket and dimensions, as `TOTALS[key]` has them."""
    seconds, tagged, chosen = _SECONDS[key[0]], key[1], _DIMENSIONS[key]
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        if tagged and row[_TAGS] == "[]":
            continue
        bucket = int(row[_ID][:14], 16) // (seconds * 1_000_000) * seconds
        dimensions = tuple([row[index] for index in chosen])
        for tag in orjson.loads(row[_TAGS]) if tagged else (None,):
            group = (bucket, tag, *dimensions) if tagged else (bucket, *dimensions)
            found = sums.get(group)
            if found is None:
                found = sums[group] = [0] * len(COUNTERS)
            _add(found, row)
    return sums


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


def _make_parameters(table: Table, sums: dict[tuple[Any, ...], list[Any]]) -> list[dict[str, Any]]:
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
