"""Keys of the playground. Each session of the console has one. It is hidden, and valid for an hour but not beyond the
session.
"""

from __future__ import annotations

import time

from sqlalchemy import select

from tornado_gate.accounts.key_ends import PLAYGROUND, revoke_playground_keys
from tornado_gate.accounts.keys import KeyStore, StoredKey
from tornado_gate.accounts.people import Session
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.database import tables

KEY_SECONDS = 3600.0


def create_session_key(store: KeyStore, session: Session, team: str | None = None) -> tuple[str, StoredKey]:
    """Create the key of a session and revoke its previous key. Returns the text, which is not stored, and the record.

    The key belongs to the visitor, so that all policies and the ledger apply as for the visitor's other keys. It has
    the role member, because the playground uses no route of administrators. `team` is the team whose limits apply to
    the visitor's keys. All playground keys of a visitor count as the first one, so usage by key has one row for them.
    """
    text, key = store.create(
        PLAYGROUND,
        account=session.user.id,
        user=session.user.id,
        team=team,
        hidden=True,
        created_by=session.id,
        counted_as=_find_first_key(store, session.user.id),
        expires=min(time.time() + KEY_SECONDS, session.expires),
    )
    keys = tables.keys.c
    with store.database.write() as connection:
        lock_accounts(connection)
        revoke_playground_keys(
            connection, keys.user == session.user.id, keys.created_by == session.id, keys.id != key.id
        )
    return text, key


def _find_first_key(store: KeyStore, user: str) -> str | None:
    """Return the id of the visitor's first playground key, None if there is none yet."""
    keys = tables.keys.c
    query = select(keys.id).where(keys.user == user, keys.hidden, keys.name == PLAYGROUND, keys.counted_as.is_(None))
    with store.database.read() as connection:
        return connection.execute(query.order_by(keys.created).limit(1)).scalar()
