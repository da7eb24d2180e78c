"""The secrets of webhooks in the PostgreSQL database, for all nodes: with `tasks: {store: database}` any node sends a webhook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.task_tables import webhook_secrets
from tornado_gate.tasks.database_rows import hash_name, to_lock_number
from tornado_gate.tasks.webhook_secrets import (
    MAX_SECRETS,
    ROTATION_SECONDS,
    WebhookSecretError,
    drop_empty_previous,
    make_secret,
)

_SECRET_LOCK = 7_238_414
"""The first number of the advisory locks under which the secrets of an account change."""


class DatabaseWebhookSecretStore:
    """The same as `WebhookSecretStore`, in `database`, which its owner closes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        """Do nothing: the owner of the database closes it."""

    def get(self, account: str) -> tuple[str, ...]:
        owner = hash_name(account)
        with self._map_errors(), self._database.read() as connection:
            valid = _select_secrets(connection, owner)
        if not valid:
            with self._change(owner) as connection:
                valid = _select_secrets(connection, owner)  # another process may have created it
                if not valid:
                    valid = [_insert_secret(connection, owner, make_secret())]
        return tuple(valid) if valid[0] else ()

    def rotate(self, account: str) -> str:
        return self._replace(account, make_secret(), ROTATION_SECONDS)

    def turn_off(self, account: str) -> None:
        self._replace(account, "", 0.0)

    def _replace(self, account: str, secret: str, valid_seconds: float) -> str:
        owner, column = hash_name(account), webhook_secrets.c
        with self._change(owner) as connection:
            ends = func.least(func.coalesce(column.expires, CLOCK + valid_seconds), CLOCK + valid_seconds)
            connection.execute(update(webhook_secrets).where(column.account == owner).values(expires=ends))
            _insert_secret(connection, owner, secret)
            newest = select(func.max(column.number)).where(column.account == owner).scalar_subquery()
            is_over = or_(column.expires <= CLOCK, column.number <= newest - MAX_SECRETS)
            connection.execute(delete(webhook_secrets).where(column.account == owner, is_over))
        return secret

    @contextmanager
    def _change(self, owner: bytes) -> Iterator[Connection]:
        with self._map_errors(), self._database.write() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_SECRET_LOCK, to_lock_number(owner))))
            yield connection

    @contextmanager
    def _map_errors(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            raise WebhookSecretError(str(error)) from error


def _select_secrets(connection: Connection, owner: bytes) -> list[str]:
    column = webhook_secrets.c
    is_valid = or_(column.expires.is_(None), column.expires > CLOCK)
    query = select(column.secret).where(column.account == owner, is_valid).order_by(column.number.desc())
    return drop_empty_previous(connection.execute(query).scalars())


def _insert_secret(connection: Connection, owner: bytes, secret: str) -> str:
    query = select(func.coalesce(func.max(webhook_secrets.c.number), 0)).where(webhook_secrets.c.account == owner)
    number = connection.execute(query).scalar_one() + 1
    connection.execute(insert(webhook_secrets).values(account=owner, number=number, secret=secret))
    return secret
