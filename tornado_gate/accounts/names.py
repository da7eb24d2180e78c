"""Names of keys, users and teams by id, for lists and reports. Synchronous: from an event loop use `database.run`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final

from sqlalchemy import Column, select

from tornado_gate.database import tables
from tornado_gate.database.engine import Database

_COLUMNS: Final[Mapping[str, Column[str]]] = {
    "key": tables.keys.c.name,
    "user": tables.users.c.email,
    "team": tables.teams.c.name,
}
_BATCH = 500


def find_names(database: Database, kind: str, ids: Collection[str]) -> dict[str, str]:
    """Return the names of existing keys or teams, or the e-mails of existing users, by id; {} for another kind of object."""
    column = _COLUMNS.get(kind)
    if column is None or not ids:
        return {}
    with database.read() as connection:
        results = [
            connection.execute(select(column.table.c.id, column).where(column.table.c.id.in_(some)))
            for some in _split_ids(ids)
        ]
        return {str(identity): str(name) for identity, name in chain.from_iterable(results)}


def _split_ids(ids: Collection[str]) -> list[list[str]]:
    known = sorted(ids)
    return [known[first : first + _BATCH] for first in range(0, len(known), _BATCH)]
