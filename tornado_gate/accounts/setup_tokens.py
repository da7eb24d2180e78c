"""The set-up token. Its owner may create the first account, which administrates the gateway.

It is printed at start while there is no account. Several nodes may start together on one database, so the last few are
valid.
"""

from __future__ import annotations

import hmac

from sqlalchemy import delete, insert, select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import USERS, Part
from tornado_gate.accounts.tokens import digest_token, make_token
from tornado_gate.database import tables

KEPT = 4
_NAME = "setup_tokens"
_META = tables.meta


class SetupTokens(Part):
    def make_token(self) -> str | None:
        """Return a new token if there is no user yet, else None. Only its digest is stored."""
        token = make_token()
        with self.database.write() as connection:
            lock_accounts(connection)
            if not is_first(connection):
                return None
            digests = [*_read_digests(connection), digest_token(token).hex()][-KEPT:]
            end_setup(connection)
            connection.execute(insert(_META).values(name=_NAME, value=" ".join(digests)))
        return token


def is_first(connection: Connection) -> bool:
    """Return whether there is no user yet."""
    return connection.execute(select(USERS.c.id).limit(1)).first() is None


def check_setup_token(connection: Connection, token: str) -> bool:
    """Return whether a set-up token is valid. The time is the same for every wrong token."""
    digest = digest_token(token).hex()
    return sum(hmac.compare_digest(known, digest) for known in _read_digests(connection)) > 0


def end_setup(connection: Connection) -> None:
    """Make all set-up tokens invalid: the first account exists."""
    connection.execute(delete(_META).where(_META.c.name == _NAME))


def _read_digests(connection: Connection) -> list[str]:
    value = connection.execute(select(_META.c.value).where(_META.c.name == _NAME)).scalar_one_or_none()
    return (value or "").split()
