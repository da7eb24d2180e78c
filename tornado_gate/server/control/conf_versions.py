"""The versions of a configuration in PostgreSQL. The functions block, and raise DatabaseError."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Row, delete, func, insert, select, text
from sqlalchemy.engine import Connection

from tornado_gate.accounts.texts import shorten
from tornado_gate.config.entry_edits import list_secret_names
from tornado_gate.config.source import digest_text
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database
from tornado_gate.database.node_tables import conf_secrets, conf_versions
from tornado_gate.database.notifications import CONFIGURATION, send_notice
from tornado_gate.types.value import Value

MAX_VERSIONS: Final = 200
"""The number of versions that are kept."""
_LOCK: Final = 7_238_411_907
"""The number of the advisory lock of changes: any constant that no other program uses in the same database."""
_COLUMNS: Final = [column for column in conf_versions.c if column.name != "text"]

Mark = tuple[int, float]


class ConfVersion(Value, frozen=True, kw_only=True):
    """A version without its text. `made` is a Unix time on the clock of the database, `digest` the digest of the text."""

    number: int
    digest: str
    made: float
    made_by: str
    message: str


class BaseMoved(Exception):
    """The newest version is `newest`, not the one for which the change was made."""

    def __init__(self, newest: int) -> None:
        super().__init__(f"the newest version is {newest}")
        self.newest = newest


@contextmanager
def open_conf_database(address: str) -> Iterator[Database]:
    """Yield the database with the configuration, for one change or command."""
    database = Database(Path(), address)
    try:
        yield database
    finally:
        database.close()


def read_newest(path: StoredConf, *, with_drafts: bool = False) -> StoredConf | None:
    """Return the newest version in the database of `path`; None if there is none. `with_drafts` as in `read_conf`."""
    with open_conf_database(path.address) as database:
        return read_conf(database, path.address, with_drafts=with_drafts)


def read_conf(
    database: Database, address: str, number: int | None = None, *, with_drafts: bool = False
) -> StoredConf | None:
    """Return the version `number`, or the newest one, with the secrets that it names; None if there is none.

    With `with_drafts` all secrets are read, also those that only a change names which is being made.
    """
    query = select(conf_versions).order_by(conf_versions.c.number.desc()).limit(1)
    if number is not None:
        query = query.where(conf_versions.c.number == number)
    with database.read() as connection:
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        secrets = read_secrets(connection, None if with_drafts else list_secret_names(row.text))
    return StoredConf.make(address, row.number, row.text, secrets)


def read_mark(database: Database) -> Mark:
    """Return a value that changes with each new version and each change of a secret."""
    newest = select(func.coalesce(func.max(conf_versions.c.number), 0)).scalar_subquery()
    written = select(func.coalesce(func.max(conf_secrets.c.written), 0)).scalar_subquery()
    with database.read() as connection:
        row = connection.execute(select(newest, written)).one()
    return int(row[0]), float(row[1])


def list_versions(database: Database) -> list[ConfVersion]:
    """Return the versions that are kept, newest first."""
    with database.read() as connection:
        rows = connection.execute(select(*_COLUMNS).order_by(conf_versions.c.number.desc())).all()
    return [ConfVersion(**row._mapping) for row in rows]


def find_previous_text(database: Database, digest: str) -> str | None:
    """Return the text before the newest version with this digest; None if it is not kept."""
    table = conf_versions
    newest = select(func.max(table.c.number)).where(table.c.digest == digest).scalar_subquery()
    query = select(table.c.text).where(table.c.number < newest).order_by(table.c.number.desc()).limit(1)
    with database.read() as connection:
        return connection.execute(query).scalar_one_or_none()


def lock_versions(connection: Connection) -> None:
    """Wait for all other changes of versions and secrets, until the end of the transaction."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})


def add_version(connection: Connection, content: str, *, base: int | None, author: str, message: str) -> int:
    """Add a version and return its number. All nodes get a notice when the transaction commits.

    Raises BaseMoved if the newest version is not `base`; None adds it after any version.
    """
    lock_versions(connection)
    newest: int = connection.execute(select(func.coalesce(func.max(conf_versions.c.number), 0))).scalar_one()
    if base is not None and newest != base:
        raise BaseMoved(newest)
    row: dict[str, Any] = {
        "number": newest + 1,
        "digest": digest_text(content),
        "text": content,
        "made": CLOCK,
        "made_by": shorten(author, 320),
        "message": shorten(message, 500),
    }
    connection.execute(insert(conf_versions).values(row))
    connection.execute(delete(conf_versions).where(conf_versions.c.number <= newest + 1 - MAX_VERSIONS))
    send_notice(connection, CONFIGURATION)
    return newest + 1


def read_secrets(connection: Connection, names: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
    """Return the encrypted entries of secrets, as `SecretStore` has them; None reads all."""
    query = select(conf_secrets)
    if names is not None:
        query = query.where(conf_secrets.c.name.in_(names))
    return {row.name: _make_entry(row) for row in connection.execute(query)}


def _make_entry(row: Row[Any]) -> dict[str, Any]:
    entry = {"value": row.value, "changed": row.changed}
    return entry if row.retired is None else {**entry, "retired": row.retired}
