"""Tables of the databases of other gateways, in PostgreSQL, MySQL or an SQLite file, as rows of plain values.

A database is only read: its session is read-only, its statements have a time limit, and the rows and their size have a maximum.
An SQLite file may compute its columns, so its values have a maximum too.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tornado_gate.cli.importing.files import UnreadableSource, check_kind

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

MAX_ROWS: Final = 100_000
MAX_CHARACTERS: Final = 256 * 1024 * 1024
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
"""The largest value of an SQLite file."""
CONNECT_SECONDS: Final = 10
STATEMENT_SECONDS: Final = 60
PROGRESS_STEPS: Final = 100_000
"""The steps of SQLite's machine between two looks at the clock."""
SQLITE_START: Final = b"SQLite format 3\x00"
_DRIVERS: Final = {
    **dict.fromkeys(("postgresql", "postgres"), "postgresql+psycopg"),
    **dict.fromkeys(("mysql", "mariadb"), "mysql+pymysql"),
}
_PRISMA_PARAMETERS: Final = frozenset(
    {
        "schema",
        "connection_limit",
        "pool_timeout",
        "connect_timeout",
        "pgbouncer",
        "socket_timeout",
        "statement_cache_size",
    }
)
"""Parameters of addresses that the client of LiteLLM knows, and the drivers here do not."""
_EXTRAS: Final = {"postgresql+psycopg": "postgres", "mysql+pymysql": "mysql"}

Tables = dict[str, list[dict[str, Any]]]
Columns = Mapping[str, Sequence[str]]
"""The columns to read, by table. A column that the database lacks is left out, a table that it lacks has no rows."""


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database server rather than the path of a file."""
    return text.partition("://")[0].partition("+")[0] in _DRIVERS and "://" in text


def is_sqlite(path: Path) -> bool:
    """Return whether a file is an SQLite database. Raises UnreadableSource."""
    check_kind(path)
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_START)) == SQLITE_START
    except OSError as error:
        raise UnreadableSource(f"{path} cannot be read: {error.strerror}") from None


def read_database(source: str | Path, columns: Columns, *, needed: str, product: str) -> Tables:
    """Return the rows of the tables. `source` is an address, or the path of an SQLite file.

    `needed` is the table without which the database is not one of `product`. Raises UnreadableSource.
    """
    import sqlalchemy

    url = _make_url(source)
    name = describe_source(source)
    try:
        engine = sqlalchemy.create_engine(url, connect_args=_make_arguments(url), poolclass=sqlalchemy.pool.NullPool)
    except ModuleNotFoundError:
        extra = _EXTRAS[url.drivername]
        raise UnreadableSource(f"{name}: its driver is missing; run pip install 'tornado-gate[{extra}]'") from None
    try:
        with engine.connect() as connection:
            _make_read_only(connection, source)
            known = set(sqlalchemy.inspect(connection).get_table_names())
            if needed not in known:
                raise UnreadableSource(f"{name} has no table '{needed}'; name the database of {product}")
            return _read_tables(connection, name, {table: columns[table] for table in columns if table in known})
    except (sqlalchemy.exc.SQLAlchemyError, ValueError, OverflowError) as error:
        original = getattr(error, "orig", None) or error
        cause = str(original.args[-1] if original.args else error).strip().splitlines()
        raise UnreadableSource(f"{name} cannot be read: {cause[0][:300] if cause else type(error).__name__}") from None


def describe_source(source: str | Path) -> str:
    """Return the name of a source for messages, without user and password."""
    if isinstance(source, Path):
        return str(source)
    url = _make_url(source)
    host = url.host or url.query.get("host") or "this machine"
    return f"the database '{url.database}' at {host}" + (f":{url.port}" if url.port else "")


def _make_url(source: str | Path) -> URL:
    import sqlalchemy

    if isinstance(source, Path):
        return sqlalchemy.URL.create("sqlite", database=source.absolute().as_uri(), query={"mode": "ro", "uri": "true"})
    try:
        url = sqlalchemy.make_url(source)
    except (sqlalchemy.exc.ArgumentError, ValueError):
        message = (
            "the address cannot be parsed; write postgresql://user:password@host:5432/name, with special characters of "
            "the password as %XX"
        )
        raise UnreadableSource(message) from None
    driver = _DRIVERS[url.drivername.partition("+")[0]]
    query = {name: value for name, value in url.query.items() if name not in _PRISMA_PARAMETERS}
    return url.set(drivername=driver, query=query)


def _make_arguments(url: URL) -> dict[str, Any]:
    """Return the arguments of the driver, with its time limits."""
    if url.drivername.startswith("postgresql"):
        return {"connect_timeout": CONNECT_SECONDS}
    if url.drivername.startswith("mysql"):
        return {"connect_timeout": CONNECT_SECONDS, "read_timeout": STATEMENT_SECONDS}
    return {"timeout": CONNECT_SECONDS}


def _make_read_only(connection: Connection, source: str | Path) -> None:
    """Let the server refuse every change, and end statements that take too long. An SQLite file is opened read-only."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1000}")
        if (schema := _find_schema(str(source))) is not None:
            connection.exec_driver_sql("SELECT set_config('search_path', %s, true)", (schema,))
            connection.dialect.default_schema_name = schema.strip('"')
    elif connection.dialect.name == "mysql":
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        connection.rollback()  # the setting applies from the next transaction
    else:
        _limit_sqlite(connection.connection.dbapi_connection)


def _limit_sqlite(driver: Any) -> None:
    """Bound the values and the time of an SQLite file, which may have columns that its author computes."""
    driver.execute("PRAGMA trusted_schema = OFF")
    driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    ends = time.monotonic() + STATEMENT_SECONDS
    driver.set_progress_handler(lambda: time.monotonic() > ends, PROGRESS_STEPS)


def _find_schema(address: str) -> str | None:
    """Return the quoted schema that an address of Prisma names."""
    import sqlalchemy

    schema = sqlalchemy.make_url(address).query.get("schema")
    return '"' + schema.replace('"', "") + '"' if isinstance(schema, str) else None


def _read_tables(connection: Connection, name: str, columns: Columns) -> Tables:
    rest = MAX_CHARACTERS
    tables: Tables = {}
    for table, wanted in columns.items():
        rows: list[dict[str, Any]] = []
        tables[table] = rows
        for row in _select_rows(connection, table, wanted):
            rest -= sum(len(value) for value in row.values() if isinstance(value, (str, bytes)))
            if len(rows) == MAX_ROWS:
                raise UnreadableSource(f"{name}: the table '{table}' has more than {MAX_ROWS} rows")
            if rest < 0:
                raise UnreadableSource(f"{name}: the tables have more than {MAX_CHARACTERS >> 20} MiB of text")
            rows.append(row)
    return tables


def _select_rows(connection: Connection, table: str, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, ordered by its first wanted column."""
    import sqlalchemy

    empty = sqlalchemy.select(sqlalchemy.text("*")).select_from(sqlalchemy.table(table)).limit(0)
    known = set(connection.execute(empty).keys())
    columns: list[Any] = [sqlalchemy.column(name) for name in wanted if name in known]
    if not columns:
        return
    query = sqlalchemy.select(*columns).select_from(sqlalchemy.table(table)).order_by(columns[0]).limit(MAX_ROWS + 1)
    at_once = 1 if connection.dialect.name == "sqlite" else 1000  # a row of a file may be large
    result = connection.execution_options(stream_results=True, yield_per=at_once).execute(query)
    for row in result.mappings():
        yield dict(row)
