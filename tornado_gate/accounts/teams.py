"""Organisations, teams and their members."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, Conflict, NotFound
from tornado_gate.accounts.key_ends import revoke_keys
from tornado_gate.accounts.people import Actor, Member, Membership, Organisation, Source, Team
from tornado_gate.accounts.revision import bump_revision, lock_accounts
from tornado_gate.accounts.rows import (
    MEMBERS,
    ORGANISATIONS,
    TEAMS,
    USER_COLUMNS,
    USERS,
    Part,
    check_administrator,
    check_team_administrator,
    make_team,
    make_user,
    read_memberships,
    read_organisation,
    read_team,
    read_user,
    select_teams,
)
from tornado_gate.accounts.texts import check_name, make_storable
from tornado_gate.accounts.tokens import make_id
from tornado_gate.config.model import Role
from tornado_gate.database import tables

BUDGETS = frozenset({"usd_per_day", "usd_per_month", "tokens_per_day", "tokens_per_month"})
TOKEN_BUDGETS = frozenset({"tokens_per_day", "tokens_per_month"})
LIMITS = frozenset({"requests_per_minute", "tokens_per_minute", "concurrent_requests"})
LARGEST = 10**15
MOST_MODELS = 1000
LONGEST_MODEL = 200


class Organisations(Part):
    """Organisations. Only administrators of the gateway change them."""

    def list_all(self) -> list[Organisation]:
        with self.database.read() as connection:
            rows = connection.execute(select(ORGANISATIONS).order_by(ORGANISATIONS.c.name))
            return [Organisation(**row._mapping) for row in rows]

    def create(self, name: str, actor: Actor) -> Organisation:
        """Create an organisation. Raises Conflict for a name that is in use, Denied, AccountError."""
        check_administrator(actor)
        made = Organisation(id=make_id("org"), name=check_name(name), created=time.time())
        with _map_taken_name("organisation"), self.database.write() as connection:
            connection.execute(insert(ORGANISATIONS).values(id=made.id, name=made.name, created=made.created))
            record(connection, actor, "organisation.create", made.id, name=made.name)
        return made

    def rename(self, identity: str, name: str, actor: Actor) -> Organisation:
        """Rename an organisation. Raises as `create`, and NotFound."""
        check_administrator(actor)
        name = check_name(name)
        with _map_taken_name("organisation"), self.database.write() as connection:
            before = read_organisation(connection, identity)
            connection.execute(update(ORGANISATIONS).where(ORGANISATIONS.c.id == identity).values(name=name))
            record(connection, actor, "organisation.rename", identity, name=name, before=before.name)
            return read_organisation(connection, identity)

    def delete(self, identity: str, actor: Actor) -> None:
        """Delete an organisation. Raises Conflict if it has teams, NotFound, Denied."""
        check_administrator(actor)
        with self.database.write() as connection:
            lock_accounts(connection)
            organisation = read_organisation(connection, identity)
            if connection.execute(select(TEAMS.c.id).where(TEAMS.c.organisation == identity).limit(1)).first():
                raise Conflict("The organisation has teams. Delete its teams first.", code="organisation_not_empty")
            connection.execute(delete(ORGANISATIONS).where(ORGANISATIONS.c.id == identity))
            record(connection, actor, "organisation.delete", identity, name=organisation.name)


class Teams(Part):
    """Teams. Administrators of the gateway change teams; administrators of a team change its members."""

    def list_all(self, *, organisation: str = "") -> list[Team]:
        """Return all teams, or the teams of an organisation, ordered by the names of organisation and team."""
        query = select_teams().order_by(ORGANISATIONS.c.name, TEAMS.c.name)
        if organisation:
            query = query.where(TEAMS.c.organisation == make_storable(organisation))
        with self.database.read() as connection:
            return [make_team(row) for row in connection.execute(query)]

    def get(self, identity: str) -> Team:
        """Return a team. Raises NotFound."""
        with self.database.read() as connection:
            return read_team(connection, identity)

    def create(
        self,
        organisation_id: str,
        name: str,
        actor: Actor,
        *,
        budget: Mapping[str, Any] = {},
        limits: Mapping[str, int] = {},
        models: Sequence[str] = (),
        personal_keys: bool | None = None,
    ) -> Team:
        """Create a team. Raises Conflict for a name that is in use in the organisation, NotFound, Denied, AccountError."""
        check_administrator(actor)
        fields = {"name": name, "budget": budget, "limits": limits, "models": models, "personal_keys": personal_keys}
        values = _check_changes(fields)
        identity = make_id("team")
        with _map_taken_name("team"), self.database.write() as connection:
            lock_accounts(connection)
            read_organisation(connection, organisation_id)
            row = {"id": identity, "organisation": organisation_id, "created": time.time(), **values}
            connection.execute(insert(TEAMS), [row])
            record(connection, actor, "team.create", identity, organisation=organisation_id, **values)
            return read_team(connection, identity)

    def update(self, identity: str, actor: Actor, **changes: Any) -> Team:
        """Change `name`, `budget`, `limits`, `models` or `personal_keys`. Raises as `create`."""
        check_administrator(actor)
        values = _check_changes(changes)
        with _map_taken_name("team"), self.database.write() as connection:
            lock_accounts(connection)
            read_team(connection, identity)
            if values:
                bump_revision(connection)
                connection.execute(update(TEAMS).where(TEAMS.c.id == identity).values(**values))
                record(connection, actor, "team.update", identity, **values)
            return read_team(connection, identity)

    def delete(self, identity: str, actor: Actor) -> None:
        """Delete a team. Its keys are revoked: without the team they would lose its bounds. Raises NotFound, Denied."""
        check_administrator(actor)
        with self.database.write() as connection:
            lock_accounts(connection)
            bump_revision(connection)
            team = read_team(connection, identity)
            revoked = revoke_keys(connection, tables.keys.c.team == identity)
            connection.execute(delete(TEAMS).where(TEAMS.c.id == identity))
            record(connection, actor, "team.delete", identity, name=team.name, revoked_keys=revoked)


class Members(Part):
    """Members of teams."""

    def list_of_team(self, team_id: str) -> list[Member]:
        """Return the members by e-mail. Raises NotFound for an unknown team."""
        columns = [MEMBERS.c.role.label("team_role"), MEMBERS.c.source]
        query = (
            select(*USER_COLUMNS, *columns)
            .select_from(USERS.join(MEMBERS))
            .where(MEMBERS.c.team == make_storable(team_id))
        )
        with self.database.read() as connection:
            read_team(connection, team_id)
            rows = connection.execute(query.order_by(USERS.c.email_key)).all()
        return [Member(user=make_user(row), role=row.team_role, source=row.source) for row in rows]

    def list_of_user(self, user_id: str) -> list[Membership]:
        """Return the teams of a user, by name; [] for an unknown user."""
        with self.database.read() as connection:
            return read_memberships(connection, user_id)

    def set_role(self, team_id: str, user_id: str, role: Role, actor: Actor) -> Member:
        """Add a member, or change the role of a member. Raises NotFound, Denied, AccountError."""
        if role not in ("administrator", "member"):
            raise AccountError("A role is administrator or member.", code="invalid_role", field="role")
        with self.database.write() as connection:
            lock_accounts(connection)
            check_team_administrator(connection, actor, team_id)
            read_team(connection, team_id)
            user = read_user(connection, user_id)
            bump_revision(connection)
            source = change_membership(connection, team_id, user_id, role)
            record(connection, actor, "team.set_member", team_id, user=user_id, role=role)
        return Member(user=user, role=role, source=source)

    def remove(self, team_id: str, user_id: str, actor: Actor) -> None:
        """Remove a member and revoke the member's keys for the team. Members may leave. Raises NotFound, Denied."""
        with self.database.write() as connection:
            lock_accounts(connection)
            if actor.id != user_id:
                check_team_administrator(connection, actor, team_id)
            read_team(connection, team_id)
            bump_revision(connection)
            if not drop_membership(connection, team_id, user_id):
                raise NotFound("This user is not a member of the team.", code="unknown_member")
            record(connection, actor, "team.remove_member", team_id, user=user_id)


