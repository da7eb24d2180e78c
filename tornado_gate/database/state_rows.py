"""The rows of kept values. The functions are synchronous; each runs in a transaction of its caller, on PostgreSQL.

The names of the values of a group begin with the name of its head and a colon. Whoever changes a group locks its head first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection
from sqlalchemy.sql import ColumnElement

from tornado_gate.account_shares import evict
from tornado_gate.database.clock import CLOCK
from tornado_gate.database.shared_rows import hash_name
from tornado_gate.database.state_tables import kept_values

LONGEST_NAME = 1000
"""Bytes of a name: an index of PostgreSQL has a limit."""
BATCH = 1000
ROW_BYTES = 128
"""Space of a row and its index entries besides its strings."""
_PRUNE_LOCK = 7_238_415
"""The number of the advisory lock of the process that prunes: any constant that no other program uses in the same database."""

_column = kept_values.c


def read_values(connection: Connection, account: str, names: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the values of these names that exist and have not expired."""
    values: dict[bytes, bytes] = {}
    owner = hash_name(account)
    for first in range(0, len(names), BATCH):
        is_asked = and_(
            _column.account == owner, _column.name.in_(names[first : first + BATCH]), _column.expires > CLOCK
        )
        for name, value in connection.execute(select(_column.name, _column.value).where(is_asked)):
            values[name] = value
    return values


def write_values(connection: Connection, account: str, values: Mapping[bytes, bytes], seconds: float) -> None:
    """Store values; existing values of the same names are replaced."""
    if not values:
        return
    owner = hash_name(account)
    rows: list[dict[str, Any]] = [
        {"account": owner, "name": name, "value": value, "bytes": count_bytes(name, value)}
        for name, value in sorted(values.items())  # in one order, so that two writers never wait for each other
    ]
    statement = insert(kept_values).values(expires=CLOCK + seconds)
    changed = {name: statement.excluded[name] for name in ("value", "bytes", "expires")}
    connection.execute(statement.on_conflict_do_update(index_elements=["account", "name"], set_=changed), rows)


def count_bytes(name: bytes, value: bytes) -> int:
    """Return the space of a row."""
    return len(value) + 2 * len(name) + ROW_BYTES


def delete_value(connection: Connection, account: str, name: bytes) -> bool:
    """Delete a value. Returns False if it does not exist."""
    is_asked = and_(_column.account == hash_name(account), _column.name == name)
    return bool(connection.execute(delete(kept_values).where(is_asked)).rowcount)


def read_group(connection: Connection, account: str, head: bytes) -> tuple[dict[bytes, bytes], int]:
    """Return the values of a group that have not expired, by name in order, and their bytes."""
    query = select(_column.name, _column.value, _column.bytes).order_by(_column.name)
    rows = connection.execute(query.where(_is_in_group(account, head), _column.expires > CLOCK)).all()
    return {name: value for name, value, _ in rows}, sum(row[2] for row in rows)


def extend_group(
    connection: Connection, account: str, head: bytes, values: Mapping[bytes, bytes], seconds: float, new: bool
) -> bool:
    """Store values of a group, which then expires as a whole. Returns False for a group without its head, unless `new`."""
    if not _lock_head(connection, account, head) and not new:
        return False
    change = update(kept_values).where(_is_in_group(account, head)).values(expires=CLOCK + seconds)
    connection.execute(change)
    write_values(connection, account, values, seconds)
    return True


def delete_group(connection: Connection, account: str, head: bytes) -> bool:
    """Delete a group. Returns False if it does not exist."""
    _lock_head(connection, account, head)
    return bool(connection.execute(delete(kept_values).where(_is_in_group(account, head))).rowcount)


def _lock_head(connection: Connection, account: str, head: bytes) -> bool:
    """Lock the head of a group, so that another node does not change the group. Returns whether it is valid."""
    is_head = and_(_column.account == hash_name(account), _column.name == head)
    query = select(_column.expires > CLOCK).where(is_head).with_for_update()
    return bool(connection.execute(query).scalar())


def _is_in_group(account: str, head: bytes) -> ColumnElement[bool]:
    is_member = and_(_column.name > head + b":", _column.name < head + b";")
    return and_(_column.account == hash_name(account), or_(_column.name == head, is_member))


def prune_values(connection: Connection, max_bytes: int) -> int | None:
    """Delete expired values, then values of the largest accounts, until the rest fits. Another process may already do this.

    Return the space of the table before values of accounts were deleted, indexes included; None if another process prunes.
    Rows that another transaction changes are left: so no transaction waits for this one, and this one for no other.
    """
    if not connection.execute(select(func.pg_try_advisory_xact_lock(_PRUNE_LOCK))).scalar():
        return None
    key = tuple_(_column.account, _column.name)
    expired = select(_column.account, _column.name).where(_column.expires <= CLOCK).with_for_update(skip_locked=True)
    connection.execute(delete(kept_values).where(key.in_(expired)))
    size = int(connection.execute(select(func.pg_total_relation_size(kept_values.name))).scalar_one())
    if size <= max_bytes:
        return size  # the sum of all rows would take seconds in a large table
    totals = select(_column.account, func.sum(_column.bytes)).group_by(_column.account)
    held = {account: int(size) for account, size in connection.execute(totals)}
    evicted: list[tuple[bytes, bytes]] = []

    def remove(row: tuple[bytes, bytes]) -> bool:
        evicted.append(row)
        return True

    accounts = {account.hex(): size for account, size in held.items()}
    evict(sum(held.values()) - max_bytes, accounts, lambda account: _list_rows(connection, account), remove)
    for first in range(0, len(evicted), BATCH):
        rows = select(_column.account, _column.name).where(key.in_(evicted[first : first + BATCH]))
        connection.execute(delete(kept_values).where(key.in_(rows.with_for_update(skip_locked=True))))
    return size


def _list_rows(connection: Connection, account: str) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    """Yield the sizes and keys of the values of an account, in the order in which it loses them."""
    owner = bytes.fromhex(account)
    order = tuple_(_column.expires, _column.name)
    query = select(_column.expires, _column.name, _column.bytes).where(_column.account == owner)
    query = query.order_by(_column.expires, _column.name).limit(BATCH)
    rows = connection.execute(query).all()
    while rows:
        for _, name, size in rows:
            yield size, (owner, name)
        last = rows[-1]
        rows = connection.execute(query.where(order > tuple_(last.expires, last.name))).all()
