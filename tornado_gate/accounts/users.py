"""Users from the view of administrators: lists, roles, states, deletion."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.engine import Connection

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.keys import bump_revision
from tornado_gate.accounts.people import Actor, User, UserState
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import (
    LONGEST_PAGE,
    USER_COLUMNS,
    USERS,
    Part,
    check_administrator,
    check_not_last_administrator,
    end_sessions,
    make_user,
    read_user,
)
from tornado_gate.accounts.teams import check_budget, check_limits
from tornado_gate.accounts.texts import check_name, make_email_key, make_storable
from tornado_gate.config.model import Role
from tornado_gate.database import tables


class Users(Part):
    """The users. Changes apply immediately: sessions of a disabled user end, and keys have at most the owner's role."""

    def has_any(self) -> bool:
        with self.database.read() as connection:
            return connection.execute(select(USERS.c.id).limit(1)).first() is not None

    def list_page(self, *, search: str = "", offset: int = 0, limit: int = 50) -> tuple[list[User], int]:
        """Return a page of users, oldest first, and the number of all matches. `search`: part of an e-mail or a name."""
        query = select(*USER_COLUMNS)
        if search.strip():
            email_key = make_email_key(search)
            name = func.lower(USERS.c.name).contains(make_storable(search.strip().lower()), autoescape=True)
            query = query.where(or_(USERS.c.email_key.contains(email_key, autoescape=True), name))
        page = (
            query.order_by(USERS.c.created, USERS.c.id).offset(max(0, offset)).limit(max(1, min(limit, LONGEST_PAGE)))
        )
        with self.database.read() as connection:
            total = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
            return [make_user(row) for row in connection.execute(page)], total

    def get(self, identity: str) -> User:
        """Return a user. Raises NotFound."""
        with self.database.read() as connection:
            return read_user(connection, identity)

    def find_user(self, email: str) -> User | None:
        """Return the user with this e-mail, without regard to case."""
        with self.database.read() as connection:
            query = select(*USER_COLUMNS).where(USERS.c.email_key == make_email_key(email))
            row = connection.execute(query).one_or_none()
        return None if row is None else make_user(row)

    def read_emails(self, identities: Collection[str]) -> dict[str, str]:
        """Return the e-mails of existing users by id."""
        query = select(USERS.c.id, USERS.c.email).where(USERS.c.id.in_(identities))
        with self.database.read() as connection:
            return {row.id: row.email for row in connection.execute(query)}

    def set_role(self, identity: str, role: Role, actor: Actor) -> User:
        """Set the role of a user. Raises NotFound, Denied; Conflict for the last administrator."""
        check_administrator(actor)
        if role not in ("administrator", "member"):
            raise AccountError("A role is administrator or member.", code="invalid_role", field="role")
        with self.database.write() as connection:
            user = self._begin_change(connection, identity)
            if user.role == role:
                return user
            if role == "member":
                check_not_last_administrator(connection, identity)
            connection.execute(update(USERS).where(USERS.c.id == identity).values(role=role))
            record(connection, actor, "user.set_role", identity, role=role, before=user.role)
            return read_user(connection, identity)

    def set_state(self, identity: str, state: UserState, actor: Actor) -> User:
        """Disable a user, which ends all sessions and suspends all keys, or enable the user. Raises as `set_role`."""
        check_administrator(actor)
        if state not in ("active", "disabled"):
            raise AccountError("A state is active or disabled.", code="invalid_state", field="state")
        with self.database.write() as connection:
            user = self._begin_change(connection, identity)
            if user.state == state:
                return user
            if state == "disabled":
                if user.is_administrator:
                    check_not_last_administrator(connection, identity)
                end_sessions(connection, identity)
                connection.execute(delete(tables.reset_links).where(tables.reset_links.c.user == identity))
            connection.execute(update(USERS).where(USERS.c.id == identity).values(state=state))
            record(connection, actor, "user.set_state", identity, state=state)
            return read_user(connection, identity)

    def set_name(self, identity: str, name: str, actor: Actor) -> User:
        """Set the name of a user. Users name themselves; administrators name anybody. Raises NotFound, Denied,
        AccountError.
        """
        if actor.id != identity:
            check_administrator(actor)
        name = check_name(name, required=False)
        with self.database.write() as connection:
            user = read_user(connection, identity)
            connection.execute(update(USERS).where(USERS.c.id == identity).values(name=name))
            record(connection, actor, "user.set_name", identity, name=name, before=user.name)
            return read_user(connection, identity)

    def set_bounds(
        self, identity: str, actor: Actor, *, limits: Mapping[str, Any] | None = None, budget: Any = None
    ) -> User:
        """Change the limits and the budget that all keys of a user share; None keeps them. Raises NotFound, Denied,
        AccountError.
        """
        check_administrator(actor)
        values: dict[str, Any] = {}
        if limits is not None:
            values["limits"] = check_limits(limits)
        if budget is not None:
            values["budget"] = check_budget(budget)
        with self.database.write() as connection:
            self._begin_change(connection, identity)
            if values:
                connection.execute(update(USERS).where(USERS.c.id == identity).values(**values))
                record(connection, actor, "user.set_bounds", identity, **values)
            return read_user(connection, identity)

    def delete(self, identity: str, actor: Actor) -> None:
        """Delete a user with sessions, memberships and keys. Users may delete themselves. Raises as `set_role`."""
        if actor.id != identity:
            check_administrator(actor)
        with self.database.write() as connection:
            user = self._begin_change(connection, identity)
            if user.is_administrator:
                check_not_last_administrator(connection, identity)
            connection.execute(delete(USERS).where(USERS.c.id == identity))
            record(connection, actor, "user.delete", identity, email=user.email)

    @staticmethod
    def _begin_change(connection: Connection, identity: str) -> User:
        """Lock the accounts, make all processes read keys again after the transaction, and return the user."""
        lock_accounts(connection)
        bump_revision(connection)
        return read_user(connection, identity)
