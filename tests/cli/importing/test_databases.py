"""Databases of Bifrost and new-api: an SQLite file, and PostgreSQL; they are read without a change."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from urllib.error import HTTPError

import psycopg
import pytest

from tests.cli.importing.support import FILES, import_conf, run
from tests.cli.importing.test_new_api import NEW_API, USERS, make_channel, make_token
from tests.support.control import call
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream
from tests.support.wire_answers import make_answer
from tornado_gate.cli.importing import databases
from tornado_gate.cli.importing.files import UnreadableSource

HIDDEN_KEY = "sk-bf-hidden-0123456789"


def make_bifrost(file: Path, url: str) -> Path:
    text = (FILES / "bifrost.sql").read_text(encoding="utf-8").replace("UPSTREAM", url)
    with sqlite3.connect(file) as database:
        database.executescript(text)
        digest = hashlib.sha256(HIDDEN_KEY.encode()).hexdigest()
        database.execute("UPDATE governance_virtual_keys SET value_hash = ? WHERE id = 'vk-2'", [digest])
    database.close()
    return file


@pytest.mark.qa
def test_a_config_store_of_bifrost_is_carried_and_its_encrypted_key_works(tmp_path: Path) -> None:
    upstream = Upstream.start()
    upstream.script(make_answer("chat", ["Hello"], stream=False))
    file, keys = make_bifrost(tmp_path / "config store.db", upstream.url), tmp_path / "keys.json"
    before = file.read_bytes()
    result = run("import", "bifrost", file, "--output", tmp_path / "gate.yaml", "--keys", keys)
    assert file.read_bytes() == before
    assert "governance.routing_rules" in result.output
    assert "OPENAI_KEY_A, SECOND_API_KEY" in result.output
    conf = (tmp_path / "gate.yaml").read_text(encoding="utf-8")
    for expected in (
        "${SECOND_API_KEY}",
        "usd_per_month: 500",
        "usd_per_month: 9",
        "requests_per_minute: 100",
        "sk-bf-plain",
    ):
        assert expected in conf, expected
    (key,) = json.loads(keys.read_text(encoding="utf-8"))["keys"]
    assert (key["name"], key["team"], key["budget"]) == ("hidden", "research", {"usd_per_day": 7})
    variables = {"OPENAI_KEY_A": "key-of-a", "SECOND_API_KEY": "key-of-b"}
    added = run(
        "keys", "import", keys, "--conf", tmp_path / "gate.yaml", "--data-dir", tmp_path / "var", variables=variables
    )
    assert added.output.startswith("1 keys added"), added.output
    gateway = Gateway.start(conf, tmp_path, environment=variables)
    try:
        body = {"model": "openai/gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}
        call("POST", f"{gateway.url}/v1/chat/completions", body, key=HIDDEN_KEY)
        with pytest.raises(HTTPError, match="403"):
            call("POST", f"{gateway.url}/v1/chat/completions", {**body, "model": "gpt-4o-mini"}, key=HIDDEN_KEY)
    finally:
        gateway.stop()
        upstream.stop()


def test_a_postgresql_database_of_new_api_is_carried_and_cannot_be_changed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    address = postgres.create("new-api")
    schema = NEW_API.replace("`", '"').replace("datetime", "timestamptz").replace(" numeric", " boolean")
    with psycopg.connect(address) as connection:
        connection.execute(schema.encode())
        tables = {"channels": [{"id": 1, **make_channel()}], "tokens": [{"id": 1, **make_token()}], "users": USERS}
        for table, rows in tables.items():
            for row in rows:
                columns = ", ".join(f'"{name}"' for name in row)
                marks = ", ".join("%s" for _ in row)
                values = [bool(value) if name == "unlimited_quota" else value for name, value in row.items()]
                connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})".encode(), values)
    output = tmp_path / "gate.yaml"
    result = run("import", "new-api", address, "--output", output)
    assert result.exit_code == 0, result.output
    text = output.read_text(encoding="utf-8")
    assert "sk-" + "k" * 48 in text
    assert postgres.password not in text
    postgres.drop("new-api")


@pytest.mark.qa
def test_the_rows_and_the_text_of_a_database_have_a_maximum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_bifrost(tmp_path / "config.db", "http://127.0.0.1:9")
    monkeypatch.setattr(databases, "MAX_ROWS", 1)
    assert "has more than 1 rows" in run("import", "bifrost", file).output
    monkeypatch.setattr(databases, "MAX_ROWS", 100)
    monkeypatch.setattr(databases, "MAX_CHARACTERS", 20)
    assert "MiB of text" in run("import", "bifrost", file).output


SOURCES = [
    ("postgresql://h:port/x", "the address cannot be parsed; write postgresql://user:password@host:5432/name"),
    ("postgresql://ann:secret@127.0.0.1:9/x", "the database 'x' at 127.0.0.1:9 cannot be read: "),
    ("missing.db", "missing.db cannot be read: No such file or directory"),
    ("/dev/zero", "/dev/zero is not a file"),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_a_source_that_cannot_be_read_is_named_without_its_password(source: str, expected: str) -> None:
    result = run("import", "bifrost", source)
    assert (result.exit_code, "secret" in result.output) == (1, False)
    assert expected in result.output


def test_a_column_that_a_file_computes_has_a_maximum_of_space_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "hostile.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE t (a INTEGER, b TEXT AS (hex(zeroblob(a))))")
        database.execute("INSERT INTO t (a) VALUES (1)")
        database.execute("UPDATE t SET a = ?", [databases.MAX_VALUE_BYTES])
    database.close()
    with pytest.raises(UnreadableSource, match="too big"):
        databases.read_database(file, {"t": ("a", "b")}, needed="t", product="x")
    monkeypatch.setattr(databases, "STATEMENT_SECONDS", -1)
    monkeypatch.setattr(databases, "PROGRESS_STEPS", 1)
    with pytest.raises(UnreadableSource, match="interrupted"):
        databases.read_database(file, {"t": ("a",)}, needed="t", product="x")


def test_a_damaged_sqlite_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "config.db"
    file.write_bytes(databases.SQLITE_START + b"\x00" * 500)
    with pytest.raises(UnreadableSource, match=r"config\.db cannot be read: file is not a database"):
        databases.read_database(file, {"t": ("a",)}, needed="t", product="x")
    assert import_conf("new-api", file)[0].exit_code == 1
