"""Keys of the playground: one for each session of the console, hidden, valid for an hour, and no longer than the session."""

from __future__ import annotations

import time

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts.keys import KeyStore, StoredKey, bump_revision
from tornado_gate.accounts.people import Session
from tornado_gate.database import tables

KEY_NAME = "playground"
KEY_SECONDS = 3600.0


def create_session_key(store: KeyStore, session: Session) -> tuple[str, StoredKey]:
    """Create the key of a session; the one that it had before is revoked. Returns its text, which is not stored, and the record.

    It belongs to the visitor, so that all policies and the ledger apply as for the visitor's other keys. It has the role member:
    the playground uses no route of administrators.
    """
    text, key = store.create(
        KEY_NAME,
        account=session.user.id,
        user=session.user.id,
        hidden=True,
        created_by=session.id,
        expires=min(time.time() + KEY_SECONDS, session.expires),
    )
    keys = tables.keys.c
    with store.database.write() as connection:
        _revoke(connection, keys.user == session.user.id, keys.created_by == session.id, keys.id != key.id)
    return text, key


def revoke_keys_of_ended_sessions(connection: Connection) -> None:
    """Revoke the keys whose session does not exist. Called where sessions end, in the same transaction."""
    sessions = tables.sessions.c
    _revoke(connection, tables.keys.c.created_by.not_in(select(sessions.id)))


def _revoke(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    keys = tables.keys
    change = update(keys).where(keys.c.hidden, keys.c.name == KEY_NAME, keys.c.revoked.is_(None), *conditions)
    if connection.execute(change.values(revoked=time.time())).rowcount:
        bump_revision(connection)
