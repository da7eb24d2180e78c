"""Accounts of people whom an identity provider has signed in, on both databases."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.people import ADDRESS, PASSWORD, add_member, sign_up_first
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.errors import Denied, NotFound, SignInFailed
from tornado_gate.accounts.identities import IdentityRules
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.accounts.oidc import Identity
from tornado_gate.accounts.people import Actor, Session, User
from tornado_gate.accounts.session_keys import create_session_key
from tornado_gate.accounts.sessions import make_actor

ISSUER = "https://login.example.org"
GROUPS = {"eng": "Engineering", "ops": "Operations"}


def make_identity(subject: str = "ann", **given: Any) -> Identity:
    email = f"{subject}@example.org"
    return Identity(**{"issuer": ISSUER, "subject": subject, "email": email, "email_verified": True, **given})


def sign_in(accounts: Accounts, identity: Identity, policy: str = "closed", **given: str) -> tuple[str, Session]:
    rules = IdentityRules(policy=policy, groups=GROUPS)  # type: ignore[arg-type]
    return accounts.identities.sign_in(identity, rules, **{"address": ADDRESS, "agent": "test", **given})


def refused_code(accounts: Accounts, identity: Identity, policy: str = "closed", **given: str) -> str:
    with pytest.raises(Denied) as caught:
        sign_in(accounts, identity, policy, **given)
    return caught.value.code


def list_teams(accounts: Accounts, user: User) -> list[str]:
    return [
        f"{one.team.organisation_name}/{one.team.name}:{one.source}" for one in accounts.members.list_of_user(user.id)
    ]


def test_the_first_account_needs_the_set_up_token(accounts: Accounts) -> None:
    token = accounts.setup.make_token() or ""
    identity = make_identity(groups=("eng",))
    for policy in ("open", "closed"):
        assert refused_code(accounts, identity, policy) == "setup_token_needed"
    user = sign_in(accounts, identity, setup_token=token)[1].user
    assert (user.role, user.has_password, user.subject) == ("administrator", False, f"{ISSUER} ann")
    assert list_teams(accounts, user) == ["default/Engineering:oidc"]
    assert accounts.setup.make_token() is None


def test_somebody_known_by_subject_is_signed_in_whatever_the_policy_and_the_email(
    accounts: Accounts, administrator: Actor
) -> None:
    first = sign_in(accounts, make_identity(name=" Ann "), "open")[1].user
    assert (first.role, first.email, first.name) == ("member", "ann@example.org", "Ann")
    cookie, session = sign_in(accounts, make_identity(email="other@example.org", email_verified=False))
    assert session.user.id == first.id
    assert accounts.sessions.find_session(cookie) == session
    other = make_identity(issuer="https://other.example.org", email="other@example.org")
    assert sign_in(accounts, other, "open")[1].user.id != first.id  # the same subject at another issuer


@pytest.mark.parametrize("policy", ["invite", "closed"])
def test_somebody_unknown_needs_a_mapped_group_or_an_invitation(
    accounts: Accounts, administrator: Actor, policy: str
) -> None:
    assert refused_code(accounts, make_identity(), policy) == "sign_up_refused"
    assert refused_code(accounts, make_identity(groups=("others",)), policy) == "sign_up_refused"
    user = sign_in(accounts, make_identity(groups=("others", "ops")), policy)[1].user
    assert list_teams(accounts, user) == ["default/Operations:oidc"]


def test_an_invitation_for_a_verified_email_admits(accounts: Accounts, administrator: Actor) -> None:
    accounts.invitations.create(administrator, email="ANN@example.org", role="administrator")
    assert refused_code(accounts, make_identity(email_verified=False), "invite") == "sign_up_refused"
    assert refused_code(accounts, make_identity("eve"), "invite") == "sign_up_refused"
    assert sign_in(accounts, make_identity(), "invite")[1].user.role == "administrator"
    assert accounts.invitations.list_newest()[0].used is not None


def test_an_account_is_linked_only_by_a_verified_email_and_loses_its_password(
    accounts: Accounts, administrator: Actor
) -> None:
    user = add_member(accounts, "Ann@example.org")
    cookie, _ = accounts.sign_in.with_password("ann@example.org", PASSWORD, address=ADDRESS, agent="")
    unverified = make_identity(email_verified=False, groups=("eng",))
    assert refused_code(accounts, unverified, "open") == "email_not_verified"
    assert accounts.sessions.find_session(cookie)
    linked = sign_in(accounts, make_identity())[1].user
    assert (linked.id, linked.has_password) == (user.id, False)
    assert accounts.sessions.find_session(cookie) is None  # whoever had taken the e-mail before
    with pytest.raises(SignInFailed):
        accounts.sign_in.with_password("ann@example.org", PASSWORD, address=ADDRESS, agent="")
    assert refused_code(accounts, make_identity("mallory", email="ann@example.org"), "open") == "email_taken"
    [event] = list_events(accounts.database, action="user.link_identity")
    assert event.object == user.id


def test_linking_ends_all_that_the_unverified_account_had_and_made(accounts: Accounts, administrator: Actor) -> None:
    """Somebody has taken the e-mail of Ann first, and even got a role: nothing lets that person in afterwards."""
    store = KeyStore(accounts.database)
    user = accounts.users.set_role(add_member(accounts, "ann@example.org").id, "administrator", administrator)
    cookie, session = accounts.sign_in.with_password("ann@example.org", PASSWORD, address=ADDRESS, agent="")
    actor, device = make_actor(user), accounts.devices.make_token(user.id)
    other = add_member(accounts, "other@example.org")
    _, service = store.create("service", created_by=user.id, role="administrator")
    _, of_command = store.create("of the command")
    keys = {
        "own": store.create("own", user=user.id, created_by=user.id)[0],
        "given by the administrator": store.create("given", user=user.id, created_by=administrator.id)[0],
        "of the playground": create_session_key(store, session)[0],
        "made": store.create("made", created_by=user.id)[0],
        "made by a key that it made": store.create("made", created_by=service.id)[0],
        "of somebody else": store.create("other", user=other.id, created_by=user.id)[0],
        "rotated": store.rotate(of_command.id, actor=actor)[0],
    }
    untouched = store.create("untouched", user=other.id, created_by=other.id)[0]
    reset = accounts.reset_links.create(user.id, administrator)
    made_reset = accounts.reset_links.create(other.id, actor)
    invitation, _ = accounts.invitations.create(actor, role="administrator")
    accounts.limit_overrides.create("gateway", "", "requests_per_minute", actor, value=1, until=time.time() + 60)
    assert all(store.find_key(digest_key(text)) for text in keys.values())
    assert accounts.devices.knows(device, user.id)

    linked = sign_in(accounts, make_identity())[1].user
    assert linked.id == user.id
    assert [name for name, text in keys.items() if store.find_key(digest_key(text))] == []
    assert store.find_key(digest_key(untouched)) is not None
    assert accounts.sessions.find_session(cookie) is None
    assert not accounts.devices.knows(device, user.id, linked.password_changed or 0.0)
    assert accounts.limit_overrides.list_all() == []
    for find_by_token, token in (
        (accounts.reset_links.find_user, reset),
        (accounts.reset_links.find_user, made_reset),
        (accounts.invitations.find_invitation, invitation),
    ):
        with pytest.raises(NotFound):
            find_by_token(token)
    [event] = list_events(accounts.database, action="user.link_identity")
    assert event.detail["revoked_keys"] == len(keys) + 1
    new, _ = store.create("new", user=user.id, created_by=user.id)
    sign_in(accounts, make_identity())
    assert store.find_key(digest_key(new)) is not None, "only the first sign-in links"


def test_an_email_that_only_looks_alike_is_not_the_same(accounts: Accounts, administrator: Actor) -> None:
    add_member(accounts, "kim@example.org")
    lookalike = make_identity("mallory", email="\u212aim@example.org")  # the Kelvin sign folds to k
    assert refused_code(accounts, lookalike, "open") == "oidc_email"
    assert refused_code(accounts, make_identity("mallory", email="ｋim@example.org"), "open") == "oidc_email"
    first = add_member(accounts, "straße@example.org")
    other = sign_in(accounts, make_identity("other", email="strasse@example.org"), "open")[1].user
    assert other.id != first.id, "ß and ss are mailboxes of two people"
    assert sign_in(accounts, make_identity("first", email="STRAßE@Example.org"), "open")[1].user.id == first.id


@pytest.mark.parametrize("email", ["", "no e-mail", "a@\udcff.org"])
def test_without_an_email_nobody_gets_an_account(accounts: Accounts, administrator: Actor, email: str) -> None:
    assert refused_code(accounts, make_identity(email=email), "open") == "oidc_email"


def test_a_disabled_account_stays_out(accounts: Accounts, administrator: Actor) -> None:
    user = sign_in(accounts, make_identity(), "open")[1].user
    accounts.users.set_state(user.id, "disabled", administrator)
    assert refused_code(accounts, make_identity(), "open") == "account_disabled"


def test_memberships_follow_the_groups_and_those_from_the_console_stay(
    accounts: Accounts, administrator: Actor
) -> None:
    organisation = accounts.organisations.create("Acme", administrator)
    team = accounts.teams.create(organisation.id, "Engineering", administrator)
    own = accounts.teams.create(organisation.id, "Own", administrator)
    user = sign_in(accounts, make_identity(groups=("eng", "ops", "eng")), "open")[1].user
    accounts.members.set_role(own.id, user.id, "member", administrator)
    accounts.members.set_role(team.id, user.id, "administrator", administrator)
    assert list_teams(accounts, user) == ["Acme/Engineering:oidc", "default/Operations:oidc", "Acme/Own:console"]
    keystore = KeyStore(accounts.database)
    text, _ = keystore.create("k", account=user.id, user=user.id, team=team.id)
    revision = keystore.revision()
    sign_in(accounts, make_identity(groups=("eng", "ops")))
    assert keystore.revision() == revision  # nothing has changed
    assert accounts.members.list_of_user(user.id)[0].role == "administrator"
    sign_in(accounts, make_identity(groups=("ops",)))
    assert list_teams(accounts, user) == ["default/Operations:oidc", "Acme/Own:console"]
    assert keystore.find_key(digest_key(text)) is None
    assert keystore.revision() > revision
    sign_in(accounts, make_identity())
    assert list_teams(accounts, user) == ["Acme/Own:console"]


def test_a_subject_that_is_too_long_is_refused(accounts: Accounts) -> None:
    sign_up_first(accounts)
    assert refused_code(accounts, make_identity("x" * 600, email="x@example.org"), "open") == "oidc_subject"
