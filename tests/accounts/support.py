"""What the tests of accounts and keys share."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import insert

from tornado_gate.accounts.keys import bump_revision
from tornado_gate.accounts.people import Membership, Role, Team, User
from tornado_gate.database import tables
from tornado_gate.database.engine import Database


def make_user(name: str, *, role: Role = "member") -> User:
    """A user with the id ``user_NAME``."""
    return User(
        id=f"user_{name}",
        email=f"{name}@example.com",
        name=name,
        role=role,
        state="active",
        has_password=True,
        subject=None,
        created=1.0,
        last_login=None,
        password_changed=None,
    )


def make_membership(team: str, role: Role = "member") -> Membership:
    """A place in the team ``team_NAME``."""
    found = Team(id=f"team_{team}", organisation="org_1", organisation_name="one", name=team, created=1.0)
    return Membership(team=found, role=role, source="console")


def add_rows(database: Database, table: Any, *rows: dict[str, Any]) -> None:
    with database.write() as connection:
        connection.execute(insert(table), list(rows))
        bump_revision(connection)


def add_user(database: Database, name: str, *, role: Role = "member") -> User:
    """Store a user, without a password."""
    user = make_user(name, role=role)
    row = {
        "id": user.id,
        "email": user.email,
        "email_key": user.email,
        "name": name,
        "password_hash": None,
        "role": role,
        "state": "active",
        "subject": None,
        "created": time.time(),
    }
    add_rows(database, tables.users, row)
    return user


def add_team(database: Database, name: str, *members: User, **given: Any) -> str:
    """Store a team of an organisation of its own and return its id. `given` are its budget, limits and models."""
    add_rows(database, tables.organisations, {"id": f"org_{name}", "name": f"org {name}", "created": 1.0})
    fields = {"budget": {}, "limits": {}, "models": [], **given}
    team = f"team_{name}"
    add_rows(
        database, tables.teams, {"id": team, "organisation": f"org_{name}", "name": name, "created": 1.0, **fields}
    )
    for member in members:
        row = {"team": team, "user": member.id, "role": "member", "source": "console"}
        add_rows(database, tables.team_members, row)
    return team
