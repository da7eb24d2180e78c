"""A database of the version before: who has rotated keys is read from the audit log, and e-mails are no longer folded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import select, text

from tests.support.databases import empty
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.keys import KeyStore
from tornado_gate.database import opening, tables
from tornado_gate.database.engine import Database
from tornado_gate.database.opening import open_database

USER = {"name": "", "role": "member", "state": "active", "created": 1.0}
KEY = {
    **{"name": "k", "account": "a", "role": "member", "prefix": "tg-", "models": "[]", "operations": "[]", "addresses": "[]"},
    **{"tags": "[]", "limits": "{}", "budget": "{}", "hidden": False, "created_by": "user_1", "created": 1.0},
}  # fmt: skip
AUDIT = {"moment": 1.0, "actor_name": "", "action": "key.rotate", "object": "key_1", "address": "", "request_id": ""}
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("users", {**USER, "id": "user_1", "email": "Straße@example.org", "email_key": "strasse@example.org"}),
    ("users", {**USER, "id": "user_2", "email": "Ann@example.org", "email_key": "ann@example.org"}),
    ("keys", {**KEY, "id": "key_1", "digest": b"1" * 32, "replaced_by": "key_2"}),
    ("keys", {**KEY, "id": "key_2", "digest": b"2" * 32, "counted_as": "key_1"}),
    ("audit", {**AUDIT, "actor": "user_2", "detail": json.dumps({"name": "k", "replaced_by": "key_2"})}),
]


def make_old_database(folder: Path, address: str) -> None:
    database = Database(folder, address)
    database.make_file()
    config = Config()
    config.set_main_option("script_location", str(opening.FOLDER))
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0004_limits")
        for table, values in ROWS:
            names = ", ".join(f'"{name}"' for name in values)
            given = ", ".join(f":{name}" for name in values)
            connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({given})"), values)
    database.close()


def test_an_old_database_knows_who_rotated_keys_and_compares_emails_by_code_point(
    tmp_path: Path, empty_address: str
) -> None:
    make_old_database(tmp_path / "var", empty_address)
    database = open_database(tmp_path / "var", empty_address)
    store, accounts = KeyStore(database), Accounts(database, session_seconds=60)
    assert [(key.id, key.issued_by, key.issuer) for key in store.list()] == [
        ("key_1", None, "user_1"),
        ("key_2", "user_2", "user_2"),
    ]
    found = [
        accounts.users.find_user(email) for email in ("STRAßE@example.org", "strasse@example.org", "ann@Example.org")
    ]
    assert [user and user.id for user in found] == ["user_1", None, "user_2"]
    database.close()


def test_users_of_an_old_file_are_carried_over_so(tmp_path: Path, migrated_postgres: str) -> None:
    empty(migrated_postgres)
    make_old_database(tmp_path, "")
    database = open_database(tmp_path, migrated_postgres)
    with database.read() as connection:
        keys = connection.execute(select(tables.users.c.email_key).order_by(tables.users.c.id)).scalars().all()
        issuers = connection.execute(select(tables.keys.c.issued_by).order_by(tables.keys.c.id)).scalars().all()
    assert keys == ["straße@example.org", "ann@example.org"]
    assert issuers == [None, "user_2"]
    database.close()
