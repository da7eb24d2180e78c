"""One SQLite file that threads, processes and forks share, with detection of a replaced file and explanations of
failures.

The module depends on no table. Everything here blocks on the disk: call it from a thread if an event loop runs.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tornado_gate.storage.private import FILE_MODE, make_folder, open_private
from tornado_gate.types.value import Value

BUSY_SECONDS = 5.0
CACHE_STATEMENT = "PRAGMA cache_size = -512"
"""The pages that a connection keeps in memory, in KiB: a process has several connections, and the kernel caches the files."""


class Schema(Value, frozen=True, kw_only=True):
    """Idempotent statements that create the tables. `version` is stored in the file's ``user_version``."""

    version: int
    statements: tuple[str, ...]


class SqliteFile:
    """The file at `path`. Every failure is raised as `error`, with a message that names the file and the remedy."""

    def __init__(self, path: Path, schema: Schema, error: type[Exception]) -> None:
        self.path = path.absolute()
        self._schema = schema
        self._error = error
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._connected_to: tuple[int, int, int] | None = None
        self._of_the_parent: list[sqlite3.Connection] = []

    def make(self) -> None:
        """Create the file, its folder (both readable by their owner only) and the tables, where they are missing."""
        with self._map_errors():
            make_folder(self.path.parent)
            with suppress(FileExistsError):
                os.close(open_private(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            with suppress(PermissionError):  # the folder has another owner, who sets its permissions
                self.path.chmod(FILE_MODE)
        with self.use_connection():
            pass

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def use_connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, locked for this thread inside the block."""
        with self._lock, self._map_errors():
            yield self._get_connection()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction; the end of the block commits it, an exception rolls it back."""
        with self.use_connection() as connection, _open_transaction(connection):
            yield connection

    def _get_connection(self) -> sqlite3.Connection:
        """Return a connection to the current file: it may have been replaced, and the process may be a fork."""
        status = self.path.stat()
        identity = (os.getpid(), status.st_dev, status.st_ino)
        if self._connection is not None and identity != self._connected_to:
            if self._connected_to is not None and self._connected_to[0] != identity[0]:
                self._of_the_parent.append(self._connection)  # SQLite forbids using or closing it after a fork
            else:
                self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = self._open_connection()
            self._connected_to = identity
        return self._connection

    def _open_connection(self) -> sqlite3.Connection:
        address = f"{self.path.as_uri()}?mode=rw"  # never create a file here: a missing one must be noticed
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(CACHE_STATEMENT)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > self._schema.version:
                raise self._error(
                    f"{self.path} was created by a newer tornado-gate (its schema is {version}, this version supports "
                    f"{self._schema.version}). Upgrade, or use another server.data_dir."
                )
            if version < self._schema.version:
                _make_tables(connection, self._schema)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise self._error(f"{self.path} {explain_error(error)}") from error


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log. Waits while another process uses the file."""
    ends = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:  # the busy timeout does not apply to this statement
            if not get_error_code(error).startswith("SQLITE_BUSY") or time.monotonic() > ends:
                raise
            time.sleep(0.02)


def _make_tables(connection: sqlite3.Connection, schema: Schema) -> None:
    """Create the tables. Several processes may run this at the same time."""
    switch_to_wal(connection)
    with _open_transaction(connection):
        for statement in schema.statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {schema.version}")


@contextmanager
def _open_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def get_error_code(error: Exception) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def explain_error(error: Exception) -> str:
    """Return the cause and the remedy of an error."""
    number = error.errno if isinstance(error, OSError) else None
    code = get_error_code(error)
    if code.startswith("SQLITE_FULL") or number in (errno.ENOSPC, errno.EDQUOT):
        return "cannot be written: its disk is full. Free some space and try again."
    if code.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or number in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            "cannot be written: it, or its folder, is read-only for this user. Let the user who runs the gateway "
            "write there, or name another folder in server.data_dir."
        )
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or isinstance(error, (ValueError, TypeError)):
        return "is damaged, or not a database of the gateway. Restore a backup, or move the file away to start with an empty one."
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"was locked by another process for more than {BUSY_SECONDS:g} seconds. Try again."
    if number == errno.ENOENT:
        return "is missing. Restore it, or restart the gateway to start with an empty one."
    return f"cannot be used: {error}. Check server.data_dir and the disk."
