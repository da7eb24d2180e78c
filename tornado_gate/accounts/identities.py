"""Sign-in with an identity provider: the account of an identity, admission of unknown people, and teams by groups."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sqlalchemy import insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from tornado_gate.accounts.audit import record
from tornado_gate.accounts.errors import AccountError, Denied
from tornado_gate.accounts.keys import bump_revision
from tornado_gate.accounts.links import find_invitation_for
from tornado_gate.accounts.oidc import Identity
from tornado_gate.accounts.people import Actor, Session, User
from tornado_gate.accounts.revision import lock_accounts
from tornado_gate.accounts.rows import (
    MEMBERS,
    ORGANISATIONS,
    TEAMS,
    USER_COLUMNS,
    USERS,
    Part,
    make_user,
    read_user,
)
from tornado_gate.accounts.sessions import Sessions, make_actor
from tornado_gate.accounts.setup_tokens import is_first
from tornado_gate.accounts.sign_up import Admission, Policy, admit, create_user, finish_admission
from tornado_gate.accounts.takeover import end_what_was_made
from tornado_gate.accounts.teams import change_membership, drop_membership
from tornado_gate.accounts.texts import LONGEST_NAME, check_email, make_email_key, shorten
from tornado_gate.accounts.tokens import make_id
from tornado_gate.database.engine import Database
from tornado_gate.types.value import Value

DEFAULT_ORGANISATION = "default"
PROVIDER = Actor(id="oidc", name="identity provider", role="administrator")
LONGEST_SUBJECT = 600


class IdentityRules(Value, frozen=True, kw_only=True):
    """The rules in conf: the admission of unknown people, and the team of each group."""

    policy: Policy
    groups: Mapping[str, str]


class IdentitySignIn(Part):
    """Sign-in of people whom an identity provider has identified."""

    def __init__(self, database: Database, sessions: Sessions) -> None:
        super().__init__(database)
        self._sessions = sessions

    def sign_in(
        self,
        identity: Identity,
        rules: IdentityRules,
        *,
        setup_token: str = "",
        address: str,
        agent: str,
        replaces: str = "",
    ) -> tuple[str, Session]:
        """Sign in the person whom the provider has identified. Returns the value of a new cookie, and its session.

        The account is found by issuer and subject, else by the e-mail, if the provider has verified it. An unknown
        person is admitted by one of these: the set-up token, a group of `rules`, the policy, or an invitation for the
        verified e-mail. Raises Denied.
        """
        try:
            with self.database.write() as connection:
                lock_accounts(connection)
                user = _find_or_create(connection, identity, rules, setup_token, address)
                if user.state != "active":
                    raise Denied(
                        "This account is disabled. Ask an administrator to enable it.", code="account_disabled"
                    )
                _update_teams(connection, user, identity, rules.groups)
                made = self._sessions.create(connection, user.id, address=address, agent=agent, replaces=replaces)
                actor = make_actor(user, address=address)
                record(connection, actor, "user.sign_in", user.id, session=made[1].id, by="oidc")
        except IntegrityError as error:
            raise Denied("The account was changed at the same time. Try again.", code="oidc_conflict") from error
        return made


def make_subject(identity: Identity) -> str:
    """Return the column `subject` of an identity. Raises Denied if the subject is too long."""
    subject = f"{identity.issuer} {identity.subject}"
    if len(subject) > LONGEST_SUBJECT:
        raise Denied("The identity provider's name for you is too long.", code="oidc_subject")
    return subject


def _find_or_create(
    connection: Connection, identity: Identity, rules: IdentityRules, setup_token: str, address: str
) -> User:
    subject = make_subject(identity)
    row = connection.execute(select(*USER_COLUMNS).where(USERS.c.subject == subject)).one_or_none()
    if row is not None:
        return make_user(row)
    email = _check_email(identity)
    row = connection.execute(select(*USER_COLUMNS).where(USERS.c.email_key == make_email_key(email))).one_or_none()
    if row is not None:
        return _link_account(connection, make_user(row), identity, subject, address)
    admission = _admit_person(connection, identity, rules, setup_token, email)
    name = shorten(identity.name.strip(), LONGEST_NAME)
    user = create_user(connection, email, name=name, role=admission.role, subject=subject)
    finish_admission(connection, admission, user, address)
    return user


def _check_email(identity: Identity) -> str:
    try:
        return check_email(identity.email)
    except AccountError as error:
        message = "The identity provider sent no valid e-mail for you. An administrator should allow the scope `email`."
        raise Denied(message, code="oidc_email") from error


def _link_account(connection: Connection, user: User, identity: Identity, subject: str, address: str) -> User:
    """Connect an existing account with an identity.

    It is not verified that the owner of the e-mail made the account. Therefore the account's password, sessions and
    keys end, and so do the objects that it made. Otherwise a person who took the e-mail first would share the account.
    """
    if not identity.email_verified:
        message = (
            "There is an account with your e-mail, but the identity provider has not verified that the e-mail is yours."
        )
        raise Denied(message, code="email_not_verified")
    if user.subject is not None:
        raise Denied(
            "The account with your e-mail belongs to another identity. Ask an administrator.", code="email_taken"
        )
    connection.execute(update(USERS).where(USERS.c.id == user.id).values(subject=subject))
    revoked = end_what_was_made(connection, user.id)
    actor = make_actor(user, address=address)
    record(connection, actor, "user.link_identity", user.id, issuer=identity.issuer, revoked_keys=revoked)
    return read_user(connection, user.id)


def _admit_person(
    connection: Connection, identity: Identity, rules: IdentityRules, setup_token: str, email: str
) -> Admission:
    """Return the admission of an unknown person. Raises Denied."""
    if not is_first(connection) and rules.groups.keys() & set(identity.groups):
        return Admission(role="member")
    if not is_first(connection) and rules.policy == "invite" and identity.email_verified:
        invitation = find_invitation_for(connection, email)
        if invitation is not None:
            return Admission(role=invitation.role, invitation=invitation)
    return admit(connection, email, setup_token, "", rules.policy)


def _update_teams(connection: Connection, user: User, identity: Identity, groups: Mapping[str, str]) -> None:
    """Set the memberships that come from groups to the groups of the identity. Memberships from the console stay."""
    teams = {_find_team(connection, groups[group]) for group in dict.fromkeys(identity.groups) if group in groups}
    query = select(MEMBERS.c.team, MEMBERS.c.source).where(MEMBERS.c.user == user.id)
    known = {row.team: row.source for row in connection.execute(query)}
    added = sorted(teams - known.keys())
    removed = sorted(team for team, source in known.items() if source == "oidc" and team not in teams)
    if not added and not removed:
        return
    bump_revision(connection)
    for team in added:
        change_membership(connection, team, user.id, "member", "oidc")
        record(connection, PROVIDER, "team.set_member", team, user=user.id, role="member")
    for team in removed:
        drop_membership(connection, team, user.id)
        record(connection, PROVIDER, "team.remove_member", team, user=user.id)


def _find_team(connection: Connection, name: str) -> str:
    """Return the id of the team that conf names: the team of the organisation `default`, or the only team with this name.

    Otherwise the team is created in the organisation `default`.
    """
    query = select(TEAMS.c.id, ORGANISATIONS.c.name).select_from(TEAMS.join(ORGANISATIONS)).where(TEAMS.c.name == name)
    ids = {row.name: row.id for row in connection.execute(query)}
    if DEFAULT_ORGANISATION in ids or len(ids) == 1:
        return str(ids.get(DEFAULT_ORGANISATION) or next(iter(ids.values())))
    now, identity = time.time(), make_id("team")
    organisation_query = select(ORGANISATIONS.c.id).where(ORGANISATIONS.c.name == DEFAULT_ORGANISATION)
    organisation = connection.execute(organisation_query).scalar_one_or_none()
    if organisation is None:
        organisation = make_id("org")
        connection.execute(insert(ORGANISATIONS).values(id=organisation, name=DEFAULT_ORGANISATION, created=now))
        record(connection, PROVIDER, "organisation.create", organisation, name=DEFAULT_ORGANISATION)
    values = {"id": identity, "organisation": organisation, "name": name, "created": now}
    connection.execute(insert(TEAMS), [{**values, "budget": {}, "limits": {}, "models": []}])
    record(connection, PROVIDER, "team.create", identity, organisation=organisation, name=name)
    return identity
