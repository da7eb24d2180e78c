"""Queries of keys: pages of a list, one key by its id or name, and the names of owners and teams. Each function takes a
connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, func, or_, select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.errors import AccountError, Conflict, Denied, NotFound
from tornado_gate.accounts.makers import Makers, explain_owner, has_maker
from tornado_gate.accounts.stored_key import KeyState, StoredKey, parse_key
from tornado_gate.accounts.texts import make_email_key, make_storable
from tornado_gate.config.globs import intersect_globs
from tornado_gate.database import tables
from tornado_gate.types.value import Value, replace

LONGEST_SEARCH = 200
LARGEST_PAGE = 1000
NAMED_AT_MOST = 5
"""The number of ids that the error for an ambiguous name lists."""
_KEYS = tables.keys.c


class KeyFilter(Value, frozen=True, kw_only=True):
    """A filter for a list of keys. `search` is a part of the name, or the beginning of the id or the key; "" and None:
    all.

    `user` and `team` are ids. `either` are ids of teams: their keys are listed together with the keys of `user`. A
    member sees both.
    """

    user: str | None = None
    team: str | None = None
    either: tuple[str, ...] = ()
    search: str = ""
    state: KeyState | str = ""
    hidden: bool = False


def list_page(connection: Connection, key_filter: KeyFilter, offset: int, limit: int) -> tuple[list[StoredKey], int]:
    """Return the keys of a page, newest first, and the number of keys on all pages."""
    if len(key_filter.search) > LONGEST_SEARCH:
        return [], 0
    conditions = _list_conditions(key_filter, time.time())
    total = connection.execute(select(func.count()).select_from(tables.keys).where(*conditions)).scalar_one()
    page = (
        select(tables.keys)
        .where(*conditions)
        .order_by(_KEYS.created.desc(), _KEYS.id.desc())
        .offset(max(0, offset))
        .limit(min(max(0, limit), LARGEST_PAGE))
    )
    return [parse_key(row) for row in connection.execute(page)], total


def _list_conditions(key_filter: KeyFilter, now: float) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if not key_filter.hidden:
        conditions.append(_KEYS.hidden.is_(False))
    if key_filter.either:
        conditions.append(or_(_KEYS.user == key_filter.user, _KEYS.team.in_(map(make_storable, key_filter.either))))
    elif key_filter.user is not None:
        conditions.append(_KEYS.user == make_storable(key_filter.user))
    if key_filter.team is not None:
        conditions.append(_KEYS.team == make_storable(key_filter.team))
    search = make_storable(key_filter.search.strip())
    if search:
        conditions.append(
            or_(
                _KEYS.name.icontains(search, autoescape=True),
                _KEYS.prefix.startswith(search, autoescape=True),
                _KEYS.id.startswith(search, autoescape=True),
            )
        )
    if key_filter.state:
        conditions.append(_make_state_condition(key_filter.state, now))
    return conditions


def _make_state_condition(state: str, now: float) -> ColumnElement[bool]:
    not_revoked = _KEYS.revoked.is_(None)
    if state == "revoked":
        return _KEYS.revoked.is_not(None)
    if state == "expired":
        return and_(not_revoked, _KEYS.expires <= now)
    if state == "active":
        return and_(not_revoked, or_(_KEYS.expires.is_(None), _KEYS.expires > now))
    raise AccountError("The state of keys must be active, expired or revoked.", field="state")


def get_key(connection: Connection, identity: str, *, lock: bool = False) -> StoredKey:
    """Return the key with this id. Raises NotFound. With `lock`, other transactions cannot change it until this one ends."""
    query: Select[Any] = select(tables.keys).where(_KEYS.id == make_storable(identity))
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"There is no key with the id {identity[:60]!a}.", code="key_not_found")
    return parse_key(row)


def find_named(connection: Connection, name: str) -> StoredKey:
    """Return the key with this id or this name. Revoked keys are not found by name, because another key may have the
    name now.

    Raises NotFound. Raises Conflict, with the ids, if several keys have the name.
    """
    storable = make_storable(name)
    has_name = and_(_KEYS.name == storable, _KEYS.revoked.is_(None))
    query = select(tables.keys).where(or_(_KEYS.id == storable, has_name)).order_by(_KEYS.created, _KEYS.id)
    rows = [parse_key(row) for row in connection.execute(query)]
    matches = [key for key in rows if key.id == name] or rows
    if not matches:
        message = (
            f"There is no key with the ID or name {_quote_name(name)} that is not revoked. `keys list` shows all keys."
        )
        raise NotFound(message, code="key_not_found")
    if len(matches) > 1:
        ids = ", ".join(key.id for key in matches[:NAMED_AT_MOST]) + (", …" if len(matches) > NAMED_AT_MOST else "")
        message = f"{len(matches)} keys have the name '{name}': {ids}. Give the ID of one."
        raise Conflict(message, code="ambiguous_name")
    return matches[0]


def _make_usable_keys_query() -> Select[Any]:
    """Return the query for the keys with the digests `wanted`, and for the state of their owners and teams."""
    users, members, teams = tables.users.c, tables.team_members, tables.teams
    of_owner = and_(members.c.team == _KEYS.team, members.c.user == _KEYS.user)
    return (
        select(
            tables.keys,
            users.state.label("owner_state"),
            users.role.label("owner_role"),
            members.c.role.label("member_role"),
            teams.c.models.label("team_models"),
            teams.c.budget.label("budget_of_team"),
            teams.c.limits.label("limits_of_team"),
            users.budget.label("budget_of_user"),
            users.limits.label("limits_of_user"),
            users.email.label("email_of_user"),
            teams.c.name.label("name_of_team"),
        )
        .select_from(
            tables.keys.outerjoin(tables.users, users.id == _KEYS.user)
            .outerjoin(members, of_owner)
            .outerjoin(teams, teams.c.id == _KEYS.team)
        )
        .where(_KEYS.digest.in_(bindparam("wanted", expanding=True)))
    )


_USABLE_KEYS = _make_usable_keys_query()
"""The query is made once, because making it takes longer than executing it."""


def find_usable(
    connection: Connection, digests: Sequence[bytes], *, seconds: float = float("inf")
) -> dict[bytes, StoredKey]:
    """Return the keys with these digests and their current permissions, without those that must not be used.

    A key must not be used in these cases: its owner is disabled; it is a key of a team that its owner has left; its
    maker no longer has the right to make it. The role is at most the owner's role. The models are limited to the models
    that the team allows. After `seconds` the remaining digests are left out: makers need queries of their own.
    """
    end, makers = time.monotonic() + seconds, Makers(connection)
    rows = {row.digest: row for row in connection.execute(_USABLE_KEYS, {"wanted": digests})}
    keys: dict[bytes, StoredKey] = {}
    for digest in filter(rows.__contains__, digests):
        if time.monotonic() > end:
            break
        key = _check_usable(rows[digest], makers)
        if key is not None:
            keys[digest] = key
    return keys


def _check_usable(row: Row[Any], makers: Makers) -> StoredKey | None:
    """Return the key in a row of `_USABLE_KEYS`; None if it must not be used."""
    key = parse_key(row)
    if not key.is_active(time.time()):
        return None
    if has_maker(key):
        verdict = makers.judge_key(key)
        if verdict.reason:
            return None
        if verdict.until is not None:
            key = replace(key, expires=min(verdict.until, key.expires or verdict.until))
    key = replace(key, user_name=row.email_of_user or "", team_name=row.name_of_team or "")
    if row.team_models:
        key = replace(key, models=intersect_globs(key.models, row.team_models))
    if row.budget_of_team:
        key = replace(key, team_budget=row.budget_of_team)
    if row.limits_of_team:
        key = replace(key, team_limits=row.limits_of_team)
    if row.budget_of_user or row.limits_of_user:
        key = replace(key, user_budget=row.budget_of_user or {}, user_limits=row.limits_of_user or {})
    if key.user is None:
        return key
    if explain_owner(row.owner_state, row.owner_role, key, is_member=row.member_role is not None):
        return None
    return replace(key, role="member") if row.owner_role == "member" else key


def find_suspensions(connection: Connection, keys: Iterable[StoredKey]) -> dict[str, str]:
    """Return, by id, why keys that are neither expired nor revoked cannot be used now. Usable keys are absent."""
    makers, now = Makers(connection), time.time()
    active = [key for key in keys if key.is_active(now)]
    reasons = {key.id: makers.judge_owner(key) or makers.judge_key(key).reason for key in active}
    return {identity: reason for identity, reason in reasons.items() if reason}


def find_owner(connection: Connection, email: str | None, team: str | None, role: str) -> dict[str, str]:
    """Return the ids as `KeyStore.find_owner` does."""
    users, members = tables.users.c, tables.team_members.c
    ids: dict[str, str] = {}
    user = None
    if team is not None:
        ids["team"] = _find_team(connection, team)
    if email is not None:
        query = select(users.id, users.role).where(users.email_key == make_email_key(email))
        user = connection.execute(query).one_or_none()
        if user is None:
            raise NotFound(f"No user has the e-mail {_quote_name(email)}.", code="user_not_found", field="user")
        ids["user"] = user.id
    if email is None or user is None or user.role == "administrator":
        return ids
    if role == "administrator":
        message = f"{_quote_name(email)} is no administrator, so the key could not be one."
        raise Denied(message, code="outranks_owner", field="role")
    if team is not None:
        of_both = select(members.user).where(members.team == ids["team"], members.user == user.id)
        if connection.execute(of_both).first() is None:
            raise Denied(
                f"{_quote_name(email)} is not a member of the team {_quote_name(team)}.",
                code="not_a_member",
                field="team",
            )
    return ids


def _find_team(connection: Connection, team: str) -> str:
    teams = tables.teams.c
    storable = make_storable(team)
    query = select(teams.id, teams.name).where(or_(teams.id == storable, teams.name == storable)).order_by(teams.id)
    rows = list(connection.execute(query))
    ids = [row.id for row in rows if row.id == team] or [row.id for row in rows]
    if not ids:
        raise NotFound(
            f"There is no team with the ID or name {_quote_name(team)}.", code="team_not_found", field="team"
        )
    if len(ids) > 1:
        message = f"Several organisations have a team named {_quote_name(team)}: {', '.join(ids)}. Give the ID of one."
        raise Conflict(message, code="ambiguous_name", field="team")
    return str(ids[0])


def name_owners(connection: Connection, keys: Iterable[StoredKey]) -> dict[str, str]:
    """Return the e-mail of each owner and the name of each team of the keys, by id."""
    listed = tuple(keys)
    users = sorted({key.user for key in listed if key.user is not None})
    teams = sorted({key.team for key in listed if key.team is not None})
    names: dict[str, str] = {}
    for table, column, ids in (
        (tables.users, tables.users.c.email, users),
        (tables.teams, tables.teams.c.name, teams),
    ):
        for begin in range(0, len(ids), LARGEST_PAGE):
            query = select(table.c.id, column).where(table.c.id.in_(ids[begin : begin + LARGEST_PAGE]))
            names |= {row[0]: row[1] for row in connection.execute(query)}
    return names


def _quote_name(name: str) -> str:
    """Return a name from a request for a message: in quotes, printable and short."""
    return f"'{name}'" if name.isprintable() and len(name) <= 100 else ascii(name[:100])
