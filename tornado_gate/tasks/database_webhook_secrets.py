"""The secrets of webhooks in the PostgreSQL database, for all nodes: with `tasks: {store: database}` any node sends a webhook.

They are encrypted if GATE_SECRET_KEY is set. A secret that is in clear, or encrypted with an older key, is encrypted when it is
used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.engine import Connection

from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.shared_rows import hash_name, to_lock_number
from tornado_gate.database.task_tables import webhook_secrets
from tornado_gate.tasks.webhook_cipher import WebhookCipher
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

    def __init__(self, database: Database, cipher: WebhookCipher) -> None:
        self._database = database
        self._cipher = cipher

    def close(self) -> None:
        """Do nothing: the owner of the database closes it."""

    def get(self, account: str) -> tuple[str, ...]:
        owner = hash_name(account)
        with self._map_errors(), self._database.read() as connection:
            valid, is_current = self._select_secrets(connection, owner)
        if not valid or not is_current:
            with self._change(owner) as connection:
                self._encrypt_again(connection, owner)
                valid, _ = self._select_secrets(connection, owner)  # another process may have created it
                if not valid:
                    valid = [self._insert_secret(connection, owner, make_secret())]
        return tuple(valid) if valid[0] else ()

    def _select_secrets(self, connection: Connection, owner: bytes) -> tuple[list[str], bool]:
        """Return the valid secrets, newest first, and whether all are encrypted as now."""
        decrypted = [self._cipher.decrypt(owner, stored) for _, stored in _read_rows(connection, owner)]
        secrets = drop_empty_previous(secret for secret, _ in decrypted)
        return secrets, all(is_current for _, is_current in decrypted)

    def _encrypt_again(self, connection: Connection, owner: bytes) -> None:
        for number, stored in _read_rows(connection, owner):
            secret, is_current = self._cipher.decrypt(owner, stored)
            if not is_current:
                own = (webhook_secrets.c.account == owner, webhook_secrets.c.number == number)
                change = update(webhook_secrets).where(*own).values(secret=self._cipher.encrypt(owner, secret))
                connection.execute(change)

    def _insert_secret(self, connection: Connection, owner: bytes, secret: str) -> str:
        query = select(func.coalesce(func.max(webhook_secrets.c.number), 0)).where(webhook_secrets.c.account == owner)
        number = connection.execute(query).scalar_one() + 1
        row = {"account": owner, "number": number, "secret": self._cipher.encrypt(owner, secret)}
        connection.execute(insert(webhook_secrets).values(**row))
        return secret

    def rotate(self, account: str) -> str:
        return self._replace(account, make_secret(), ROTATION_SECONDS)

    def turn_off(self, account: str) -> None:
        self._replace(account, "", 0.0)

    def _replace(self, account: str, secret: str, valid_seconds: float) -> str:
        owner, column = hash_name(account), webhook_secrets.c
        with self._change(owner) as connection:
            ends = func.least(func.coalesce(column.expires, CLOCK + valid_seconds), CLOCK + valid_seconds)
            connection.execute(update(webhook_secrets).where(column.account == owner).values(expires=ends))
            self._insert_secret(connection, owner, secret)
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


def _read_rows(connection: Connection, owner: bytes) -> list[tuple[int, str]]:
    """Return the numbers and texts of the valid secrets, newest first."""
    column = webhook_secrets.c
    is_valid = or_(column.expires.is_(None), column.expires > CLOCK)
    query = select(column.number, column.secret).where(column.account == owner, is_valid)
    return [(number, stored) for number, stored in connection.execute(query.order_by(column.number.desc()))]
