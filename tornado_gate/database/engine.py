"""The database, by SQLAlchemy Core: an SQLite file in the data directory, or PostgreSQL when conf has `database`.

All access blocks. From an event loop use `Database.run`, which has separate threads, so that a database which hangs
does not block other work. Safe for threads, processes and forks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import QueuePool

from tornado_gate.database.interruption import DatabaseCall, note_connection
from tornado_gate.storage.private import FILE_MODE, KEY_FILE, make_folder, open_private
from tornado_gate.storage.sqlite import BUSY_SECONDS, CACHE_STATEMENT, explain_error, switch_to_wal

Given = ParamSpec("Given")
Result = TypeVar("Result")

CONNECTIONS = 4
"""The maximum number of connections of a process, and of its threads for the database."""
CONNECT_SECONDS = 5
STATEMENT_MILLISECONDS = 30_000
LONGEST_SECONDS = 35.0
"""The time limit of a function that uses PostgreSQL, its wait for a thread included: longer than that of one statement."""
_LOST_SERVER = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""Options of libpq: a connection whose server has disappeared without closing it fails within 25 s, not within hours."""
_WRITES = "gate_writes"
_LOCK_TIMEOUT = "55P03"


class DatabaseError(Exception):
    """The database cannot be used. The message names the file or the server, the cause and what to do."""


def is_lock_timeout(error: DatabaseError) -> bool:
    """Return whether a statement has failed because PostgreSQL's `lock_timeout` has ended its wait for a lock."""
    cause = getattr(error.__cause__, "orig", None)
    return getattr(cause, "sqlstate", "") == _LOCK_TIMEOUT


