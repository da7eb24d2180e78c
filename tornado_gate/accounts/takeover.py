"""The end of all objects that an account has made, because its present owner may not be the person who made them."""

from __future__ import annotations

import time

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts.key_ends import revoke_keys
from tornado_gate.accounts.revision import bump_revision
from tornado_gate.accounts.rows import USERS, end_sessions
from tornado_gate.database import tables

_KEYS = tables.keys.c


def end_what_was_made(connection: Connection, user_id: str) -> int:
    """End all ways into an account, and all objects that it made. Returns the number of revoked keys. Needs
    `lock_accounts`.

    The ways into it are its password, sessions, devices and reset links, and the keys that belong to it. The objects
    are the keys, invitations, reset links and temporary limits that it or its keys have made. Memberships, its role and
    its data stay.
    """
    changed = {"password_hash": None, "password_changed": time.time()}  # the new time also ends the tokens of devices
    connection.execute(update(USERS).where(USERS.c.id == user_id).values(**changed))
    makers = _list_makers(connection, user_id)
    revoked = revoke_keys(connection, or_(_KEYS.user == user_id, _KEYS.id.in_(makers)))
    end_sessions(connection, user_id)
    links, invitations, overrides = tables.reset_links.c, tables.invitations.c, tables.limit_overrides.c
    connection.execute(delete(tables.reset_links).where(or_(links.user == user_id, links.created_by.in_(makers))))
    connection.execute(delete(tables.invitations).where(invitations.used.is_(None), invitations.created_by.in_(makers)))
    if connection.execute(delete(tables.limit_overrides).where(overrides.created_by.in_(makers))).rowcount:
        bump_revision(connection)
    return revoked


def _list_makers(connection: Connection, user_id: str) -> list[str]:
    """Return the account, its keys, the keys whose issuers they are, and so on."""
    makers = {user_id}
    new = {user_id}
    while new:
        issued = func.coalesce(_KEYS.issued_by, _KEYS.created_by)
        query = select(_KEYS.id).where(or_(_KEYS.user.in_(new), issued.in_(new)))
        new = set(connection.execute(query).scalars()) - makers
        makers |= new
    return sorted(makers)
