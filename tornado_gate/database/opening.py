"""Open the database and upgrade its tables, under a lock, because several processes and nodes may start at the same time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import Index, text
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from tornado_gate.database import (  # noqa: F401  their tables belong to METADATA
    alert_tables,
    node_tables,
    state_tables,
    task_tables,
)
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.usage_tables import OTHER_ROWS, usage
from tornado_gate.storage.private import KEY_FILE, open_private

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER = Path(__file__).parent / "migrations"
LOCK_FILE = "gate.db.lock"
_ADVISORY_LOCK = 7_238_411_906
"""The number of PostgreSQL's advisory lock for migrations: any constant that no other program uses in the same database."""


def open_database(data_dir: Path, address: str = "") -> Database:
    """Open the database of a data directory, or the one at `address`, and bring its tables up to date.

    An SQLite file is created, readable by its owner only; keys of such a file are copied to a PostgreSQL database. Raises
    DatabaseError.
    """
    database = Database(data_dir, address)
    try:
        database.make_file()
        migrate(database)
        if not database.is_file:
            carry_over_accounts(database)
    except BaseException:
        database.close()
        raise
    return database


def open_existing_database(data_dir: Path, address: str = "") -> Database | None:
    """Open the database as `open_database` does; None if there is no SQLite file. Creates no file."""
    if not address and not os.path.exists(data_dir / KEY_FILE):
        return None
    return open_database(data_dir, address)


def migrate(database: Database) -> None:
    """Apply all migrations that the database lacks. Raises DatabaseError, including for a database of a newer version.

    An empty database gets its tables directly: the migrations would take a fifth of a second, and 10 MB for alembic.
    """
    revisions = list_revisions()
    if read_revision(database, revisions) == revisions[-1]:
        return
    with _hold_lock(database):
        if read_revision(database, revisions) == revisions[-1]:
            return
        if _is_empty(database):
            _create_tables(database, revisions[-1])
        else:
            upgrade(database)


def carry_over_accounts(database: Database) -> None:
    """Copy the keys of an SQLite file in the data directory to PostgreSQL, once, with users and teams if it has none yet."""
    from tornado_gate.database.carry_over import copy_keys, find_key_file  # this imports the dialect of PostgreSQL

    file = find_key_file(database)
    if file is not None:
        with _hold_lock(database):
            copy_keys(database, file)


@lru_cache(1)
def list_revisions() -> tuple[str, ...]:
    """Return the revisions of all migrations, oldest first. The names of their files begin with them."""
    return tuple(sorted(path.stem for path in (FOLDER / "versions").glob("[0-9]*.py")))


def read_revision(database: Database, revisions: tuple[str, ...]) -> str:
    """Return the revision of the database, "" for a new one. Raises DatabaseError if this version does not define it."""
    with database.read() as connection:
        if not sqlalchemy.inspect(connection).has_table("alembic_version"):
            return ""
        current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if current is not None and current not in revisions:
        raise DatabaseError(
            f"{database.name} was created by a newer tornado-gate (its schema is {current}, this version supports "
            f"{revisions[-1]}). Upgrade, or use another server.data_dir or database."
        )
    return current or ""


def _is_empty(database: Database) -> bool:
    with database.read() as connection:
        return not sqlalchemy.inspect(connection).get_table_names()


def _create_tables(database: Database, revision: str) -> None:
    """Create all tables as the newest migration leaves them; a test compares both."""
    with database.write() as connection:
        for statement in _list_statements(database.dialect):
            connection.exec_driver_sql(statement)
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision})
        connection.execute(text("INSERT INTO meta (name, value) VALUES ('revision', '0')"))
        if database.is_file:
            _mark_file(connection)


@lru_cache(2)
def _list_statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that create all tables and indexes in an empty database."""
    kind: Dialect = registry.load(dialect)()
    tables = usage.metadata.sorted_tables
    partitions: tuple[str, ...] = ()
    if dialect != "sqlite":
        _make_partial(dialect, [index for table in tables for index in table.indexes])
        usage.dialect_options[dialect]["partition_by"] = "RANGE (id)"
        partitions = (f"CREATE TABLE {OTHER_ROWS} PARTITION OF usage DEFAULT",)
    elements: list[ExecutableDDLElement] = [CreateTable(table) for table in tables]
    elements += [
        CreateIndex(index)
        for table in tables
        for index in sorted(table.indexes, key=lambda candidate: str(candidate.name))
    ]
    return (_VERSION_TABLE, *(str(element.compile(dialect=kind)) for element in elements), *partitions)


def _make_partial(dialect: str, indexes: Iterable[Index]) -> None:
    """Give indexes the conditions that they have in SQLite."""
    for index in indexes:
        condition = index.dialect_options["sqlite"]["where"]
        if condition is not None:
            index.dialect_options[dialect]["where"] = condition


_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""The statement that alembic uses."""


def upgrade(database: Database) -> None:
    """Apply the migrations that a database of an older version lacks, or all to an empty one.

    They have one transaction. A migration that may not lock its table for long has a function `prepare(database)` too.
    It runs before, when all earlier migrations are applied, and has its own transactions. A process may be killed at
    any time, so `prepare` continues what an earlier one has begun.
    """
    from alembic.config import Config  # imported only for an upgrade, because it takes 0.1 s
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    revisions = list_revisions()
    current = read_revision(database, revisions)
    for earlier, revision in pairwise(("", *revisions)):
        prepare = getattr(script.get_revision(revision).module, "prepare", None)
        if revision > current and prepare is not None:
            _apply_migrations(database, config, earlier)
            prepare(database)
    _apply_migrations(database, config, "head")


def _apply_migrations(database: Database, config: Config, revision: str) -> None:
    from alembic import command

    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        if database.is_file:
            _mark_file(connection)


def _mark_file(connection: Connection) -> None:
    """Make versions before 0.2, which read `user_version` only, refuse the file."""
    connection.exec_driver_sql("PRAGMA user_version = 2")


@contextmanager
def _hold_lock(database: Database) -> Iterator[None]:
    if database.is_file:
        with database.map_errors():
            file = open_private(database.data_dir / LOCK_FILE, os.O_CREAT | os.O_RDWR)
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(file)
        return
    with database.read() as connection:
        # The migration of many rows takes longer than a statement may. A session's lock outlives the transaction.
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_lock(:number)"), {"number": _ADVISORY_LOCK})
        connection.commit()
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:number)"), {"number": _ADVISORY_LOCK})
            connection.commit()
