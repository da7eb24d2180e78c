"""The migrations create exactly the tables of `tables.py`, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tests.support.postgres import PostgresServer
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import list_revisions, open_database, upgrade
from tornado_gate.database.usage_tables import OTHER_ROWS, usage


@pytest.fixture
def new_database(empty_address: str, tmp_path: Path) -> Iterator[Database]:
    """A database of its own, with all tables."""
    opened = open_database(tmp_path / "var", empty_address)
    yield opened
    opened.close()


def is_no_partition(name: str | None, kind: str, _parents: Any) -> bool:
    return kind != "table" or name != OTHER_ROWS


def compare(database: Database) -> list[Any]:
    with database.read() as connection:
        options = {"compare_type": True, "compare_server_default": True, "include_name": is_no_partition}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, usage.metadata))


def describe_index(index: Any) -> str:
    options = sorted(f"{name}: {value}" for name, value in index.get("dialect_options", {}).items())
    return f"{index['name']} {index['column_names']} {index['unique']} {options}"


def list_definitions(database: Database) -> list[Any]:
    """Tables, columns, keys and indexes as the database itself describes them, and the rows of a new database."""
    with database.read() as connection:
        inspector = sqlalchemy.inspect(connection)
        found: list[Any] = []
        for name in sorted(inspector.get_table_names()):
            columns = [(one["name"], str(one["type"]), one["nullable"]) for one in inspector.get_columns(name)]
            foreign = sorted(inspector.get_foreign_keys(name), key=lambda one: str(one["name"]))
            keys = (inspector.get_pk_constraint(name)["constrained_columns"], foreign)
            indexes = sorted(map(describe_index, inspector.get_indexes(name)))
            unique = sorted(str(sorted(one.items(), key=str)) for one in inspector.get_unique_constraints(name))
            rows = connection.execute(sqlalchemy.text(f'SELECT * FROM "{name}"')).all()
            found.append((name, columns, keys, indexes, unique, rows))
    return found


def test_the_migrations_lead_to_the_tables_of_a_new_database(
    new_database: Database, dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    migrated = Database(tmp_path / "migrated", request.getfixturevalue("second_address"))
    migrated.make_file()
    upgrade(migrated)
    assert compare(migrated) == []
    assert list_definitions(migrated) == list_definitions(new_database)
    migrated.close()


@pytest.fixture
def second_address(dialect: str, postgres: PostgresServer) -> Iterator[str]:
    yield "" if dialect == "sqlite" else postgres.create("second")
    if dialect != "sqlite":
        postgres.drop("second")


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE users ADD COLUMN more TEXT", "DROP INDEX ix_sessions_user", "DROP TABLE audit"],
)
def test_the_comparison_finds_what_a_migration_forgot(new_database: Database, change: str) -> None:
    assert compare(new_database) == []
    with new_database.write() as connection:
        connection.execute(sqlalchemy.text(change))
    assert compare(new_database) != []


def test_the_newest_migration_is_recorded(database: Database) -> None:
    with database.read() as connection:
        found = connection.execute(sqlalchemy.text("SELECT version_num FROM alembic_version")).scalars().all()
    assert found == [list_revisions()[-1]]
