"""Revocation of keys: by a condition, or because the session of a playground key has ended."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts.revision import bump_revision
from tornado_gate.database import tables

PLAYGROUND = "playground"
"""The name of the hidden keys of sessions."""


def revoke_keys(connection: Connection, *conditions: Any) -> int:
    """Revoke the matching keys and return their number. Needs `lock_accounts`."""
    keys = tables.keys
    change = update(keys).where(keys.c.revoked.is_(None), *conditions).values(revoked=time.time())
    revoked = connection.execute(change).rowcount
    if revoked:
        bump_revision(connection)
    return revoked


def revoke_playground_keys(connection: Connection, *conditions: Any) -> int:
    """Revoke keys as `revoke_keys` does, limited to keys of the playground."""
    return revoke_keys(connection, tables.keys.c.hidden, tables.keys.c.name == PLAYGROUND, *conditions)


def revoke_keys_of_ended_sessions(connection: Connection) -> None:
    """Revoke the keys whose session does not exist. Transactions that end sessions call this."""
    revoke_playground_keys(connection, tables.keys.c.created_by.not_in(select(tables.sessions.c.id)))
