"""The shared code of the parts of `Accounts`: the database, the lock of changes, and rows of tables as values."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.engine import Connection, Row

from tornado_gate.accounts.errors import Conflict, Denied, NotFound
from tornado_gate.accounts.key_ends import revoke_keys_of_ended_sessions
from tornado_gate.accounts.people import Actor, Membership, Organisation, Team, User
from tornado_gate.accounts.texts import make_storable
from tornado_gate.database import tables
from tornado_gate.database.engine import Database

USERS, TEAMS, MEMBERS, ORGANISATIONS = tables.users, tables.teams, tables.team_members, tables.organisations
USER_COLUMNS = [column for column in USERS.columns if column.name != "email_key"]
LONGEST_PAGE = 500


class Part:
    """A part of `Accounts`, with the database. Synchronous; every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self.database = database


def make_user(row: Row[Any]) -> User:
    values = {name: value for name, value in row._mapping.items() if name in _USER_FIELDS}
    values |= {name: values[name] or {} for name in ("limits", "budget")}
    return User(**values, has_password=row._mapping["password_hash"] is not None)


_USER_FIELDS = frozenset(User.__struct_fields__) - {"has_password"}


def read_user(connection: Connection, identity: str) -> User:
    """Read a user. Raises NotFound."""
    row = connection.execute(select(*USER_COLUMNS).where(USERS.c.id == make_storable(identity))).one_or_none()
    if row is None:
        raise NotFound("There is no such user.", code="unknown_user")
    return make_user(row)


def check_administrator(actor: Actor) -> None:
    """Check that the actor administrates the gateway. Raises Denied."""
    if actor.role != "administrator":
        raise Denied("Only an administrator may do this.", code="not_allowed")


def check_team_administrator(connection: Connection, actor: Actor, team: str) -> None:
    """Check that the actor administrates the gateway or this team. Raises Denied."""
    if actor.role == "administrator":
        return
    query = select(MEMBERS.c.role).where(MEMBERS.c.team == make_storable(team), MEMBERS.c.user == actor.id)
    if connection.execute(query).scalar_one_or_none() != "administrator":
        raise Denied("Only an administrator of the team may do this.", code="not_allowed")


def check_not_last_administrator(connection: Connection, identity: str) -> None:
    """Check that somebody else administrates the gateway besides this user. Raises Conflict. Needs `lock_accounts`."""
    others = select(func.count()).where(
        USERS.c.role == "administrator", USERS.c.state == "active", USERS.c.id != identity
    )
    if not connection.execute(others).scalar_one():
        raise Conflict(
            "This is the last administrator. Make somebody else an administrator first.", code="last_administrator"
        )


def make_team(row: Row[Any]) -> Team:
    values = {name: row._mapping[name] for name in Team.__struct_fields__}
    return Team(**{**values, "models": tuple(values["models"])})


def select_teams(*more: Any) -> Any:
    """Return a query for rows of `make_team`, with further columns."""
    joined = TEAMS.join(ORGANISATIONS)
    return select(TEAMS, ORGANISATIONS.c.name.label("organisation_name"), *more).select_from(joined)


def read_team(connection: Connection, identity: str) -> Team:
    """Read a team. Raises NotFound."""
    row = connection.execute(select_teams().where(TEAMS.c.id == make_storable(identity))).one_or_none()
    if row is None:
        raise NotFound("There is no such team.", code="unknown_team")
    return make_team(row)


def read_memberships(connection: Connection, user_id: str) -> list[Membership]:
    """Return the teams of a user, by name."""
    columns = [MEMBERS.c.role.label("team_role"), MEMBERS.c.source]
    query = (
        select_teams(*columns)
        .join(MEMBERS, MEMBERS.c.team == TEAMS.c.id)
        .where(MEMBERS.c.user == make_storable(user_id))
    )
    rows = connection.execute(query.order_by(TEAMS.c.name, TEAMS.c.id)).all()
    return [Membership(team=make_team(row), role=row.team_role, source=row.source) for row in rows]


def read_organisation(connection: Connection, identity: str) -> Organisation:
    """Read an organisation. Raises NotFound."""
    row = connection.execute(select(ORGANISATIONS).where(ORGANISATIONS.c.id == make_storable(identity))).one_or_none()
    if row is None:
        raise NotFound("There is no such organisation.", code="unknown_organisation")
    return Organisation(**row._mapping)


def end_sessions(connection: Connection, user: str, keep: str = "") -> int:
    """End the sessions of a user, except the session with the id `keep`. Returns the number of ended sessions."""
    sessions = tables.sessions.c
    ended = connection.execute(delete(tables.sessions).where(sessions.user == user, sessions.id != keep)).rowcount
    revoke_keys_of_ended_sessions(connection)
    return ended
