"""Insert many rows into PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError


def copy_rows(connection: Connection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows into PostgreSQL with a COPY statement, the cheapest way. Raises DBAPIError."""
    driver: Any = connection.dialect.loaded_dbapi
    cursor: Any = connection.connection.cursor()
    try:
        with cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except driver.Error as error:  # SQLAlchemy translates errors of its own statements only
        raise DBAPIError.instance(statement, None, error, driver.Error, dialect=connection.dialect) from error
