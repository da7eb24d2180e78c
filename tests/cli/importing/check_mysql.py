"""`import new-api` from a real MariaDB, with the column types that new-api makes in MySQL.

``make check-mysql`` runs it by hand, because pip cannot install a server: Debian's package mariadb-server has one. It starts a
server of its own in a temporary folder.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cli.importing.support import run
from tests.cli.importing.test_new_api import NEW_API, USERS, make_channel, make_token

PASSWORD = "p@ss:word"
NAME = "kanał 频道 🦉"
_TYPES = {
    " key text": " `key` longtext",
    "numeric": "tinyint(1)",
    "datetime": "datetime(3)",
    " text": " longtext",
    "integer": "bigint",
}


def main() -> int:
    programs = [
        shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in ("mariadbd", "mariadb-install-db")
    ]
    if None in programs:
        print("mariadbd is not installed. Debian's package mariadb-server has it.", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="tornado-gate-", dir="/tmp") as name,
        run_server(Path(name), programs) as port,
    ):
        fill(port)
        check_import(Path(name), port)
        check_refusals(port)
    print("import new-api: MariaDB's rows are carried, nothing can be changed there, refusals are one line")
    return 0


@contextmanager
def run_server(folder: Path, programs: list[Any]) -> Iterator[int]:
    """Run a server with empty databases; yield its port."""
    server, install = programs
    data = folder / "data"
    options = ["--no-defaults", f"--datadir={data}", f"--tmpdir={folder}", f"--user={getpass.getuser()}"]
    made = [install, *options, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    listen = [f"--socket={data}/socket", f"--port={port}", "--bind-address=127.0.0.1"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([server, *options, *listen], stderr=log) as process,
    ):
        try:
            yield port
        finally:
            process.terminate()


def connect(port: int, **options: Any) -> Any:
    """Return a connection as root, when the server accepts one."""
    import pymysql

    ends = time.monotonic() + 60
    while True:
        try:
            return pymysql.connect(
                host="127.0.0.1", port=port, user="root", autocommit=True, charset="utf8mb4", **options
            )
        except pymysql.OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


def fill(port: int) -> None:
    """Make new-api's database, and the user of the import, who might also change it."""
    schema = NEW_API
    for plain, own in _TYPES.items():
        schema = schema.replace(plain, own)
    tables = {
        "channels": [{"id": 1, **make_channel(name=NAME, channel_info='{"is_multi_key": false}')}],
        "tokens": [
            {"id": 1, **make_token(deleted_at=None)},
            {"id": 2, **make_token(key="d" * 48, deleted_at="2026-01-02")},
        ],
        "users": USERS,
    }
    with connect(port) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE `new-api` CHARACTER SET utf8mb4")
        cursor.execute("CREATE DATABASE empty")
        cursor.execute("CREATE USER gate@'127.0.0.1' IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute("GRANT ALL ON *.* TO gate@'127.0.0.1'")
        cursor.execute("USE `new-api`")
        for statement in schema.split(";")[:-1]:
            cursor.execute(statement)
        for table, rows in tables.items():
            for row in rows:
                columns, marks = ", ".join(f"`{name}`" for name in row), ", ".join("%s" for _ in row)
                cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(row.values()))


def check_import(folder: Path, port: int) -> None:
    """Import by both names of the driver."""
    from sqlalchemy import create_engine, exc

    from tornado_gate.cli.importing import databases

    for scheme in ("mysql", "mariadb"):
        output = folder / f"{scheme}.yaml"
        result = run("import", "new-api", f"{scheme}://gate:p%40ss%3Aword@127.0.0.1:{port}/new-api", "--output", output)
        assert result.exit_code == 0, result.output
        assert PASSWORD not in result.output
        conf = yaml.safe_load(output.read_text(encoding="utf-8"))
        assert [entry["api_key"] for entry in conf["providers"].values()] == ["sk-up"], conf
        assert [entry["key"] for entry in conf["keys"]] == ["sk-" + "k" * 48], conf
    url = databases._make_url(f"mysql://gate:p%40ss%3Aword@127.0.0.1:{port}/new-api")
    with create_engine(url).connect() as connection:
        databases._make_read_only(connection, str(url))
        try:
            connection.exec_driver_sql("DELETE FROM tokens")
        except exc.SQLAlchemyError as error:
            assert "READ ONLY" in str(error), error
        else:
            raise AssertionError("the import could change the database")


def check_refusals(port: int) -> None:
    address = f"127.0.0.1:{port}"
    cases = {
        f"mysql://gate:wrong-word@{address}/new-api": "Access denied for user",
        f"mysql://gate:p%40ss%3Aword@{address}/nobody": "Unknown database 'nobody'",
        f"mysql://gate:p%40ss%3Aword@{address}/empty": "has no table 'channels'",
        "mysql://gate:p%40ss%3Aword@127.0.0.1:9/new-api": "Can't connect to MySQL server",
    }
    for source, expected in cases.items():
        result = run("import", "new-api", source)
        lines = result.output.strip().splitlines()
        assert (result.exit_code, len(lines), expected in lines[0]) == (1, 1, True), result.output
        assert "word@" not in result.output


if __name__ == "__main__":
    sys.exit(main())
