"""Copy the rows of a table from SQLite to PostgreSQL in batches, each of them once.

Rows are copied in the order of their primary key. A transaction of a batch first locks the row of its copy in the table `meta`,
which has the last key and the numbers of rows. So a copy that was killed continues after the last batch that was committed,
and a second copy at the same time repeats nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import LargeBinary, Table, select, update
from sqlalchemy.engine import Connection

from tornado_gate.database.bulk import copy_rows
from tornado_gate.database.engine import Database
from tornado_gate.database.tables import meta
from tornado_gate.types.value import Value

BATCH: Final = 2000
_STAGE: Final = "copied_rows"


class CopiedTable(Value, frozen=True, kw_only=True):
    """A table, and which of its rows are copied.

    `first` is the lowest value of the first column of its primary key. `condition` is SQL about a row `new` in the target.
    `added` are columns whose values are added to those of a row that exists; without them such a row stays as it is.
    """

    table: Table
    first: Any = None
    condition: str = "true"
    added: tuple[str, ...] = ()


class Copied(Value, frozen=True):
    """How far the copy of a table is: the last key, the rows read, and the rows inserted or added. None: no row was read."""

    last: tuple[Any, ...] | None = None
    read: int = 0
    written: int = 0


class TableCopy:
    """The copy of one table. `mark` is its name in `meta`. `source` is a transaction of SQLite: it does not change."""

    def __init__(self, rule: CopiedTable, source: Connection, target: Database, mark: str) -> None:
        self._rule = rule
        self._source = source
        self._target = target
        self._mark = mark
        self._keys = list(rule.table.primary_key.columns)
        self._insert = _render_insert(rule)
        names = [column.name for column in rule.table.columns]
        self._indexes = [names.index(column.name) for column in self._keys]

    def copy_batch(self) -> tuple[Copied, bool]:
        """Copy up to BATCH rows. Returns how far the copy is, and whether there may be more. Raises DatabaseError."""
        with self._target.write() as connection:
            before = self._lock_mark(connection)
            rows = self._read_rows(before.last)
            if not rows:
                return before, False
            last = tuple(rows[-1][index] for index in self._indexes)
            after = Copied(last, before.read + len(rows), before.written + self._write_rows(connection, rows))
            connection.execute(update(meta).where(meta.c.name == self._mark).values(value=_encode(after)))
        return after, len(rows) == BATCH

    def _lock_mark(self, connection: Connection) -> Copied:
        create = "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING"
        connection.exec_driver_sql(create, (self._mark, _encode(Copied())))
        query = select(meta.c.value).where(meta.c.name == self._mark).with_for_update()
        return self._decode(connection.execute(query).scalar_one())

    def _decode(self, text: str) -> Copied:
        last, read, written = json.loads(text)
        if last is not None:
            pairs = zip(self._keys, last, strict=True)
            last = tuple(bytes.fromhex(key) if isinstance(column.type, LargeBinary) else key for column, key in pairs)
        return Copied(last, read, written)

    def _read_rows(self, last: tuple[Any, ...] | None) -> Sequence[tuple[Any, ...]]:
        """Return the next rows as the driver has them: JSON is a text, and a boolean a number."""
        keys = ", ".join(f'"{column.name}"' for column in self._keys)
        words, values = "", list[Any]()
        if last is not None:
            words, values = f"WHERE ({keys}) > ({', '.join('?' * len(last))})", list(last)
        elif self._rule.first is not None:
            words, values = f'WHERE "{self._keys[0].name}" >= ?', [self._rule.first]
        query = (
            f"SELECT {_list_names(self._rule.table)} FROM {self._rule.table.name} {words} ORDER BY {keys} LIMIT {BATCH}"
        )
        return [tuple(row) for row in self._source.exec_driver_sql(query, tuple(values))]

    def _write_rows(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        table = self._rule.table
        connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {_STAGE} (LIKE {table.name}) ON COMMIT DROP")
        copy_rows(connection, f"COPY {_STAGE} ({_list_names(table)}) FROM STDIN", rows)
        return connection.exec_driver_sql(self._insert).rowcount


def _render_insert(rule: CopiedTable) -> str:
    """Return the statement that inserts the staged rows, in the order in which they were staged: that of the ledger's writers."""
    table, names = rule.table, _list_names(rule.table)
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
    sums = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in rule.added)
    conflict = f"({keys}) DO UPDATE SET {sums}" if sums else "DO NOTHING"
    selected = f"SELECT {names} FROM {_STAGE} AS new WHERE {rule.condition}"
    return f"INSERT INTO {table.name} ({names}) {selected} ON CONFLICT {conflict}"


def _list_names(table: Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _encode(copied: Copied) -> str:
    last = copied.last and [key.hex() if isinstance(key, bytes) else key for key in copied.last]
    return json.dumps([last, copied.read, copied.written])
