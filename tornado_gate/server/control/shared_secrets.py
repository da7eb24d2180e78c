"""The secrets of a configuration in PostgreSQL, which all nodes read. They are encrypted with GATE_SECRET_KEY."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import delete
from sqlalchemy.engine import Connection

from tornado_gate.config.model import Config
from tornado_gate.config.secret_store import KEY_VARIABLE, SecretError, SecretStore
from tornado_gate.config.stored import StoredConf
from tornado_gate.database.clock import CLOCK
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.database.node_tables import conf_secrets
from tornado_gate.database.notifications import CONFIGURATION, send_notice
from tornado_gate.server.control.conf_versions import lock_versions, read_secrets


class SharedSecretStore(SecretStore):
    """The store of secrets in a database. Its methods block on the database, and close their connection."""

    def __init__(self, address: str, environment: Mapping[str, str]) -> None:
        super().__init__(Path(), environment)
        self._database = Database(Path(), address)
        self._connection: Connection | None = None

    def _load_keys(self, *, make: bool = False) -> list[str]:
        if not self._environment.get(KEY_VARIABLE):
            raise SecretError(f"all nodes need the same key of the secrets: set {KEY_VARIABLE} to it at every node")
        return super()._load_keys()

    def _encrypt_history(self, old: list[str], keys: list[str]) -> None:
        """Do nothing: the database has the earlier texts in clear, as they name secrets only."""

    def _read_entries(self) -> dict[str, Any]:
        if self._connection is not None:
            return dict(read_secrets(self._connection))
        try:
            with self._database.read() as connection:
                return dict(read_secrets(connection))
        except DatabaseError as error:
            raise SecretError(str(error)) from error
        finally:
            self._database.close()

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock of changes in a transaction, which the end of the block commits."""
        try:
            with self._database.write() as connection:
                lock_versions(connection)
                self._connection = connection
                yield
        except DatabaseError as error:
            raise SecretError(str(error)) from error
        finally:
            self._connection = None
            self._database.close()

    def _write_entries(self, entries: Mapping[str, Any]) -> None:
        from sqlalchemy.dialects.postgresql import insert

        assert self._connection is not None
        before = read_secrets(self._connection)
        gone = before.keys() - entries.keys()
        self._connection.execute(delete(conf_secrets).where(conf_secrets.c.name.in_(gone)))
        for name, entry in entries.items():
            if before.get(name) != entry:
                row = {"value": entry["value"], "changed": entry["changed"], "retired": entry.get("retired")}
                upsert = insert(conf_secrets).values(name=name, written=CLOCK, **row)
                change = upsert.on_conflict_do_update(
                    index_elements=[conf_secrets.c.name], set_={**row, "written": CLOCK}
                )
                self._connection.execute(change)
        send_notice(self._connection, CONFIGURATION)


def open_secret_store(config: Config) -> SecretStore:
    """Return the store of the secrets that a configuration names."""
    if isinstance(config.path, StoredConf):
        return SharedSecretStore(config.path.address, os.environ)
    return SecretStore(config.server.data_dir, os.environ)
