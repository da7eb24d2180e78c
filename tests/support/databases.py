"""Fixtures for tests that run on both databases: `database` is open and has all tables, `database_address` is for a server.

A test that uses one of them runs with a copy of an SQLite file that is migrated once, and in `make qa` again with a PostgreSQL
database that is migrated once and emptied before each test.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import psycopg.sql
import pytest

from tests.support.postgres import PostgresServer
from tests.support.variants import vary
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.database.usage_tables import usage
from tornado_gate.storage.private import KEY_FILE

DIALECTS = ("sqlite", "postgresql")
MANY_ROWS = 1000
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL. A test that stops it starts it again."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a PostgreSQL database with all tables. Each test empties it first."""
    address = postgres.create("tests")
    open_database(tmp_path_factory.mktemp("migrated"), address).close()
    return address


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables, empty. Its data directory has nothing else."""
    database = open_database(tmp_path_factory.mktemp("migrated"))
    database.close()
    return database.path


@pytest.fixture(params=vary(*DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DIALECTS)
def each_dialect(request: pytest.FixtureRequest) -> str:
    """``dialect = databases.each_dialect`` in a file: `make test` runs its tests on both databases."""
    return str(request.param)


@pytest.fixture
def database_address(dialect: str, request: pytest.FixtureRequest) -> str:
    """What conf has as `database`: "" for the SQLite file in the data directory, else a PostgreSQL database with empty tables."""
    if dialect == "sqlite":
        return ""
    address: str = request.getfixturevalue("migrated_postgres")
    empty(address)
    return address


@pytest.fixture
def empty_address(dialect: str, postgres: PostgresServer) -> Iterator[str]:
    """As `database_address`, for tests of the tables themselves: a new database without any."""
    name = f"empty_{next(_NUMBERS)}"
    yield "" if dialect == "sqlite" else postgres.create(name)
    if dialect != "sqlite":
        postgres.drop(name)


def empty(address: str) -> None:
    """Delete all rows, which takes 5 ms; a new database takes 300."""
    with psycopg.connect(address) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        connection.execute(others, [connection.info.dbname])
        for table in reversed(usage.metadata.sorted_tables):
            name = psycopg.sql.Identifier(table.name)
            some = psycopg.sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) AS rows").format(name, MANY_ROWS)
            found = connection.execute(some).fetchone() or (0,)
            if found[0]:
                words = "TRUNCATE {} CASCADE" if found[0] == MANY_ROWS else "DELETE FROM {}"
                connection.execute(psycopg.sql.SQL(words).format(name))
        connection.execute("INSERT INTO meta (name, value) VALUES ('revision', '0')")


@pytest.fixture
def database(dialect: str, database_address: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database with all tables, in the data directory `tmp_path / "var"`."""
    folder = tmp_path / "var"
    folder.mkdir(mode=0o700)
    if dialect == "sqlite":
        shutil.copyfile(request.getfixturevalue("migrated_file"), folder / KEY_FILE)
    opened = open_database(folder, database_address)
    yield opened
    opened.close()
