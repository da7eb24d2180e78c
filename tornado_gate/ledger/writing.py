"""Write rows and their totals in one transaction. A row that the database has already changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import chain
from operator import is_, itemgetter
from typing import Any, Final

import orjson
from sqlalchemy import Table
from sqlalchemy.engine import Connection

from tornado_gate.database.bulk import copy_rows
from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import (
    ALL_DIMENSIONS,
    ALL_TOTALS,
    COUNTERS,
    ERROR_OUTCOMES,
    OWNER_DAYS,
    OWNER_DIMENSIONS,
    SHARED_DIMENSIONS,
    TOTALS,
    USER_DAYS,
    usage,
)
from tornado_gate.ledger.made import counts_as_request
from tornado_gate.ledger.rows import DAY, HOUR, find_first_id

COLUMNS: Final = tuple(column.name for column in usage.columns)
"""The order of values in a stored row."""

StoredRow = tuple[Any, ...]
"""The values of a row of the table `usage`, in the order of COLUMNS."""

Sums = dict[tuple[Any, ...], list[Any]]
"""Values of COUNTERS by bucket and dimensions."""

_INDEX: Final = {name: index for index, name in enumerate(COLUMNS)}
_ID, _TAGS, _OUTCOME = (_INDEX[name] for name in ("id", "tags", "outcome"))
COST: Final = _INDEX["cost"]
"""The index of the cost in a stored row."""
_NULLABLE: Final = tuple(column.name for column in usage.columns if column.nullable)
_NONES: Final = (None,) * len(_NULLABLE)
_get_nullable: Final = itemgetter(*(_INDEX[name] for name in _NULLABLE))
_DIMENSIONS: Final = slice(_INDEX[ALL_DIMENSIONS[0]], _INDEX[ALL_DIMENSIONS[-1]] + 1)
"""ALL_DIMENSIONS are adjacent columns in this order; a slice takes half the time of an `itemgetter`."""
assert COLUMNS[_DIMENSIONS] == ALL_DIMENSIONS
_SUMMED: Final = [_INDEX[name] for name in COUNTERS[2:-2]]
_LONG_WRITES: Final = _INDEX["cache_write_1h_tokens"]
_CACHE_WRITES: Final = COUNTERS.index("cache_write_tokens")
_SECONDS: Final = {"hours": HOUR, "days": DAY}
_OWNERS: Final = itemgetter(0, *(1 + ALL_DIMENSIONS.index(name) for name in OWNER_DIMENSIONS))
_USERS: Final = itemgetter(0, *(1 + ALL_DIMENSIONS.index(name) for name in ("user", *SHARED_DIMENSIONS)))
_SHARED: Final = itemgetter(0, *(1 + ALL_DIMENSIONS.index(name) for name in SHARED_DIMENSIONS))
_TAGGED_SHARED: Final = itemgetter(0, 1, *(2 + ALL_DIMENSIONS.index(name) for name in SHARED_DIMENSIONS))
_COUNTED_BY: Final = itemgetter(*(1 + ALL_DIMENSIONS.index(name) for name in ("operation", "model", "status")))
_is_error: Final = frozenset(ERROR_OUTCOMES).__contains__


class Inserts:
    """A statement that inserts many rows together. Each statement lets another thread take the interpreter lock.

    While the event loop wants the lock, this exchange takes longer than the insertion of a row. The numbers of rows are
    fixed, so that each statement is prepared once.
    """

    SIZES: Final = (100, 10)

    def __init__(self, table: Table, names: Sequence[str], addition: str = "") -> None:
        begin = f"INSERT INTO {table.name} ({_quote_names(names)}) VALUES "
        places = f"({', '.join('?' * len(names))})"
        self._one = f"{begin}{places}{addition}"
        self._many = {size: f"{begin}{', '.join([places] * size)}{addition}" for size in self.SIZES}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert rows, each with a value for every name."""
        if connection.dialect.name != "sqlite":
            connection.exec_driver_sql(self._one.replace("?", "%s"), list(rows))
            return
        begin = 0
        for size, statement in self._many.items():
            while len(rows) - begin >= size:
                connection.exec_driver_sql(statement, tuple(chain.from_iterable(rows[begin : begin + size])))
                begin += size
        if begin < len(rows):
            connection.exec_driver_sql(self._one, list(rows[begin:]))


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _make_additions(table: Table) -> Inserts:
    """Return inserts that add to the counters of existing rows."""
    added = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in COUNTERS)
    key = _quote_names(column.name for column in table.primary_key.columns)
    names = [column.name for column in table.columns]
    return Inserts(table, names, f" ON CONFLICT ({key}) DO UPDATE SET {added}")


_COPY: Final = f"COPY usage ({_quote_names(COLUMNS)}) FROM STDIN"
_ADDITIONS: Final = {table.name: _make_additions(table) for table in ALL_TOTALS}


def write_rows(database: Database, rows: Sequence[StoredRow], *, may_repeat: bool) -> int:
    """Insert the new rows, and add them to the totals. Returns the number of new rows. Raises DatabaseError, and
    then leaves the database unchanged.

    `may_repeat`: a row of `rows` may be in the database. Raises IntegrityError if `may_repeat` is false and a row is in
    the database.
    """
    with database.write() as connection:
        if may_repeat:
            rows = _insert_new(connection, database.dialect, rows)
        else:
            insert_rows(connection, rows)
        if rows:
            _add_totals(connection, rows)
    return len(rows)


