"""Links that a person gets from an administrator: invitations to sign up, and links that set a new password."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.engine import Connection, Row

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, Denied, NotFound
from tornado_gate.accounts.makers import Makers
from tornado_gate.accounts.passwords import check_password, hash_password
from tornado_gate.accounts.people import Actor, Invitation, User
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import Part, check_administrator, check_team_administrator, read_team, read_user
from tornado_gate.accounts.sessions import make_actor, set_password
from tornado_gate.accounts.texts import check_email, make_email_key, make_storable
from tornado_gate.accounts.tokens import digest_token, make_id, make_token
from tornado_gate.config.model import Role
from tornado_gate.database import tables
from tornado_gate.types.value import replace

RESET_SECONDS = 24 * 3600.0
LONGEST_INVITATION_SECONDS = 366 * 86400.0
LISTED = 500
_INVITATIONS, _LINKS = tables.invitations, tables.reset_links
_FIELDS = tuple(name for name in Invitation.__struct_fields__ if name != "suspended")


class Invitations(Part):
    """Invitations. Administrators invite anybody; administrators of a team invite members of their team."""

    def create(
        self,
        actor: Actor,
        *,
        email: str = "",
        role: Role = "member",
        team: str | None = None,
        seconds: float = 7 * 86400,
    ) -> tuple[str, Invitation]:
        """Create an invitation. Returns the token of the link, which is not stored, and the invitation.

        With `email`, only this e-mail may use it. Raises Denied, NotFound for an unknown team, AccountError.
        """
        if role not in ("administrator", "member"):
            raise AccountError("A role is administrator or member.", code="invalid_role", field="role")
        if not 0 < seconds <= LONGEST_INVITATION_SECONDS:
            raise AccountError("An invitation is valid for up to a year.", code="invalid_duration", field="seconds")
        token, now = make_token(), time.time()
        made = Invitation(
            id=make_id("inv"),
            email_key=make_email_key(check_email(email)) if email.strip() else None,
            role=role,
            team=team,
            created_by=actor.id,
            created=now,
            expires=now + seconds,
        )
        row = {name: getattr(made, name) for name in _FIELDS}
        with self.database.write() as connection:
            _check_inviter(connection, actor, role, team)
            connection.execute(insert(_INVITATIONS), [{**row, "digest": digest_token(token)}])
            record(connection, actor, "invitation.create", made.id, email=made.email_key, role=role, team=team)
        return token, made

    def list_newest(self) -> list[Invitation]:
        """Return the newest invitations, including used, expired and suspended ones."""
        query = select(_INVITATIONS).order_by(_INVITATIONS.c.created.desc(), _INVITATIONS.c.id).limit(LISTED)
        now = time.time()
        with self.database.read() as connection:
            invitations, makers = [_make_invitation(row) for row in connection.execute(query)], Makers(connection)
            return [
                replace(invitation, suspended=_judge_invitation(connection, makers, invitation) or None)
                if invitation.is_open(now)
                else invitation
                for invitation in invitations
            ]

    def revoke(self, identity: str, actor: Actor) -> None:
        """Delete an invitation. A person who has signed up with it keeps the account. Raises NotFound, Denied."""
        with self.database.write() as connection:
            row = connection.execute(
                select(_INVITATIONS).where(_INVITATIONS.c.id == make_storable(identity))
            ).one_or_none()
            if row is None:
                raise NotFound("There is no such invitation.", code="unknown_invitation")
            if row.team is None:
                check_administrator(actor)
            else:
                check_team_administrator(connection, actor, row.team)
            connection.execute(delete(_INVITATIONS).where(_INVITATIONS.c.id == identity))
            record(connection, actor, "invitation.revoke", identity)

    def find_invitation(self, token: str) -> Invitation:
        """Return the invitation of a link. Raises NotFound if it is unknown, used, expired or suspended."""
        with self.database.read() as connection:
            return read_open_invitation(connection, token)


def read_open_invitation(connection: Connection, token: str) -> Invitation:
    """Return the invitation of a link as `find` does."""
    invitation = _read_open(connection, _INVITATIONS.c.digest == digest_token(token))
    if invitation is None:
        message = (
            "This invitation does not exist, was used, has expired, or its maker may not invite now. Ask for a new one."
        )
        raise NotFound(message, code="unknown_invitation")
    return invitation


def find_invitation_for(connection: Connection, email: str) -> Invitation | None:
    """Return the newest open invitation for an e-mail whose owner is verified."""
    return _read_open(connection, _INVITATIONS.c.email_key == make_email_key(email))


def _read_open(connection: Connection, *conditions: ColumnElement[bool]) -> Invitation | None:
    """Return the newest matching invitation that can be used now."""
    query = select(_INVITATIONS).where(*conditions, _INVITATIONS.c.used.is_(None), _INVITATIONS.c.expires > time.time())
    makers = Makers(connection)
    rows = connection.execute(query.order_by(_INVITATIONS.c.created.desc(), _INVITATIONS.c.id)).all()
    invitations = map(_make_invitation, rows)
    return next(
        (invitation for invitation in invitations if not _judge_invitation(connection, makers, invitation)), None
    )


def _judge_invitation(connection: Connection, makers: Makers, invitation: Invitation) -> str:
    """Return why its maker could not make the invitation now; "" if the maker could."""
    verdict = makers.judge(
        invitation.created_by, lambda maker: _check_inviter(connection, maker, invitation.role, invitation.team)
    )
    return verdict.reason


def take_invitation(connection: Connection, invitation: Invitation, user_id: str) -> bool:
    """Mark an invitation as used. Returns False if another person has used it in the same moment."""
    change = update(_INVITATIONS).where(_INVITATIONS.c.id == invitation.id, _INVITATIONS.c.used.is_(None))
    return bool(connection.execute(change.values(used=time.time(), used_by=user_id)).rowcount)


def _make_invitation(row: Row[Any]) -> Invitation:
    return Invitation(**{name: row._mapping[name] for name in _FIELDS})


def _check_inviter(connection: Connection, actor: Actor, role: Role, team: str | None) -> None:
    """Check that the actor may make such an invitation. Raises Denied, NotFound."""
    if role == "administrator" or team is None:
        check_administrator(actor)
    if team is not None:
        check_team_administrator(connection, actor, team)
        read_team(connection, team)


class ResetLinks(Part):
    """Links that set a new password. Each is valid once, within a day."""

    def create(self, user_id: str, actor: Actor) -> str:
        """Create a link for a user. Returns its token; earlier links end. Raises NotFound, and Denied, for example for
        a disabled user.
        """
        check_administrator(actor)
        token, now = make_token(), time.time()
        with self.database.write() as connection:
            user = read_user(connection, user_id)
            if user.state != "active":
                raise Denied("This account is disabled. Enable it first.", code="account_disabled")
            connection.execute(delete(_LINKS).where((_LINKS.c.user == user_id) | (_LINKS.c.expires <= now)))
            row = {"digest": digest_token(token), "user": user_id, "created_by": actor.id, "created": now}
            connection.execute(insert(_LINKS), [{**row, "expires": now + RESET_SECONDS}])
            record(connection, actor, "user.create_reset_link", user_id)
        return token

    def find_user(self, token: str) -> User:
        """Return the user of a link. Raises NotFound if it is unknown, used or expired, or if its maker may no longer
        make it.
        """
        with self.database.read() as connection:
            return _read_linked_user(connection, token)

    def use(self, token: str, password: str) -> User:
        """Set the password of a link's user. All sessions of the user end. Raises NotFound as `find`,
        AccountError.
        """
        self.find_user(token)  # before the slow hash
        hashed = hash_password(check_password(password))
        with self.database.write() as connection:
            lock_accounts(connection)
            user = _read_linked_user(connection, token)
            if not connection.execute(delete(_LINKS).where(_LINKS.c.digest == digest_token(token))).rowcount:
                raise _make_unknown_link()
            set_password(connection, user.id, hashed)
            record(connection, make_actor(user), "user.reset_password", user.id)
            return read_user(connection, user.id)


def _read_linked_user(connection: Connection, token: str) -> User:
    condition = _LINKS.c.digest == digest_token(token)
    query = select(_LINKS.c.user, _LINKS.c.created_by).where(
        condition, _LINKS.c.expires > time.time(), _LINKS.c.used.is_(None)
    )
    link = connection.execute(query).one_or_none()
    if link is None or Makers(connection).judge(link.created_by, check_administrator).reason:
        raise _make_unknown_link()
    user = read_user(connection, link.user)
    if user.state != "active":
        raise _make_unknown_link()
    return user


def _make_unknown_link() -> NotFound:
    return NotFound(
        "This link does not exist, was used, has expired, or its maker is no administrator any more. "
        "Ask an administrator for a new one.",
        code="unknown_link",
    )
