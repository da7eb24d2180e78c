"""The secrets that webhooks are signed with: one for each account, in one SQLite file that all processes of a machine share.

`database_webhook_secrets` has them for several nodes.

A secret is 256 random bits. After a rotation the previous secrets stay valid for ROTATION_SECONDS, in which webhooks have a
signature with each secret. An account whose secret is empty gets no webhooks.
"""

from __future__ import annotations

import base64
import secrets
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tornado_gate.storage.sqlite import Schema, SqliteFile

FILE_NAME = "webhooks.db"
SECRET_BYTES = 32
PREFIX = "whsec_"
ROTATION_SECONDS = 24 * 3600.0
MAX_SECRETS = 4
"""The number of valid secrets of one account; another rotation ends the oldest."""

_SCHEMA = Schema(
    version=1,
    statements=(
        "CREATE TABLE IF NOT EXISTS webhook_secrets (account TEXT, number INTEGER, secret TEXT, expires REAL,"
        " PRIMARY KEY (account, number)) WITHOUT ROWID",
    ),
)


class WebhookSecretError(Exception):
    """An error: the file cannot be used. The message has the reason and the remedy."""


class WebhookSecrets(Protocol):
    """The interface of a store of secrets. Synchronous: call it from a thread if an event loop runs.

    Its methods raise WebhookSecretError.
    """

    def close(self) -> None: ...
    def get(self, account: str) -> tuple[str, ...]:
        """Return the valid secrets of an account, the current one first; () if its webhooks are off.

        The first call creates one.
        """

    def rotate(self, account: str) -> str:
        """Create a new secret for an account and return it. The previous ones expire in ROTATION_SECONDS."""

    def turn_off(self, account: str) -> None:
        """Send no webhooks of this account until its secret is rotated. Its secrets expire now."""


class WebhookSecretStore:
    """The SQLite file. Synchronous: call it from a thread if an event loop runs. Raises WebhookSecretError."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, WebhookSecretError)
        self._made = False

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        self._file.close()

    def get(self, account: str) -> tuple[str, ...]:
        self._make()
        with self._file.use_connection() as connection:
            valid = _select_secrets(connection, account)
        if not valid:
            with self._file.transaction() as connection:
                valid = _select_secrets(connection, account)  # another process may have created it
                if not valid:
                    valid = [_add(connection, account, make_secret())]
        return tuple(valid) if valid[0] else ()

    def rotate(self, account: str) -> str:
        return self._replace(account, make_secret(), ROTATION_SECONDS)

    def turn_off(self, account: str) -> None:
        self._replace(account, "", 0.0)

    def _replace(self, account: str, secret: str, valid_seconds: float) -> str:
        self._make()
        now = time.time()
        with self._file.transaction() as connection:
            expire = "UPDATE webhook_secrets SET expires = MIN(COALESCE(expires, ?1), ?1) WHERE account = ?2"
            connection.execute(expire, (now + valid_seconds, account))
            _add(connection, account, secret)
            connection.execute(
                "DELETE FROM webhook_secrets WHERE account = ?1 AND (expires <= ?2 OR number <="
                " (SELECT MAX(number) FROM webhook_secrets WHERE account = ?1) - ?3)",
                (account, now, MAX_SECRETS),
            )
        return secret

    def _make(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True


def _select_secrets(connection: sqlite3.Connection, account: str) -> list[str]:
    """Return the valid secrets, newest first; previous ones that are empty are omitted."""
    select = (
        "SELECT secret FROM webhook_secrets WHERE account = ? AND (expires IS NULL OR expires > ?) ORDER BY number DESC"
    )
    return drop_empty_previous(str(row[0]) for row in connection.execute(select, (account, time.time())))


def _add(connection: sqlite3.Connection, account: str, secret: str) -> str:
    connection.execute(
        "INSERT INTO webhook_secrets SELECT ?1, COALESCE(MAX(number), 0) + 1, ?2, NULL"
        " FROM webhook_secrets WHERE account = ?1",
        (account, secret),
    )
    return secret


def drop_empty_previous(newest_first: Iterable[str]) -> list[str]:
    """Return the secrets without the previous ones that are empty; the current one may be empty."""
    secrets = list(newest_first)
    return secrets[:1] + [secret for secret in secrets[1:] if secret]


def make_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
