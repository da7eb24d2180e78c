"""The revision of people and keys, and the lock of changes to them: both are one row of `meta`.

Every process polls the revision. In PostgreSQL a notice makes all processes read it immediately.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Text, cast, select, update
from sqlalchemy.engine import Connection

from tornado_gate.database import tables
from tornado_gate.database.notifications import KEYS, send_notice


def lock_accounts(connection: Connection) -> None:
    """Wait for all other changes of people and keys, until the end of the transaction.

    Every transaction that changes both, or checks something before it changes it, begins with this. Otherwise two
    transactions could lock the same rows in different orders, and PostgreSQL would abort one. In SQLite writing
    transactions exclude each other.
    """
    connection.execute(select(tables.meta.c.value).where(tables.meta.c.name == "revision").with_for_update())


def bump_revision(connection: Connection) -> None:
    """Make all processes read keys again, within a second. Call it in every transaction that changes permissions of a
    key.

    Such a transaction begins with `lock_accounts`.
    """
    meta = tables.meta
    change = update(meta).where(meta.c.name == "revision")
    connection.execute(change.values(value=cast(cast(meta.c.value, BigInteger) + 1, Text)))
    send_notice(connection, KEYS)
