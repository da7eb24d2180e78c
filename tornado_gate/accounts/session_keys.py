"""Keys of the playground: one for each session of the console, hidden, valid for an hour, and no longer than the session."""

from __future__ import annotations

import time

from sqlalchemy import update
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
    with store.database.write() as connection:
        revoke_session_keys(connection, session.id, keep=key.id)
    return text, key


def revoke_session_keys(connection: Connection, session_id: str, *, keep: str = "") -> None:
    """Revoke the keys of a session, except `keep`. Called where a session ends, in the same transaction."""
    keys = tables.keys
    owned = (keys.c.hidden, keys.c.created_by == session_id, keys.c.revoked.is_(None), keys.c.id != keep)
    if connection.execute(update(keys).where(*owned).values(revoked=time.time())).rowcount:
        bump_revision(connection)
