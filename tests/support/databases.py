"""Fixtures for tests that run on both databases: `database` is open and has all tables, `database_address` is for a server.

A test that uses one of them runs twice. Each test has its own database, copied from one that is migrated once.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database
from tornado_gate.storage.private import KEY_FILE

DIALECTS = ("sqlite", "postgresql")
TEMPLATE = "migrated"
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL. A test that stops it starts it again."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> PostgresServer:
    """The server with the database TEMPLATE, which has all tables and is empty."""
    open_database(tmp_path_factory.mktemp("migrated"), postgres.create(TEMPLATE)).close()
    return postgres


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables, empty. Its data directory has nothing else."""
    database = open_database(tmp_path_factory.mktemp("migrated"))
    database.close()
    return database.path


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_address(dialect: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """What conf has as `database`: "" for the SQLite file in the data directory, else a PostgreSQL database of this test."""
    if dialect == "sqlite":
        yield ""
        return
    server: PostgresServer = request.getfixturevalue("migrated_postgres")
    name = f"test_{next(_NUMBERS)}"
    yield server.create(name, TEMPLATE)
    server.drop(name)


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