def insert_rows(connection: Connection, rows: Sequence[StoredRow]) -> None:
    """Insert the rows that the database does not have, without their totals."""
    if connection.dialect.name != "sqlite":
        copy_rows(connection, _COPY, rows)
        return
    # Python's driver looks for an adapter for each None, which takes 0.4 µs. Most rows have several.
    groups: dict[tuple[bool, ...], list[StoredRow]] = {}
    for row in rows:
        groups.setdefault(tuple(map(is_, _get_nullable(row), _NONES)), []).append(row)
    for unknown, members in groups.items():
        inserts, select = _prepare_inserts(unknown)
        inserts.run(connection, list(map(select, members)))


@lru_cache(128)
def _prepare_inserts(unknown: tuple[bool, ...]) -> tuple[Inserts, itemgetter[Any]]:
    """Return the inserts of rows without their unknown nullable columns, and the selection of the other values."""
    omitted = {name for name, is_unknown in zip(_NULLABLE, unknown, strict=True) if is_unknown}
    names = [name for name in COLUMNS if name not in omitted]
    return Inserts(usage, names), itemgetter(*(_INDEX[name] for name in names))


def _insert_new(connection: Connection, dialect: str, rows: Sequence[StoredRow]) -> Sequence[StoredRow]:
    build: Any = import_module(f"sqlalchemy.dialects.{dialect}").insert
    statement = build(usage).on_conflict_do_nothing().returning(usage.c.id)
    unique = {row[_ID]: row for row in rows}
    values = [dict(zip(COLUMNS, row, strict=True)) for row in unique.values()]
    return [unique[identity] for (identity,) in connection.execute(statement, values)]


def _add_totals(connection: Connection, rows: Sequence[StoredRow]) -> None:
    groups = _group_rows(rows)
    by_hour = {group: _sum_rows(members) for group, members in groups.items()}
    counted = {group: _count_requests(group, sums) for group, sums in by_hour.items()}
    _add_sums(connection, OWNER_DAYS, _combine_sums(counted, DAY, _OWNERS))
    _add_sums(connection, USER_DAYS, _combine_sums(by_hour, DAY, _USERS))
    tagged = _split_tags(groups)
    by_tag = {group: _sum_rows(members) for group, members in tagged.items()}
    for span, seconds in _SECONDS.items():
        _add_sums(connection, TOTALS[span, False, True], _combine_sums(by_hour, seconds))
        _add_sums(connection, TOTALS[span, False, False], _combine_sums(by_hour, seconds, _SHARED))
        if by_tag:
            _add_sums(connection, TOTALS[span, True, True], _combine_sums(by_tag, seconds))
            _add_sums(connection, TOTALS[span, True, False], _combine_sums(by_tag, seconds, _TAGGED_SHARED))


def _group_rows(rows: Iterable[StoredRow]) -> dict[tuple[Any, ...], list[StoredRow]]:
    """Return the rows by hour and all dimensions."""
    hours: dict[int, dict[tuple[Any, ...], list[StoredRow]]] = {}
    groups: dict[tuple[Any, ...], list[StoredRow]] = {}
    first = last = ""
    for row in rows:
        if not first <= row[_ID] < last:
            bucket = int(row[_ID][:14], 16) // (HOUR * 1_000_000) * HOUR
            first, last = find_first_id(bucket), find_first_id(bucket + HOUR)
            groups = hours.setdefault(bucket, {})
        dimensions = row[_DIMENSIONS]
        members = groups.get(dimensions)
        if members is None:
            groups[dimensions] = [row]
        else:
            members.append(row)
    return {
        (bucket, *dimensions): members for bucket, groups in hours.items() for dimensions, members in groups.items()
    }


def _count_requests(group: tuple[Any, ...], sums: list[Any]) -> list[Any]:
    """Return the sums without requests and errors if the rows of the group do not count as requests.

    OWNER_DAYS has no operation, so its reports cannot leave them out.
    """
    return sums if counts_as_request(*_COUNTED_BY(group)) else [0, 0, *sums[2:]]


def _split_tags(groups: dict[tuple[Any, ...], list[StoredRow]]) -> dict[tuple[Any, ...], list[StoredRow]]:
    """Return the rows with tags, by hour, tag and all dimensions."""
    by_tag: dict[tuple[Any, ...], list[StoredRow]] = {}
    for (bucket, *dimensions), members in groups.items():
        for row in members:
            if row[_TAGS] != "[]":
                for tag in orjson.loads(row[_TAGS]):
                    by_tag.setdefault((bucket, tag, *dimensions), []).append(row)
    return by_tag


def _sum_rows(rows: Sequence[StoredRow]) -> list[Any]:
    """Return the values of COUNTERS."""
    columns = tuple(zip(*rows, strict=True))
    costs = columns[COST]
    sums = [
        len(rows),
        sum(map(_is_error, columns[_OUTCOME])),
        *(sum(filter(None, columns[index])) for index in _SUMMED),
    ]
    sums[_CACHE_WRITES] += sum(filter(None, columns[_LONG_WRITES]))
    return [*sums, sum(filter(None, costs)), costs.count(None)]


def _combine_sums(by_hour: Sums, seconds: int, select: itemgetter[Any] | None = None) -> Sums:
    """Return the sums by buckets of `seconds`, and by the dimensions of a group that `select` returns; None: all
    dimensions.
    """
    combined: Sums = {}
    for group, sums in by_hour.items():
        bucket, *dimensions = group if select is None else select(group)
        combined_group = (bucket - bucket % seconds, *dimensions)
        known = combined.get(combined_group)
        combined[combined_group] = (
            sums if known is None else [count + other for count, other in zip(known, sums, strict=True)]
        )
    return combined


def _add_sums(connection: Connection, table: Table, sums: Sums) -> None:
    # The groups are in one order in every process, so that two processes never wait for each other's rows.
    _ADDITIONS[table.name].run(connection, [(*group, *sums[group]) for group in sorted(sums)])
