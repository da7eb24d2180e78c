"""Sign-up: the first account, policies, invitations, and what refusals tell."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.people import ADDRESS, PASSWORD, add_member, sign_up_first
from tornado_gate.accounts import passwords, sign_up
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events
from tornado_gate.accounts.errors import AccountError, Conflict, Denied, NotFound, TooManyAttempts
from tornado_gate.accounts.people import COMMAND, Actor, Session
from tornado_gate.accounts.texts import check_email, check_name
from tornado_gate.accounts.throttle import SIGN_UPS
from tornado_gate.database.engine import Database


def try_sign_up(accounts: Accounts, email: str, **given: Any) -> tuple[str, Session]:
    given = {"policy": "invite", "address": ADDRESS, "agent": "test", "password": PASSWORD, **given}
    return accounts.sign_up.create_account(email, **given)


def refused_code(accounts: Accounts, email: str, **given: Any) -> tuple[str, str]:
    with pytest.raises(AccountError) as caught:
        try_sign_up(accounts, email, **given)
    return caught.value.code, caught.value.message


# The first account


def test_the_first_account_is_the_administrator_and_needs_the_token(accounts: Accounts) -> None:
    assert not accounts.users.has_any()
    token = accounts.setup.make_token()
    assert token is not None
    for wrong in ("", "x" * 43, token[:-1], "\udcff"):
        assert refused_code(accounts, "a@example.org", setup_token=wrong, policy="open")[0] == "setup_token_needed"
    cookie, session = try_sign_up(accounts, "Ann@Example.org", setup_token=token, name=" Ann ")
    assert session.user.is_administrator
    assert (session.user.email, session.user.name, session.user.has_password) == ("Ann@Example.org", "Ann", True)
    assert accounts.sessions.find_session(cookie) == session
    assert accounts.users.has_any()


def test_the_token_is_stored_as_a_digest_and_is_invalid_after_the_first_account(
    accounts: Accounts, database: Database
) -> None:
    token = accounts.setup.make_token()
    assert token is not None
    with database.read() as connection:
        values = connection.exec_driver_sql("SELECT value FROM meta").scalars().all()
    assert not any(token in value for value in values)
    try_sign_up(accounts, "a@example.org", setup_token=token)
    assert accounts.setup.make_token() is None
    assert refused_code(accounts, "b@example.org", setup_token=token)[0] == "sign_up_refused"


def test_tokens_of_several_nodes_are_valid_together(accounts: Accounts) -> None:
    tokens = [accounts.setup.make_token() for _ in range(5)]
    assert refused_code(accounts, "a@example.org", setup_token=tokens[0])[0] == "setup_token_needed"
    assert try_sign_up(accounts, "a@example.org", setup_token=tokens[1])[1].user.is_administrator


def test_two_at_once_with_the_token_do_not_both_become_administrator(accounts: Accounts) -> None:
    token = accounts.setup.make_token()
    barrier = threading.Barrier(4)

    def attempt(number: int) -> str:
        barrier.wait()
        try:
            return try_sign_up(accounts, f"a{number}@example.org", setup_token=token)[1].user.role
        except Denied as error:
            return error.code

    with ThreadPoolExecutor(4) as threads:
        results = sorted(threads.map(attempt, range(4)))
    assert results[0] == "administrator"
    assert set(results[1:]) <= {"sign_up_refused", "setup_token_needed"}


def test_an_administrator_by_command_ends_the_set_up(accounts: Accounts) -> None:
    token = accounts.setup.make_token()
    user = accounts.sign_up.create_administrator("root@example.org", COMMAND)
    assert (user.role, user.has_password) == ("administrator", False)
    assert refused_code(accounts, "b@example.org", setup_token=token)[0] == "sign_up_refused"
    with pytest.raises(Conflict):
        accounts.sign_up.create_administrator("ROOT@example.org", COMMAND)
    link = accounts.reset_links.create(user.id, COMMAND)
    accounts.reset_links.use(link, PASSWORD)
    assert accounts.sign_in.with_password("root@example.org", PASSWORD, address=ADDRESS, agent="")[
        1
    ].user.is_administrator


# Others


def test_an_open_gateway_makes_members(accounts: Accounts) -> None:
    sign_up_first(accounts)
    assert try_sign_up(accounts, "b@example.org", policy="open")[1].user.role == "member"


@pytest.mark.parametrize("policy", ["invite", "closed"])
def test_without_an_invitation_nobody_comes_into_a_gateway_that_is_not_open(accounts: Accounts, policy: str) -> None:
    sign_up_first(accounts)
    assert refused_code(accounts, "b@example.org", policy=policy)[0] == "sign_up_refused"


def test_a_known_email_is_refused_as_everybody_is_who_may_not_sign_up(
    accounts: Accounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_up_first(accounts, "root@example.org")
    stranger = refused_code(accounts, "new@example.org", policy="closed")
    hashed: list[str] = []
    monkeypatch.setattr(sign_up, "hash_password", lambda text: hashed.append(text) or passwords.hash_password(text))
    assert refused_code(accounts, "ROOT@example.org", policy="open") == stranger
    try_sign_up(accounts, "new@example.org", policy="open")
    assert hashed == [PASSWORD, PASSWORD]  # the slow part is the same for both


def test_many_sign_ups_from_one_address_are_refused_for_a_while(accounts: Accounts) -> None:
    sign_up_first(accounts)
    for number in range(SIGN_UPS - 1):
        assert refused_code(accounts, f"b{number}@example.org")[0] == "sign_up_refused"
    with pytest.raises(TooManyAttempts) as caught:
        try_sign_up(accounts, "c@example.org", policy="open")
    assert 0 < caught.value.retry_after <= 900
    assert try_sign_up(accounts, "c@example.org", policy="open", address="192.0.2.9")


@pytest.mark.parametrize(
    "email",
    [
        *["", " ", "ann", "@example.org", "ann@", "a b@example.org", "a@b@example.org", ".a@example.org", "a@-b.org"],
        *[
            "a@b..org",
            "a\n@example.org",
            "a@example.org\x00x",
            "a@\udcff.org",
            "a\u202e@example.org",
            "<a>@example.org",
        ],
        *[
            '"a"@example.org',
            "ａ@example.org",
            "a" * 65 + "@example.org",
            "a@" + "b" * 64 + ".org",
            "a@" + "b." * 150 + "org",
        ],
    ],
)
def test_what_is_no_email_is_refused(email: str) -> None:
    with pytest.raises(AccountError) as caught:
        check_email(email)
    assert (caught.value.code, caught.value.field) == ("invalid_email", "email")


@pytest.mark.parametrize(
    "email",
    ["o'brien+tag@example.org", "jürgen@bücher.example", "用户@例子.广告", "ann@localhost", " ann@example.org "],
)
def test_unusual_emails_are_accepted(accounts: Accounts, email: str) -> None:
    sign_up_first(accounts)
    add_member(accounts, email)
    assert (
        accounts.sign_in.with_password(email.upper(), PASSWORD, address=ADDRESS, agent="")[1].user.email
        == email.strip()
    )


@pytest.mark.parametrize("name", ["x" * 201, "a\x00b", "a\u202eb", "\udcff"])
def test_names_that_no_page_can_show_are_refused(name: str) -> None:
    with pytest.raises(AccountError) as caught:
        check_name(name)
    assert (caught.value.code, caught.value.field) == ("invalid_name", "name")


def test_bad_fields_are_named_before_anything_else(accounts: Accounts) -> None:
    assert refused_code(accounts, "no e-mail")[0] == "invalid_email"
    assert refused_code(accounts, "a@example.org", name="\x00")[0] == "invalid_name"
    assert refused_code(accounts, "a@example.org", password="short")[0] == "invalid_password"


# Invitations


def test_an_invitation_admits_one_person_with_its_role_to_its_team(accounts: Accounts, administrator: Actor) -> None:
    team = accounts.teams.create(accounts.organisations.create("o", administrator).id, "t", administrator)
    token, invitation = accounts.invitations.create(administrator, role="administrator", team=team.id)
    assert accounts.invitations.find_invitation(token) == invitation
    user = try_sign_up(accounts, "b@example.org", invitation=token)[1].user
    assert user.role == "administrator"
    assert [(one.team.name, one.role) for one in accounts.members.list_of_user(user.id)] == [("t", "member")]
    assert refused_code(accounts, "c@example.org", invitation=token)[0] == "sign_up_refused"
    with pytest.raises(NotFound):
        accounts.invitations.find_invitation(token)
    [listed] = accounts.invitations.list_newest()
    assert listed.used_by == user.id


def test_a_closed_gateway_takes_no_invitation(accounts: Accounts, administrator: Actor) -> None:
    token, _ = accounts.invitations.create(administrator)
    assert refused_code(accounts, "b@example.org", invitation=token, policy="closed")[0] == "sign_up_refused"
    assert try_sign_up(accounts, "b@example.org", invitation=token, policy="invite")


def test_an_invitation_for_an_email_is_for_no_other(accounts: Accounts, administrator: Actor) -> None:
    token, _ = accounts.invitations.create(administrator, email="Bob@example.org")
    assert refused_code(accounts, "eve@example.org", invitation=token)[0] == "sign_up_refused"
    assert try_sign_up(accounts, "bob@EXAMPLE.org", invitation=token)


def test_invitations_expire_and_can_be_revoked(accounts: Accounts, administrator: Actor) -> None:
    expired, _ = accounts.invitations.create(administrator, seconds=1e-6)
    revoked, invitation = accounts.invitations.create(administrator)
    accounts.invitations.revoke(invitation.id, administrator)
    for token in (expired, revoked, "unknown", "", "x" * 10_000):
        with pytest.raises(NotFound):
            accounts.invitations.find_invitation(token)
    with pytest.raises(NotFound):
        accounts.invitations.revoke(invitation.id, administrator)


def test_one_invitation_used_by_two_at_once_admits_one(accounts: Accounts, administrator: Actor) -> None:
    token, _ = accounts.invitations.create(administrator)
    barrier = threading.Barrier(3)

    def attempt(number: int) -> str:
        barrier.wait()
        try:
            return try_sign_up(accounts, f"b{number}@example.org", invitation=token)[1].user.role
        except Denied as error:
            return error.code

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(attempt, range(3))) == ["member", "sign_up_refused", "sign_up_refused"]


def test_invitations_never_outrank_who_made_them(accounts: Accounts, administrator: Actor) -> None:
    team = accounts.teams.create(accounts.organisations.create("o", administrator).id, "t", administrator)
    user = add_member(accounts, "lead@example.org")
    lead = Actor(id=user.id, name=user.email, role="member")
    for wanted in ({}, {"team": team.id}, {"role": "administrator"}):
        with pytest.raises(Denied):
            accounts.invitations.create(lead, **wanted)  # type: ignore[arg-type]
    accounts.members.set_role(team.id, user.id, "administrator", administrator)
    token, invitation = accounts.invitations.create(lead, team=team.id)
    assert token
    for refused in ({}, {"team": team.id, "role": "administrator"}):
        with pytest.raises(Denied):
            accounts.invitations.create(lead, **refused)  # type: ignore[arg-type]
    accounts.invitations.revoke(invitation.id, lead)


def test_sign_ups_are_audited_without_secrets(accounts: Accounts, database: Database) -> None:
    cookie, session = sign_up_first(accounts)
    [event] = list_events(database, action="user.create")
    assert (event.actor, event.object, event.address) == (session.user.id, session.user.id, ADDRESS)
    assert event.detail == {"email": "root@example.org", "role": "administrator", "by": "first_account"}
    assert cookie not in repr(list_events(database))