def change_membership(
    connection: Connection, team_id: str, user_id: str, role: Role, source: Source = "console"
) -> Source:
    """Set the role of a member, who is added if missing. Returns the source of the addition."""
    condition = (MEMBERS.c.team == team_id, MEMBERS.c.user == user_id)
    known = connection.execute(select(MEMBERS.c.source).where(*condition)).scalar_one_or_none()
    if known is None:
        connection.execute(insert(MEMBERS).values(team=team_id, user=user_id, role=role, source=source))
        return source
    connection.execute(update(MEMBERS).where(*condition).values(role=role))
    return "oidc" if known == "oidc" else "console"


def drop_membership(connection: Connection, team_id: str, user_id: str) -> bool:
    """Remove a member and revoke the member's keys for the team. Returns False if there was no such member."""
    removed = connection.execute(delete(MEMBERS).where(MEMBERS.c.team == team_id, MEMBERS.c.user == user_id)).rowcount
    revoke_keys(connection, tables.keys.c.team == team_id, tables.keys.c.user == user_id)
    return bool(removed)


class _map_taken_name:
    """A context that raises a violated unique constraint as Conflict."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, _traceback: object) -> None:
        if isinstance(error, IntegrityError):
            raise Conflict(
                f"There is already a {self._kind} with this name.", code="name_taken", field="name"
            ) from error


def _check_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for columns of `teams`. Raises AccountError."""
    checks: dict[str, Callable[[Any], Any]] = {
        "name": check_name,
        "budget": check_budget,
        "limits": check_limits,
        "models": check_models,
        "personal_keys": _check_choice,
    }
    unknown = changes.keys() - checks.keys()
    if unknown:
        raise AccountError(f"A team has no field '{min(unknown)}'.", code="unknown_field", field=min(unknown))
    return {name: checks[name](value) for name, value in changes.items()}


