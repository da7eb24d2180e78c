"""The migrations create exactly the tables of `tables.py`, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tornado_gate.database.engine import Database
from tornado_gate.database.opening import list_revisions, open_database
from tornado_gate.database.usage_tables import usage


@pytest.fixture
def new_database(empty_address: str, tmp_path: Path) -> Iterator[Database]:
    """A database of its own, with all tables."""
    opened = open_database(tmp_path / "var", empty_address)
    yield opened
    opened.close()


def compare(database: Database) -> list[Any]:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, usage.metadata))


def test_the_migrated_database_has_the_tables_of_the_code(database: Database) -> None:
    assert compare(database) == []


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
