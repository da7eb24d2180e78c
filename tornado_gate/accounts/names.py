"""The names of keys, users and teams by their ids, for lists and reports. Synchronous, from an event loop use `database.run`."""

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
    """The name of each key or team, or the e-mail of each user, that still exists; {} for another kind of thing."""
    column = _COLUMNS.get(kind)
    if column is None or not ids:
        return {}
    with database.read() as connection:
        found = [
            connection.execute(select(column.table.c.id, column).where(column.table.c.id.in_(some)))
            for some in _split(ids)
        ]
        return {str(identity): str(name) for identity, name in chain.from_iterable(found)}


def _split(ids: Collection[str]) -> list[list[str]]:
    known = sorted(ids)
    return [known[first : first + _BATCH] for first in range(0, len(known), _BATCH)]
