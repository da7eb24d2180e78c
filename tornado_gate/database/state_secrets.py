"""Client secrets of realtime sessions in the PostgreSQL database, which all nodes share: `state: {store: database}`."""

from __future__ import annotations

import time

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK
from tornado_gate.database.shared_rows import hash_name, to_lock_number
from tornado_gate.database.state_calls import StateCalls
from tornado_gate.database.state_tables import client_secrets

_SECRET_LOCK = 7_238_416
"""The first number of the advisory locks under which the secrets of an account are counted."""

_column = client_secrets.c


class DatabaseClientSecretStore:
    """A `ClientSecretStore` of all nodes. It raises MediaUnavailable while the database is away."""

    def __init__(self, calls: StateCalls) -> None:
        self._calls = calls

    async def close(self) -> None:
        await self._calls.close()

    async def add(self, name: str, account: str, claims: bytes, expires: float, limit: int) -> bool:
        return await self._calls.write(_add_secret, name, hash_name(account), claims, expires - time.time(), limit)

    async def find_secret(self, name: str) -> bytes | None:
        return await self._calls.read(_find_claims, name)


def _add_secret(connection: Connection, name: str, owner: bytes, claims: bytes, seconds: float, limit: int) -> bool:
    """Store a secret under a lock of its account, unless the account has `limit` valid ones."""
    connection.execute(select(func.pg_advisory_xact_lock(_SECRET_LOCK, to_lock_number(owner))))
    expired = select(_column.name).where(_column.expires <= CLOCK).with_for_update(skip_locked=True)
    connection.execute(delete(client_secrets).where(_column.name.in_(expired)))
    is_valid = (_column.account == owner, _column.expires > CLOCK)
    held = connection.execute(select(func.count()).select_from(client_secrets).where(*is_valid)).scalar_one()
    if held >= limit:
        return False
    row = insert(client_secrets).values(name=name, account=owner, claims=claims, expires=CLOCK + seconds)
    connection.execute(row)
    return True


def _find_claims(connection: Connection, name: str) -> bytes | None:
    query = select(_column.claims).where(_column.name == name, _column.expires > CLOCK)
    claims: bytes | None = connection.execute(query).scalar_one_or_none()
    return claims