class Database:
    """One database. Every method raises DatabaseError if it is missing, damaged, unreachable, locked for too long or read-only.

    `name` identifies the database, without a password. `is_file` is false for PostgreSQL.
    """

    def __init__(self, data_dir: Path, address: str = "") -> None:
        self.data_dir = data_dir.absolute()
        self.path = self.data_dir / KEY_FILE
        self.is_file = not address
        try:
            self._url = URL.create("sqlite", database=str(self.path)) if self.is_file else parse_address(address)
        except ValueError as error:
            raise DatabaseError(f"the address of the database {error}") from None
        self.name = str(self.path) if self.is_file else describe_address(self._url)
        self._engine = self._create_engine()
        self._threads: ThreadPoolExecutor | None = None
        self._of_the_parent: list[Any] = []
        _OPEN.add(self)

    @property
    def dialect(self) -> str:
        """Return "sqlite" or "postgresql"."""
        return self._engine.dialect.name

    def close(self) -> None:
        """Close all connections. The next call opens them again."""
        self._engine.dispose()
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def run(self, function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Return the result of `function`, which uses this database, from one of the database's threads."""
        return await self.run_within(LONGEST_SECONDS, function, *given, **named)

    async def run_within(
        self, seconds: float, function: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs
    ) -> Result:
        """Return the result as `run` does, within `seconds` even if the server is silent. A file has its own time limit."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="database")
        loop = asyncio.get_running_loop()
        if self.is_file:
            return await loop.run_in_executor(self._threads, lambda: function(*given, **named))
        call = DatabaseCall(lambda: function(*given, **named))
        try:
            async with asyncio.timeout(seconds):
                result: Result = await loop.run_in_executor(self._threads, call)
        except TimeoutError as error:
            call.interrupt()
            raise DatabaseError(f"{self.name} has not answered within {seconds:g} s. Check the server.") from error
        return result

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection in a transaction for reading."""
        with self.map_errors(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction for writing; the end of the block commits it, an exception rolls it back.

        In SQLite the transaction has the write lock from its start, so that another one never makes it fail in its
        middle.
        """
        with (
            self.map_errors(),
            self._engine.connect().execution_options(**{_WRITES: True}) as connection,
            connection.begin(),
        ):
            yield connection

    def listen(self, channel: str) -> Connection:
        """Return a new connection that listens to a channel of PostgreSQL, outside of the pool. Its owner closes it."""
        with self.map_errors():
            connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            try:
                connection.exec_driver_sql(f"LISTEN {channel}")
                connection.detach()
            except BaseException:
                connection.close()
                raise
            return connection

    @contextmanager
    def map_errors(self) -> Iterator[None]:
        """Raise failures of the database as DatabaseError."""
        try:
            yield
        except sqlalchemy.exc.IntegrityError:
            raise  # an error of the caller: a value that must be unique is not
        except sqlalchemy.exc.DBAPIError as error:
            cause = error.orig if isinstance(error.orig, Exception) else error
            raise DatabaseError(self._explain_error(cause)) from error
        except (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, OSError, json.JSONDecodeError) as error:
            raise DatabaseError(self._explain_error(error)) from error

    def _explain_error(self, error: Exception) -> str:
        if self.is_file:
            return f"{self.name} {explain_error(error)}"
        lines = str(error).strip().splitlines()
        return (
            f"{self.name} cannot be used: {lines[0][:300] if lines else type(error).__name__}. "
            "Check `database` in conf and the server."
        )

    def make_file(self) -> None:
        """Create the SQLite file, readable by its owner only, where it is missing; for PostgreSQL the data directory only."""
        with self.map_errors():
            make_folder(self.path.parent)
            if not self.is_file:
                return
            with suppress(FileExistsError):
                os.close(open_private(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            with suppress(PermissionError):  # the folder has another owner, who sets its permissions
                self.path.chmod(FILE_MODE)

    def _create_engine(self) -> Engine:
        # Last in, first out: the most recently used connection has pages and statements in memory.
        settings: dict[str, Any] = {
            **{"poolclass": QueuePool, "pool_size": CONNECTIONS, "max_overflow": 0},
            "pool_use_lifo": True,
        }
        if self.is_file:
            engine = sqlalchemy.create_engine(self._url, creator=self._connect_to_file, **settings)
            event.listen(engine, "begin", _begin_in_sqlite)
        else:
            # The compilation of a report takes longer than its execution.
            options = f"-c statement_timeout={STATEMENT_MILLISECONDS} -c timezone=UTC -c jit=off"
            arguments = {"connect_timeout": CONNECT_SECONDS, "options": options, "application_name": "tornado-gate"}
            arguments |= _LOST_SERVER
            engine = sqlalchemy.create_engine(self._url, connect_args=arguments, **settings)
        event.listen(engine, "connect", self._mark_connection)
        event.listen(engine, "checkout", self._check_connection)
        if not self.is_file:
            for name in ("checkin", "invalidate", "close"):
                event.listen(engine, name, _forget_connection)
        return engine

    def _connect_to_file(self) -> sqlite3.Connection:
        address = f"{self.path.as_uri()}?mode=rw"  # never create a file here: a missing one must be noticed
        if not self.path.exists():
            raise FileNotFoundError(2, "No such file", str(self.path))
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            switch_to_wal(connection)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(CACHE_STATEMENT)
        except BaseException:
            connection.close()
            raise
        return connection

    def _mark_connection(self, _connection: Any, record: Any) -> None:
        record.info["opened"] = self._identify_file()
        record.info["is_new"] = True

    def _check_connection(self, connection: Any, record: Any, _proxy: Any) -> None:
        """Discard a connection to a file that has been replaced since, or to a server that has closed it.

        The connection is noted first: SQLAlchemy's own check is done before this event, and could not be interrupted.
        """
        is_new = record.info.pop("is_new", False)
        if not self.is_file:
            note_connection(connection)
            if not is_new:
                _check_server(connection)
        if record.info["opened"] != self._identify_file():
            raise sqlalchemy.exc.DisconnectionError("the database file was replaced")

    def _identify_file(self) -> tuple[int, int]:
        if not self.is_file:
            return (0, 0)
        status = self.path.stat()
        return (status.st_dev, status.st_ino)

    def _forget_connections_of_parent(self) -> None:
        """Drop the parent's connections after a fork. They may be neither used nor closed."""
        self._of_the_parent.append(self._engine.pool)
        self._engine.dispose(close=False)
        self._threads = None


def parse_address(address: str) -> URL:
    """Return the URL of a PostgreSQL database. Raises ValueError, without the address in its message: it may have a
    password.
    """
    try:
        url = make_url(address)
    except (sqlalchemy.exc.ArgumentError, ValueError):  # the second for a port that is not a number
        raise ValueError("must be an address such as postgresql://user:password@host:5432/name") from None
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError("must begin with postgresql://; leave the key out for the SQLite file in server.data_dir")
    return url.set(drivername="postgresql+psycopg")


def describe_address(url: URL) -> str:
    """Describe a PostgreSQL database in words, without user and password."""
    host = url.host or url.query.get("host") or "this machine"
    return f"PostgreSQL database '{url.database}' at {host}" + (f":{url.port}" if url.port else "")


def _check_server(connection: Any) -> None:
    """Raise DisconnectionError, after which the pool takes another connection, if the server does not answer on this one."""
    try:
        connection.autocommit = True
        connection.execute("SELECT 1")
        connection.autocommit = False
    except Exception as error:
        raise sqlalchemy.exc.DisconnectionError("the server has closed the connection") from error


def _forget_connection(*_given: Any) -> None:
    """The connection goes back to the pool, or is about to be closed."""
    note_connection(None)


def _begin_in_sqlite(connection: Connection) -> None:
    """Begin a transaction. Python's driver would begin it too, but only before some statements."""
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


def _forget_parents() -> None:
    for database in tuple(_OPEN):
        database._forget_connections_of_parent()


os.register_at_fork(after_in_child=_forget_parents)
