"""Keys of an SQLite file, also of version 0.1, are in PostgreSQL after its first start, once; the file stays as it is."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.accounts.support import add_team, add_user
from tests.support.databases import empty
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.database import tables
from tornado_gate.database.engine import DatabaseError
from tornado_gate.database.opening import open_database, open_existing_database
from tornado_gate.storage.private import KEY_FILE

OLD_FILE = """
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, account TEXT NOT NULL, digest BLOB NOT NULL UNIQUE,
    prefix TEXT NOT NULL, models TEXT NOT NULL, operations TEXT NOT NULL,
    created REAL NOT NULL, expires REAL, revoked REAL, last_used REAL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
INSERT INTO meta VALUES ('revision', 7);
INSERT INTO api_keys VALUES ('key_1', 'ann', 'acct', X'{ann}', 'tg-ann', '["local-*"]', '["chat"]', 1.5, NULL, NULL, 9.5);
INSERT INTO api_keys VALUES ('key_2', 'bob', 'key_2', X'{bob}', 'tg-bob', '[]', '[]', 2.5, NULL, 3.5, NULL);
PRAGMA user_version = 1;
"""


@pytest.fixture
def address(migrated_postgres: str) -> str:
    """A PostgreSQL database with all tables, which are empty."""
    empty(migrated_postgres)
    return migrated_postgres


def make_old_file(folder: Path) -> Path:
    """A file of version 0.1 with the keys ``key-of-ann`` and ``key-of-bob``, which is revoked."""
    path = folder / KEY_FILE
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            OLD_FILE.format(ann=digest_key("key-of-ann").hex(), bob=digest_key("key-of-bob").hex())
        )
    return path


def open_store(folder: Path, address: str) -> KeyStore:
    return KeyStore(open_database(folder, address))


def test_keys_of_version_0_1_work_in_postgresql_and_the_file_is_not_touched(
    tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = hashlib.sha256(make_old_file(tmp_path).read_bytes()).digest()
    with caplog.at_level(logging.INFO):
        store = open_store(tmp_path, address)
    found = store.find_key(digest_key("key-of-ann"))
    assert found is not None
    assert (found.id, found.account, found.models, found.operations) == ("key_1", "acct", ("local-*",), ("chat",))
    assert (found.created, found.last_used, found.role, found.addresses, found.budget) == (1.5, 9.5, "member", (), {})
    assert store.find_key(digest_key("key-of-bob")) is None
    assert store.get("key_2").revoked == 3.5
    assert hashlib.sha256((tmp_path / KEY_FILE).read_bytes()).digest() == before
    assert f"copied 2 keys from {tmp_path / KEY_FILE} to PostgreSQL database" in caplog.text
    store.close()


def test_keys_of_version_0_1_work_in_the_file_too(tmp_path: Path) -> None:
    make_old_file(tmp_path)
    store = open_store(tmp_path, "")
    assert [key.id for key in store.list()] == ["key_1", "key_2"]
    assert store.find_key(digest_key("key-of-ann")) is not None
    store.close()


def test_keys_are_copied_once_and_those_that_come_later_too(tmp_path: Path, address: str) -> None:
    path = make_old_file(tmp_path)
    store = open_store(tmp_path, address)
    store.revoke("key_1")
    store.close()
    store = open_store(tmp_path, address)
    assert store.get("key_1").revoked is not None, "a copy does not bring a revoked key back"
    assert len(store.list()) == 2
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE api_keys SET id = 'key_3', digest = X'00' WHERE id = 'key_2'")
        connection.commit()
    store.close()
    store = open_store(tmp_path, address)
    assert {key.id for key in store.list()} == {"key_1", "key_2", "key_3"}
    assert store.get("key_1").revoked is not None
    store.close()


def test_nodes_that_start_at_once_copy_once(tmp_path: Path, address: str) -> None:
    make_old_file(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(lambda _: open_store(tmp_path, address), range(4)))
    assert [len(store.list()) for store in stores] == [2, 2, 2, 2]
    for store in stores:
        store.close()


def test_accounts_come_with_their_keys_into_an_empty_database(tmp_path: Path, address: str) -> None:
    source = open_store(tmp_path, "")
    ann = add_user(source.database, "ann")
    team = add_team(source.database, "t", ann, models=["local-*"])
    text, made = source.create(
        "a",
        user=ann.id,
        team=team,
        tags=["x"],
        limits={"requests_per_minute": 5},
        hidden=True,
        addresses=["10.0.0.0/8"],
    )
    store = open_store(tmp_path, address)
    assert store.find_key(digest_key(text)) == source.find_key(digest_key(text))
    assert store.get(made.id) == made
    with store.database.write() as connection:
        connection.execute(update(tables.users).values(state="disabled"))
    assert store.find_key(digest_key(text)) is None
    source.close()
    store.close()


def test_a_database_with_accounts_gets_the_keys_of_nobody_only(
    tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "elsewhere").mkdir()
    first = open_store(tmp_path / "elsewhere", address)
    add_user(first.database, "root", role="administrator")
    source = open_store(tmp_path, "")
    ann = add_user(source.database, "ann")
    team = add_team(source.database, "t")
    source.create("of ann", user=ann.id)
    source.create("of team", team=team)
    source.create("of nobody")
    store = open_store(tmp_path, address)
    assert [key.name for key in store.list()] == ["of nobody"]
    assert "2 keys" in caplog.text
    assert "were not copied" in caplog.text
    for opened in (first, source, store):
        opened.close()


def test_a_file_that_cannot_be_read_stops_the_start_with_what_to_do(tmp_path: Path, address: str) -> None:
    (tmp_path / KEY_FILE).write_bytes(b"no database " * 100)
    with pytest.raises(DatabaseError, match=r"cannot be copied to PostgreSQL .* Move the file to another folder"):
        open_existing_database(tmp_path, address)


def test_an_empty_file_and_none_are_nothing_to_copy(tmp_path: Path, address: str) -> None:
    for _ in range(2):
        store = open_store(tmp_path, address)
        assert store.list() == ()
        store.close()
        (tmp_path / KEY_FILE).touch()
