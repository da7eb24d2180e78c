"""`check --online` asks the engines of conf; what does not work is a fault with its line, and nothing is changed."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.databases import *  # noqa: F403
from tests.support.gateway import run_command
from tests.support.postgres import PostgresServer
from tests.support.s3 import S3
from tests.support.valkey import Valkey
from tornado_gate.cli.engine_check import check_engines
from tornado_gate.config import load
from tornado_gate.database.opening import open_database

LOCAL = "plugins: {local: true}\nproviders: {local: {plugin: local}}\nmodels: {local-chat: {provider: local}}\n"


def check(folder: Path, conf: str) -> tuple[int, str]:
    (folder / "gate.yaml").write_text(LOCAL + conf, encoding="utf-8")
    done = run_command("check", "--online", "--conf", "gate.yaml", folder=folder)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def find_closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_each_engine_without_an_answer_is_a_fault_with_its_line(tmp_path: Path) -> None:
    closed = f"127.0.0.1:{find_closed_port()}"
    database, store = f"postgresql://gate:a-password@{closed}/gate", f"redis://{closed}/0"
    status, printed = check(tmp_path, f'database: "{database}"\nlimits: {{store: "{store}"}}\n')
    assert status == 1
    assert "gate.yaml:4: database: " in printed
    assert "gate.yaml:5: limits.store: " in printed
    assert "a-password" not in printed


def test_a_client_that_is_not_installed_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "tornado_gate.admission.redis_store", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    file = tmp_path / "gate.yaml"
    file.write_text(LOCAL + 'limits: {store: "redis://127.0.0.1:9/0"}\n', encoding="utf-8")
    message = "needs the package 'redis': install tornado-gate[redis]"
    assert list(check_engines(load(file, {}))) == [(("limits", "store"), message)]


@pytest.mark.qa
def test_engines_that_work_are_listed_and_not_changed(postgres: PostgresServer, tmp_path: Path) -> None:
    store, objects = Valkey(), S3()
    address = postgres.create("checked")
    try:
        conf = f'database: "{address}"\nlimits: {{store: "{store.url}"}}\n{objects.make_conf()}'
        status, printed = check(tmp_path, conf)
        assert status == 0, printed
        assert "The first start makes its tables." in printed
        assert "limits.store: It answered within " in printed
        assert "media.store: The bucket takes, lists and deletes objects." in printed
        assert objects.list_keys() == []
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
        open_database(tmp_path, address).close()
        assert "Its tables are up to date." in check(tmp_path, conf)[1]
        with psycopg.connect(address) as connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999_later'")
        status, printed = check(tmp_path, conf.replace(objects.url, f"http://127.0.0.1:{find_closed_port()}"))
        assert status == 1
        assert "gate.yaml:4: database: " in printed
        assert "created by a newer tornado-gate" in printed
        assert "gate.yaml:6: media.endpoint: the object store cannot be reached" in printed
    finally:
        postgres.drop("checked")
        store.kill()
        objects.kill()
