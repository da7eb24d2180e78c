"""Names of keys, users and teams by id, for lists and reports. Synchronous: from an event loop use `database.run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final

from sqlalchemy import Column, case, func, select

from tornado_gate.accounts.texts import make_storable
from tornado_gate.database import tables
from tornado_gate.database.engine import Database

_COLUMNS: Final[Mapping[str, Column[str]]] = {
    "key": tables.keys.c.name,
    "user": tables.users.c.email,
    "team": tables.teams.c.name,
}
_BATCH = 500
MOST_CHOICES: Final = 200


def find_names(database: Database, kind: str, ids: Collection[str]) -> dict[str, str]:
    """Return the names of existing keys or teams, or the e-mails of existing users, by id; {} for another kind of object.

    A key of the playground is named by its user too, because all these keys have one name.
    """
    column = _COLUMNS.get(kind)
    if column is None or not ids:
        return {}
    query = select(column.table.c.id, column)
    if kind == "key":
        keys, users = tables.keys, tables.users
        name = case((keys.c.hidden & users.c.email.is_not(None), column + " of " + users.c.email), else_=column)
        query = select(keys.c.id, name).select_from(keys.outerjoin(users, users.c.id == keys.c.user))
    with database.read() as connection:
        results = [connection.execute(query.where(column.table.c.id.in_(some))) for some in _split_ids(ids)]
        return {str(identity): str(name) for identity, name in chain.from_iterable(results)}


def _split_ids(ids: Collection[str]) -> list[list[str]]:
    known = sorted(ids)
    return [known[first : first + _BATCH] for first in range(0, len(known), _BATCH)]


def list_choices(database: Database, kind: str) -> list[tuple[str, str]]:
    """Return (value, label) of the keys, users or teams that a form suggests, by name; at most MOST_CHOICES.

    The value is a text that `find_id` understands: the name, or the id if several objects have the name.
    """
    column = _COLUMNS[kind]
    query = select(column.table.c.id, column).order_by(column).limit(MOST_CHOICES)
    if kind == "key":
        query = query.where(~column.table.c.hidden)
    with database.read() as connection:
        subjects = [(str(identity), str(name)) for identity, name in connection.execute(query)]
    uses = Counter(name.casefold() for _, name in subjects)
    return [(name, kind) if uses[name.casefold()] == 1 else (identity, f"{kind} {name}") for identity, name in subjects]


def find_id(database: Database, kind: str, text: str) -> str:
    """Return the id of the only key or team with this name, or of the user with this e-mail.

    `text` itself is returned if it names none or several: it may be an id.
    """
    column = _COLUMNS.get(kind)
    if column is None or not text:
        return text
    query = select(column.table.c.id).where(func.lower(column) == make_storable(text.strip()).lower()).limit(2)
    if kind == "key":
        query = query.where(~column.table.c.hidden)
    with database.read() as connection:
        identities = [str(identity) for (identity,) in connection.execute(query)]
    return identities[0] if len(identities) == 1 else text
