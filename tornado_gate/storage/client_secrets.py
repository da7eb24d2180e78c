"""Client secrets of realtime sessions. The hash of each value is kept until it expires. Their number per account is
limited.

The secrets are in one SQLite file that all processes of a machine share. No secret is evicted: an account at its limit
gets no further one, and cannot displace another account's.
"""

from __future__ import annotations

import time
from pathlib import Path

from tornado_gate.storage.sqlite import Schema, SqliteFile

FILE_NAME = "client-secrets.db"

_SCHEMA = Schema(
    version=1,
    statements=(
        "CREATE TABLE IF NOT EXISTS client_secrets (name TEXT PRIMARY KEY, account TEXT, claims BLOB, expires REAL)"
        " WITHOUT ROWID",
        "CREATE INDEX IF NOT EXISTS client_secrets_held ON client_secrets (account)",
        "CREATE INDEX IF NOT EXISTS client_secrets_expires ON client_secrets (expires)",
    ),
)


class ClientSecretFileError(Exception):
    """The file cannot be used. The message names the cause and the remedy."""


class ClientSecretStore:
    """The SQLite file. Synchronous: call it from a thread. Raises ClientSecretFileError."""

    def __init__(self, data_dir: Path) -> None:
        self._file = SqliteFile(data_dir / FILE_NAME, _SCHEMA, ClientSecretFileError)
        self._made = False

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        self._file.close()

    def add(self, name: str, account: str, claims: bytes, expires: float, limit: int) -> bool:
        """Store the claims of a secret until `expires` (Unix seconds). Returns False if the account has `limit` secrets."""
        self._make_file()
        with self._file.transaction() as connection:
            connection.execute("DELETE FROM client_secrets WHERE expires <= ?", (time.time(),))
            count = "SELECT COUNT(*) FROM client_secrets WHERE account = ?"
            (held,) = connection.execute(count, (account,)).fetchone()
            if held >= limit:
                return False
            connection.execute("INSERT INTO client_secrets VALUES (?, ?, ?, ?)", (name, account, claims, expires))
        return True

    def find_secret(self, name: str) -> bytes | None:
        """Return the claims of a secret; None if it does not exist or has expired."""
        self._make_file()
        with self._file.use_connection() as connection:
            select = "SELECT claims FROM client_secrets WHERE name = ? AND expires > ?"
            row = connection.execute(select, (name, time.time())).fetchone()
        return None if row is None else row[0]

    def _make_file(self) -> None:
        if not self._made:
            self._file.make()
            self._made = True
