"""Sign-up: the first account with the set-up token, others by the policy in conf or with an invitation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from sqlalchemy import insert
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import Conflict, Denied, NotFound, check_all
from tornado_gate.accounts.links import read_open_invitation, take_invitation
from tornado_gate.accounts.passwords import check_password, hash_password
from tornado_gate.accounts.people import Actor, Invitation, Session, User
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import USERS, Part, check_administrator, read_user
from tornado_gate.accounts.sessions import Sessions, make_actor
from tornado_gate.accounts.setup_tokens import check_setup_token, end_setup, is_first
from tornado_gate.accounts.teams import change_membership
from tornado_gate.accounts.texts import check_email, check_name, make_email_key
from tornado_gate.accounts.throttle import SIGN_UPS, Throttle, find_network, make_bound
from tornado_gate.accounts.tokens import make_id
from tornado_gate.config.model import Role
from tornado_gate.database.engine import Database
from tornado_gate.types.value import Value

Policy = Literal["open", "invite", "closed"]


class Admission(Value, frozen=True, kw_only=True):
    """The role and the team of a person who may sign up."""

    role: Role
    invitation: Invitation | None = None
    is_first: bool = False


class SignUp(Part):
    """New accounts."""

    def __init__(self, database: Database, throttle: Throttle, sessions: Sessions) -> None:
        super().__init__(database)
        self._throttle = throttle
        self._sessions = sessions

    def create_account(  # noqa: PLR0913 - what a form and a browser say
        self,
        email: str,
        password: str,
        *,
        name: str = "",
        setup_token: str = "",
        is_local: bool = False,
        invitation: str = "",
        policy: Policy,
        address: str,
        agent: str,
    ) -> tuple[str, Session]:
        """Create an account and sign in. Returns the value of a new cookie, and its session.

        The first account needs the set-up token; without a token it is only for a visitor on the gateway's own machine
        (`is_local`).

        Raises AccountError for a field, and Denied. The error and its time are the same for an e-mail that has an
        account and for an e-mail that may not sign up. Raises TooManyAttempts after many sign-ups from one address.
        """
        checks = {"email": partial(check_email, email), "password": partial(check_password, password)}
        checked = check_all({**checks, "name": partial(check_name, name, required=False)})
        email, name, password = checked["email"], checked["name"], checked["password"]
        self._throttle.begin([make_bound(SIGN_UPS, "sign-up", find_network(address))])
        with self.database.read() as connection:
            admit(connection, email, setup_token, invitation, policy, is_local=is_local)
        hashed = hash_password(password)
        try:
            with self.database.write() as connection:
                lock_accounts(connection)
                admission = admit(connection, email, setup_token, invitation, policy, is_local=is_local)
                user = create_user(connection, email, name=name, role=admission.role, password_hash=hashed)
                finish_admission(connection, admission, user, address)
                made = self._sessions.create(connection, user.id, address=address, agent=agent)
        except IntegrityError as error:
            raise make_refusal() from error
        return made

    def create_administrator(self, email: str, actor: Actor, *, name: str = "") -> User:
        """Create an administrator without a password, which a reset link sets. Raises Conflict, AccountError, Denied."""
        check_administrator(actor)
        email, name = check_email(email), check_name(name, required=False)
        try:
            with self.database.write() as connection:
                lock_accounts(connection)
                user = create_user(connection, email, name=name, role="administrator")
                end_setup(connection)
                record(connection, actor, "user.create", user.id, email=email, role="administrator")
        except IntegrityError as error:
            raise Conflict(f"There is already an account for {email}.", code="email_taken", field="email") from error
        return user


def make_refusal() -> Denied:
    return Denied(
        "This account cannot be created. If you already have an account, sign in; otherwise ask for an invitation.",
        code="sign_up_refused",
    )


def admit(
    connection: Connection, email: str, setup_token: str, invitation: str, policy: Policy, *, is_local: bool = False
) -> Admission:
    """Return the admission of a person with this e-mail. Raises Denied."""
    if is_first(connection):
        if not (is_local and not setup_token) and not check_setup_token(connection, setup_token):
            message = (
                "The first account needs the set-up token: open the address that the server has printed at its start."
            )
            raise Denied(message, code="setup_token_needed")
        return Admission(role="administrator", is_first=True)
    if policy == "closed":
        raise make_refusal()
    if invitation:
        try:
            open_invitation = read_open_invitation(connection, invitation)
        except NotFound as error:
            raise make_refusal() from error
        if open_invitation.email_key not in (None, make_email_key(email)):
            message = (
                "This invitation is for another e-mail. Use the e-mail for which it was made, or ask for a new link."
            )
            raise Denied(message, code="sign_up_refused", field="email")
        return Admission(role=open_invitation.role, invitation=open_invitation)
    if policy != "open":
        raise make_refusal()
    return Admission(role="member")


def finish_admission(connection: Connection, admission: Admission, user: User, address: str) -> None:
    """Invalidate the token or the invitation that a new user has used, and record the use. Raises Denied."""
    actor, by = make_actor(user, address=address), "sign_up"
    if admission.is_first:
        end_setup(connection)
        by = "first_account"
    if admission.invitation is not None:
        by = admission.invitation.id
        if not take_invitation(connection, admission.invitation, user.id):
            raise make_refusal()
        if admission.invitation.team is not None:
            change_membership(connection, admission.invitation.team, user.id, "member")
    record(connection, actor, "user.create", user.id, email=user.email, role=user.role, by=by)


def create_user(connection: Connection, email: str, **fields: Any) -> User:
    """Add a user. Raises IntegrityError if the e-mail has an account."""
    now = time.time()
    row: Mapping[str, Any] = {
        "id": make_id("user"),
        "email": email,
        "email_key": make_email_key(email),
        "state": "active",
        "password_hash": None,
        "subject": None,
        "created": now,
        "last_login": None,
        "password_changed": now if fields.get("password_hash") else None,
        **fields,
    }
    connection.execute(insert(USERS), [row])
    return read_user(connection, row["id"])
