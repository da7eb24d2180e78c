"""Move kept values and client secrets from the SQLite files of a data directory to the database of several nodes.

It runs at a start with `state: {store: database}`. Values are moved in the order of their accounts and names. Each batch is
inserted together with its last name, in the table `meta`, and then deleted from the file. So a start that was killed is repeated
without doing anything twice: a value that was deleted in the database since does not come back.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Double, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.progress import Progress
from tornado_gate.database.shared_rows import hash_name
from tornado_gate.database.state_rows import LONGEST_NAME, count_bytes
from tornado_gate.database.state_tables import client_secrets, kept_values
from tornado_gate.database.tables import meta
from tornado_gate.storage import client_secrets as secret_file
from tornado_gate.storage import conversation_state as memory_file
from tornado_gate.storage.sqlite import BUSY_SECONDS

BATCH = 500
BATCH_BYTES = 16 * 1024 * 1024
_MARK = "carried state "
_EXPIRES = CLOCK + bindparam("seconds", type_=Double)
"""The clock of the node may differ from that of the database: the remaining time is kept."""

Key = list[str]
"""The account and the name of a value."""


def has_state(data_dir: Path) -> bool:
    """Return whether a data directory may have values or secrets to carry over. Raises DatabaseError."""
    for name, table in ((memory_file.FILE_NAME, "memory"), (secret_file.FILE_NAME, "client_secrets")):
        if (data_dir / name).exists():
            with _open_file(data_dir / name) as source:
                if _has_table(source, table) and source.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
                    return True
    return False


def carry_over_state(database: Database, data_dir: Path) -> None:
    """Move everything that has not expired. Blocks until it is done. Raises DatabaseError."""
    path = data_dir / memory_file.FILE_NAME
    if path.exists():
        with _open_file(path) as source:
            if _has_table(source, "memory"):
                _ValueMove(database, source).run()
    path = data_dir / secret_file.FILE_NAME
    if path.exists():
        with _open_file(path) as source:
            if _has_table(source, "client_secrets"):
                _move_secrets(database, source)


class _ValueMove:
    def __init__(self, database: Database, source: sqlite3.Connection) -> None:
        self._database = database
        self._source = source
        self._mark = _MARK + _read_id(source)

    def run(self) -> None:
        self._delete_until(self._read_last())
        self._source.execute("DELETE FROM memory WHERE expires <= ?", (time.time(),))
        (total,) = self._source.execute("SELECT COUNT(*) FROM memory").fetchone()
        progress, done = Progress("kept values", total, self._database.name), 0
        while batch := list(self._read_batch()):
            last = [batch[-1]["owner"], batch[-1]["key"]]
            with self._database.write() as connection:
                _insert_values(connection, batch)
                mark = insert(meta).values(name=self._mark, value=json.dumps(last))
                connection.execute(
                    mark.on_conflict_do_update(index_elements=["name"], set_={"value": mark.excluded.value})
                )
            self._delete_until(last)
            done += len(batch)
            progress.report(done)
        with self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.name == self._mark))
        if total:
            with suppress(sqlite3.Error):
                self._source.execute("VACUUM")

    def _read_last(self) -> Key | None:
        """Return the last value that an earlier attempt has inserted."""
        with self._database.read() as connection:
            value = connection.execute(select(meta.c.value).where(meta.c.name == self._mark)).scalar()
        return None if value is None else list(json.loads(value))

    def _delete_until(self, last: Key | None) -> None:
        if last is not None:
            self._source.execute("DELETE FROM memory WHERE (account, name) <= (?, ?)", last)

    def _read_batch(self) -> Iterator[dict[str, Any]]:
        size, now = 0, time.time()
        query = "SELECT account, name, value, expires FROM memory ORDER BY account, name LIMIT ?"
        for account, name, value, expires in self._source.execute(query, (BATCH,)):
            yield {"owner": account, "key": name, "value": value, "seconds": expires - now}
            size += len(value)
            if size > BATCH_BYTES:
                return


def _insert_values(connection: Connection, batch: list[dict[str, Any]]) -> None:
    rows = []
    for item in batch:
        name, value = item["key"].encode("utf-8", "surrogatepass"), bytes(item["value"])
        if len(name) <= LONGEST_NAME:
            size = count_bytes(name, value)
            row = {"account": hash_name(item["owner"]), "name": name, "value": value, "bytes": size}
            rows.append({**row, "seconds": item["seconds"]})
    if rows:
        connection.execute(insert(kept_values).values(expires=_EXPIRES).on_conflict_do_nothing(), rows)


def _move_secrets(database: Database, source: sqlite3.Connection) -> None:
    """Move the client secrets, which nobody deletes before they expire, so that a repeated move changes nothing."""
    now = time.time()
    query = "SELECT name, account, claims, expires FROM client_secrets WHERE expires > ?"
    rows = [
        {"name": name, "account": hash_name(account), "claims": bytes(claims), "seconds": expires - now}
        for name, account, claims, expires in source.execute(query, (now,))
    ]
    if rows:
        with database.write() as connection:
            connection.execute(insert(client_secrets).values(expires=_EXPIRES).on_conflict_do_nothing(), rows)
        Progress("client secrets", len(rows), database.name).report(len(rows))
    source.execute("DELETE FROM client_secrets")


def _read_id(source: sqlite3.Connection) -> str:
    """Return the id of a file, which it keeps."""
    source.execute("CREATE TABLE IF NOT EXISTS carry_over (id TEXT PRIMARY KEY)")
    if source.execute("SELECT 1 FROM carry_over").fetchone() is None:
        source.execute("INSERT INTO carry_over VALUES (?)", (secrets.token_hex(16),))
    (made,) = source.execute("SELECT id FROM carry_over").fetchone()
    return str(made)


def _has_table(source: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return source.execute(query, (name,)).fetchone() is not None


@contextmanager
def _open_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a file; each statement is a transaction. Failures of the file are raised as DatabaseError."""
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as source:
            yield source
    except sqlite3.Error as error:
        raise DatabaseError(
            f"The conversation state in {path} cannot be carried over: {error}. Move the file away to start without it."
        ) from error