def _check_choice(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        message = "'personal_keys' must be true, false, or empty for the default of the configuration."
        raise AccountError(message, code="invalid_choice", field="personal_keys")
    return value


def check_budget(budget: Mapping[str, Any]) -> dict[str, float]:
    """Return a budget without empty bounds. Raises AccountError."""
    return _check_bounds(budget, BUDGETS, "budget", whole=TOKEN_BUDGETS)


def check_limits(limits: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits that are not empty. Raises AccountError."""
    return _check_bounds(limits, LIMITS, "limits", whole=LIMITS)


def _check_bounds(
    bounds: Mapping[str, Any], allowed: frozenset[str], field: str, *, whole: frozenset[str]
) -> dict[str, float]:
    checked: dict[str, float] = {}
    for name, value in bounds.items():
        if name not in allowed:
            raise AccountError(f"'{name}' is none of {', '.join(sorted(allowed))}.", code="unknown_field", field=field)
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        least = 1 if name in whole else 0
        if not is_number or not least <= value <= LARGEST or (name in whole and value != int(value)):
            kind = "a whole number" if name in whole else "a number"
            raise AccountError(
                f"'{name}' must be {kind} from {least}, or empty for no bound.", code="invalid_bound", field=field
            )
        checked[name] = int(value) if name in whole else value
    return checked


def check_models(models: Sequence[str]) -> list[str]:
    """Return globs of models. Raises AccountError."""
    if len(models) > MOST_MODELS:
        raise AccountError(f"There are more than {MOST_MODELS} models.", code="invalid_models", field="models")
    for model in models:
        if not isinstance(model, str) or not model.strip() or len(model) > LONGEST_MODEL or not model.isprintable():
            message = f"A model is a name or a glob of 1 to {LONGEST_MODEL} characters."
            raise AccountError(message, code="invalid_models", field="models")
    return [model.strip() for model in models]
