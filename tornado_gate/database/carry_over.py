"""Copy keys from the SQLite file in the data directory to PostgreSQL, when conf names a PostgreSQL database for the
first time.

The file may be of version 0.1 or later, and is only read. Users, organisations and teams are copied too if the database
has none yet. Otherwise only keys without an owner and without a team are copied, because the others would lose their
limits. A file is copied once: a mark in the table `meta` identifies its keys, so that keys which were added to it later
are copied as well.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Boolean, Table, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from tornado_gate.codec.emails import make_email_key
from tornado_gate.database import tables
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.storage.private import KEY_FILE
from tornado_gate.types.value import Value

log = logging.getLogger(__name__)

COPIED = (tables.organisations, tables.users, tables.teams, tables.team_members)
"""The tables that the keys refer to, in the order in which their rows can be inserted."""
_OLD_KEYS = "api_keys"
_NO_WORDS: dict[str, Any] = dict.fromkeys(("models", "operations", "addresses", "tags"), ())
_KEY_DEFAULTS = {"role": "member", "hidden": False, "created_by": "command", **_NO_WORDS}
_MARK = "carried_over "


class KeyFile(Value, frozen=True):
    """The content of an SQLite file: its path, the rows of its keys, and the rows of COPIED by the name of the table."""

    path: Path
    keys: list[dict[str, Any]]
    others: dict[str, list[dict[str, Any]]]

    @property
    def mark(self) -> str:
        """Return the name in `meta` which records that these keys were copied."""
        ids = "\n".join(sorted(row["id"] for row in self.keys))
        return _MARK + hashlib.sha256(ids.encode()).hexdigest()


def find_key_file(database: Database) -> KeyFile | None:
    """Return the SQLite file in the data directory of a PostgreSQL database; None if it has no rows to copy.

    Raises DatabaseError if the file cannot be read.
    """
    path = database.data_dir / KEY_FILE
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source:
            key_file = _read_file(path, source)
    except (sqlite3.Error, ValueError, KeyError) as error:
        raise DatabaseError(
            f"The keys in {path} cannot be copied to {database.name}: {error}. "
            "Move the file to another folder to start without them."
        ) from error
    if not key_file.keys and not any(key_file.others.values()):
        return None
    with database.read() as connection:
        return None if _is_marked(connection, key_file) else key_file


def copy_keys(database: Database, file: KeyFile) -> None:
    """Copy the keys, unless another process has just done so. Call it under the lock of migrations."""
    with database.write() as connection:
        if _is_marked(connection, file):
            return
        keys, skipped = file.keys, 0
        if _is_empty(connection):
            for table in COPIED:
                _insert_rows(connection, table, file.others[table.name])
        else:
            keys = [row for row in keys if row["user"] is None and row["team"] is None]
            skipped = len(file.keys) - len(keys)
        copied = _insert_rows(connection, tables.keys, keys)
        connection.execute(insert(tables.meta).values(name=file.mark, value=str(copied)))
    log.info("copied %d keys from %s to %s", copied, file.path, database.name)
    if skipped:
        log.warning(
            "%d keys in %s were not copied to %s, which has other users and teams: they belong to users or teams of the file",
            *(skipped, file.path, database.name),
        )


def _is_marked(connection: Connection, file: KeyFile) -> bool:
    return connection.execute(select(tables.meta).where(tables.meta.c.name == file.mark)).first() is not None


def _is_empty(connection: Connection) -> bool:
    """Return whether a database has no accounts and no keys yet."""
    return all(connection.execute(select(table).limit(1)).first() is None for table in (tables.keys, *COPIED))


def _insert_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    """Insert the rows that the table lacks. Returns their number."""
    if not rows:
        return 0
    result = connection.execute(insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns), rows)
    return len(result.all())


def _read_file(path: Path, source: sqlite3.Connection) -> KeyFile:
    source.row_factory = sqlite3.Row
    source.execute("BEGIN")
    others = {table.name: _read_rows(source, table, table.name) for table in COPIED}
    keys = _read_rows(source, tables.keys, tables.keys.name) or _read_rows(source, tables.keys, _OLD_KEYS)
    rotators = _read_rotators(source)
    for row in keys:
        row["issued_by"] = row["issued_by"] or rotators.get(row["id"])
    return KeyFile(path, keys, others)


def _read_rows(source: sqlite3.Connection, table: Table, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the file as rows of `table`. Columns that the file lacks have their defaults."""
    if source.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is None:
        return []
    defaults = _KEY_DEFAULTS if table is tables.keys else {}
    rows = []
    for row in source.execute(f'SELECT * FROM "{name}"'):
        values = dict(row)
        if table is tables.users:  # a file of an older version has folded them
            values["email_key"] = make_email_key(values["email"])
        rows.append(
            {
                column.name: _convert_value(column.type, values[column.name])
                if column.name in values
                else defaults.get(column.name, {} if isinstance(column.type, JSON) else None)
                for column in table.columns
            }
        )
    return rows


def _read_rotators(source: sqlite3.Connection) -> dict[str, str]:
    """Return the actors who have rotated keys, by the id of the successor. An older version has recorded them only in
    the audit log.
    """
    if source.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'audit'").fetchone() is None:
        return {}
    rows = source.execute("SELECT actor, detail FROM audit WHERE action = 'key.rotate' ORDER BY id")
    return {json.loads(row["detail"]).get("replaced_by", ""): row["actor"] for row in rows}


def _convert_value(kind: Any, value: Any) -> Any:
    if isinstance(kind, JSON):
        return None if value is None else json.loads(value)
    return bool(value) if isinstance(kind, Boolean) and value is not None else value
