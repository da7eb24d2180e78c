"""Opening: migrations, old files, newer schemas, and databases that cannot be used."""

from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import alembic.command
import pytest
import sqlalchemy
from sqlalchemy import text

from tests.support.postgres import PostgresServer
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.database import opening
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.opening import list_revisions, open_database, open_existing_database
from tornado_gate.database.usage_tables import usage

# Migrations

FORK = multiprocessing.get_context("fork")


def open_and_count(folder: Path, address: str, start: threading.Barrier, upgrades: SimpleQueue[bool]) -> None:
    """In a process of its own: open the database when all are ready, and say whether this process has migrated it."""
    upgraded = []
    create = opening._create_tables
    opening._create_tables = lambda *given: upgraded.append(True) or create(*given)
    start.wait(60)
    open_database(folder, address).close()
    upgrades.put(bool(upgraded))


def test_four_processes_that_start_at_once_migrate_once(tmp_path: Path, empty_address: str) -> None:
    start, upgrades = FORK.Barrier(4), FORK.SimpleQueue()
    arguments = (tmp_path / "var", empty_address, start, upgrades)
    processes = [FORK.Process(target=open_and_count, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert sorted(upgrades.get() for _ in processes) == [False, False, False, True]
    database = open_database(tmp_path / "var", empty_address)
    with database.read() as connection:
        assert set(sqlalchemy.inspect(connection).get_table_names()) >= set(usage.metadata.tables)
    database.close()


def test_a_migration_that_fails_leaves_nothing(
    tmp_path: Path, empty_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade = alembic.command.upgrade

    def upgrade_and_fail(config: Any, revision: str) -> None:
        upgrade(config, revision)
        raise DatabaseError("the migration failed")

    monkeypatch.setattr(alembic.command, "upgrade", upgrade_and_fail)
    database = Database(tmp_path / "var", empty_address)
    database.make_file()
    with pytest.raises(DatabaseError, match="the migration failed"):
        opening.upgrade(database)
    with database.read() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == []
    database.close()
    monkeypatch.undo()
    open_database(tmp_path / "var", empty_address).close()


def test_a_schema_of_a_newer_version_is_refused(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999_future'"))
    address = "" if database.is_file else database._url.render_as_string(hide_password=False)
    with pytest.raises(DatabaseError, match=r"newer tornado-gate \(its schema is 9999_future") as caught:
        open_database(database.data_dir, address)
    assert list_revisions()[-1] in str(caught.value)
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": list_revisions()[-1]})


# Files of version 0.1

OLD_FILE = """
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, account TEXT NOT NULL, digest BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL, models TEXT NOT NULL, operations TEXT NOT NULL,
    created REAL NOT NULL, expires REAL, revoked REAL, last_used REAL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
INSERT INTO meta VALUES ('revision', 7);
PRAGMA user_version = 1;
"""


def make_old_file(folder: Path, *rows: tuple[object, ...]) -> None:
    folder.mkdir(mode=0o700)
    with sqlite3.connect(folder / "gate.db") as connection:
        connection.executescript(OLD_FILE)
        connection.executemany("INSERT INTO api_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.close()


def test_keys_of_version_0_1_are_carried_over(tmp_path: Path) -> None:
    valid, revoked = digest_key("tg-valid"), digest_key("tg-revoked")
    make_old_file(
        tmp_path / "var",
        ("key_1", "ann's", "team", valid, "tg-val", '["local-*"]', '["chat"]', 1.5, 9e9, None, 2.5),
        ("key_2", "old", "key_2", revoked, "tg-rev", "[]", "[]", 1.0, None, 3.0, None),
    )
    store = KeyStore.open(tmp_path / "var")
    found = store.find_key(valid)
    assert found is not None
    assert (found.id, found.name, found.account, found.prefix) == ("key_1", "ann's", "team", "tg-val")
    assert (found.models, found.operations) == (("local-*",), ("chat",))
    assert (found.created, found.expires, found.last_used) == (1.5, 9e9, 2.5)
    assert (found.role, found.user, found.team, found.hidden) == ("member", None, None, False)
    assert store.find_key(revoked) is None
    assert {key.id: key.revoked for key in store.list()} == {"key_1": None, "key_2": 3.0}
    store.close()
    again = KeyStore.open(tmp_path / "var")
    assert len(again.list()) == 2
    again.close()


def test_an_old_file_without_keys_becomes_a_new_one_that_old_versions_refuse(tmp_path: Path) -> None:
    make_old_file(tmp_path / "var")
    store = KeyStore.open(tmp_path / "var")
    assert not store.has_keys()
    store.create("first")
    store.close()
    with sqlite3.connect(tmp_path / "var" / "gate.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] > 1
    connection.close()


# Databases that cannot be used


def test_a_server_that_does_not_answer_is_named_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_database(tmp_path, "postgresql://gate:my-password@127.0.0.1:1/usage")
    assert "'usage' at 127.0.0.1:1" in str(caught.value)
    assert "my-password" not in str(caught.value)
    assert "Check `database` in conf" in str(caught.value)


@pytest.mark.parametrize(
    ("make_address", "words"),
    [
        (lambda server: server.address("postgres", "my-password"), "password authentication failed"),
        (lambda server: server.address("missing"), 'database "missing" does not exist'),
    ],
)
def test_what_the_server_refuses_is_said_without_the_password(
    postgres: PostgresServer, tmp_path: Path, make_address: Callable[[PostgresServer], str], words: str
) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_database(tmp_path, make_address(postgres))
    assert words in str(caught.value)
    assert postgres.password not in str(caught.value)
    assert "my-password" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        *("mysql://host/name", "not an address", "sqlite:///x", "postgresql://u:my-password@h:x/n"),
        *("postgresql://u:my-password@h1:1,h2:2/n", "postgresql://u:my-password@[::1/n"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_text(address: str) -> None:
    with pytest.raises(DatabaseError, match=r"the address of the database must .* postgresql://") as caught:
        Database(Path("/nowhere"), address)
    assert "my-password" not in str(caught.value)


def test_a_server_that_restarts_is_connected_to_again(
    postgres: PostgresServer, migrated_postgres: str, tmp_path: Path
) -> None:
    store = KeyStore.open(tmp_path, migrated_postgres)
    store.has_keys()
    postgres.stop()
    with pytest.raises(DatabaseError):
        store.has_keys()
    postgres.start()
    store.has_keys()
    text_, _ = store.create("after")
    assert store.find_key(digest_key(text_)) is not None
    postgres.stop()
    postgres.start()
    assert store.find_key(digest_key(text_)) is not None  # without a failure between
    store.close()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "gate.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(DatabaseError, match=r"gate\.db"):
        open_database(tmp_path)


def test_without_a_file_nothing_is_opened_or_created(tmp_path: Path) -> None:
    assert open_existing_database(tmp_path / "var") is None
    assert not (tmp_path / "var").exists()


def test_a_file_that_vanishes_is_an_error(tmp_path: Path) -> None:
    store = KeyStore.open(tmp_path)
    store.database.path.rename(tmp_path / "away")
    with pytest.raises(DatabaseError, match=r"gate\.db"):
        store.has_keys()
    store.close()
