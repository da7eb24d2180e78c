"""A configuration that is in a PostgreSQL database, as one version of its text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import Any, Final

from tornado_gate.config.model import Secret

SCHEMES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")


class StoredConf(PosixPath):
    """A version of a configuration in the database, used where a configuration file has its path.

    There is no such file: the path is the name of the version in messages, such as ``configuration version 12``. Files that the
    configuration names are relative to the current folder. `address` is the database, which may have a password. `number` 0 is a
    version that is not read yet. `secrets` are encrypted, as in `SecretStore`. `alarm` is the reason why this version is used
    although a newer one may exist; "" for the newest one.
    """

    address: Secret = Secret("")
    number: int = 0
    text: str = ""
    secrets: Mapping[str, Mapping[str, Any]] = {}
    alarm: str = ""

    @classmethod
    def make(
        cls,
        address: str,
        number: int = 0,
        text: str = "",
        secrets: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        name: str = "",
        alarm: str = "",
    ) -> StoredConf:
        """Return a version. `name` replaces its name in messages."""
        stored = cls(name or f"configuration version {number}")
        stored.address, stored.number, stored.text = Secret(address), number, text
        stored.secrets, stored.alarm = secrets or {}, alarm
        return stored


def is_address(value: str) -> bool:
    """Return whether the value of --conf is the address of a database."""
    return value.startswith(SCHEMES)


def get_number(path: Path | None) -> int | None:
    """Return the number of a version in the database; None for a file."""
    return path.number if isinstance(path, StoredConf) else None


def read_conf_text(path: Path) -> str:
    """Return the text of a configuration file, or of a version in the database. Raises OSError, UnicodeDecodeError."""
    return path.text if isinstance(path, StoredConf) else path.read_bytes().decode()
