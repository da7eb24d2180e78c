"""Users, organisations, teams, members: who may change what, and what follows from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.people import ADDRESS, PASSWORD, add_member
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.audit import list_events, record
from tornado_gate.accounts.errors import AccountError, Conflict, Denied, NotFound
from tornado_gate.accounts.keys import KeyStore, digest_key
from tornado_gate.accounts.people import COMMAND, Actor, Team, User
from tornado_gate.accounts.sessions import make_actor
from tornado_gate.database.engine import Database

Change = Callable[[Accounts, str, Actor], Any]

REMOVALS: dict[str, Change] = {
    "demote": lambda accounts, identity, actor: accounts.users.set_role(identity, "member", actor),
    "disable": lambda accounts, identity, actor: accounts.users.set_state(identity, "disabled", actor),
    "delete": lambda accounts, identity, actor: accounts.users.delete(identity, actor),
}


@pytest.fixture
def member(accounts: Accounts, administrator: Actor) -> User:
    return add_member(accounts, "bob@example.org")


@pytest.fixture
def team(accounts: Accounts, administrator: Actor) -> Team:
    organisation = accounts.organisations.create("Acme", administrator)
    return accounts.teams.create(organisation.id, "Research", administrator)


@pytest.fixture
def keystore(database: Database) -> KeyStore:
    return KeyStore(database)


# Users


@pytest.mark.parametrize("removal", REMOVALS)
def test_the_last_administrator_stays(accounts: Accounts, administrator: Actor, member: User, removal: str) -> None:
    with pytest.raises(Conflict) as caught:
        REMOVALS[removal](accounts, administrator.id, administrator)
    assert caught.value.code == "last_administrator"
    accounts.users.set_role(member.id, "administrator", administrator)
    REMOVALS[removal](accounts, administrator.id, administrator)
    with pytest.raises(Conflict):
        REMOVALS[removal](accounts, member.id, COMMAND)


def test_two_administrators_who_demote_each_other_at_once_leave_one(
    accounts: Accounts, administrator: Actor, member: User
) -> None:
    accounts.users.set_role(member.id, "administrator", administrator)
    barrier = threading.Barrier(2)

    def demote(identity: str) -> str:
        barrier.wait()
        try:
            return accounts.users.set_role(identity, "member", COMMAND).role
        except Conflict as error:
            return error.code

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(demote, (administrator.id, member.id))) == ["last_administrator", "member"]


def test_members_change_nothing_of_others(accounts: Accounts, administrator: Actor, member: User) -> None:
    actor = make_actor(member)
    attempts: list[Callable[[], Any]] = [
        lambda: accounts.users.set_role(member.id, "administrator", actor),
        lambda: accounts.users.set_state(administrator.id, "disabled", actor),
        lambda: accounts.users.set_name(administrator.id, "x", actor),
        lambda: accounts.users.delete(administrator.id, actor),
        lambda: accounts.reset_links.create(administrator.id, actor),
        lambda: accounts.organisations.create("x", actor),
        lambda: accounts.teams.create("x", "x", actor),
        lambda: accounts.teams.update("x", actor, name="x"),
        lambda: accounts.teams.delete("x", actor),
        lambda: accounts.members.set_role("x", member.id, "administrator", actor),
        lambda: accounts.members.remove("x", administrator.id, actor),
        lambda: accounts.organisations.rename("x", "x", actor),
        lambda: accounts.organisations.delete("x", actor),
        lambda: accounts.sign_up.create_administrator("x@example.org", actor),
    ]
    for attempt in attempts:
        with pytest.raises(Denied):
            attempt()
    assert accounts.users.set_name(member.id, " Bob ", actor).name == "Bob"
    accounts.users.delete(member.id, actor)
    with pytest.raises(NotFound):
        accounts.users.get(member.id)


def test_a_disabled_user_loses_sessions_and_keys_until_enabled(
    accounts: Accounts, administrator: Actor, member: User, keystore: KeyStore
) -> None:
    text, _ = keystore.create("k", account=member.id, user=member.id)
    cookie, _ = accounts.sign_in.with_password(member.email, PASSWORD, address=ADDRESS, agent="")
    revision = keystore.revision()
    assert accounts.users.set_state(member.id, "disabled", administrator).state == "disabled"
    assert keystore.revision() > revision
    assert accounts.sessions.find_session(cookie) is None
    assert keystore.find_key(digest_key(text)) is None
    accounts.users.set_state(member.id, "active", administrator)
    assert accounts.sessions.find_session(cookie) is None
    assert keystore.find_key(digest_key(text)) is not None


def test_a_deleted_user_leaves_no_keys_sessions_or_memberships(
    accounts: Accounts, administrator: Actor, member: User, team: Team, keystore: KeyStore
) -> None:
    accounts.members.set_role(team.id, member.id, "member", administrator)
    text, _ = keystore.create("k", account=member.id, user=member.id)
    cookie, _ = accounts.sign_in.with_password(member.email, PASSWORD, address=ADDRESS, agent="")
    accounts.users.delete(member.id, administrator)
    assert accounts.sessions.find_session(cookie) is None
    assert keystore.find_key(digest_key(text)) is None
    assert accounts.members.list_of_team(team.id) == []
    assert accounts.users.find_user("bob@example.org") is None


def test_a_changed_role_counts_for_keys_at_once(
    accounts: Accounts, administrator: Actor, member: User, keystore: KeyStore
) -> None:
    accounts.users.set_role(member.id, "administrator", administrator)
    text, _ = keystore.create("k", account=member.id, user=member.id, role="administrator")
    found = keystore.find_key(digest_key(text))
    assert found is not None
    assert found.role == "administrator"
    revision = keystore.revision()
    accounts.users.set_role(member.id, "member", administrator)
    found = keystore.find_key(digest_key(text))
    assert found is not None
    assert found.role == "member"
    assert keystore.revision() > revision


def test_users_are_listed_in_pages_and_found_by_email_or_name(accounts: Accounts, administrator: Actor) -> None:
    made = [add_member(accounts, f"user{number}@example.org") for number in range(5)]
    accounts.users.set_name(made[3].id, "Zoë 100%_'", administrator)
    page, total = accounts.users.list_page(offset=1, limit=2)
    assert ([user.id for user in page], total) == ([made[0].id, made[1].id], 6)
    for search, found in [("USER3", [made[3]]), ("zoë", [made[3]]), ("%", [made[3]]), ("_", [made[3]]), ("nobody", [])]:
        assert [user.id for user in accounts.users.list_page(search=search)[0]] == [user.id for user in found]
    assert accounts.users.list_page(offset=100)[0] == []
    assert len(accounts.users.list_page(limit=10**9)[0]) == 6


def test_ids_that_no_database_takes_are_unknown(accounts: Accounts, administrator: Actor) -> None:
    for identity in ("unknown", "", "\x00", "\udcff", "' OR 1=1", "x" * 10_000):
        check_unknown(accounts, administrator, identity)


def check_unknown(accounts: Accounts, administrator: Actor, identity: str) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: accounts.users.get(identity),
        lambda: accounts.teams.get(identity),
        lambda: accounts.users.set_role(identity, "member", administrator),
        lambda: accounts.members.set_role(identity, administrator.id, "member", administrator),
        lambda: accounts.members.list_of_team(identity),
        lambda: accounts.organisations.rename(identity, "x", administrator),
        lambda: accounts.sessions.end(administrator.id, identity),
        lambda: accounts.invitations.revoke(identity, administrator),
        lambda: accounts.invitations.find_invitation(identity),
        lambda: accounts.reset_links.create(identity, administrator),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound):
            attempt()
    assert accounts.sessions.list_open(identity) == []
    assert accounts.members.list_of_user(identity) == []
    assert accounts.users.find_user(identity) is None
    assert list_events(accounts.database, actor=identity or "x", action=identity or "x") == []
    if identity:
        assert accounts.users.list_page(search=identity) == ([], 0)


# Organisations and teams


def test_names_are_unique_within_their_parent(accounts: Accounts, administrator: Actor, team: Team) -> None:
    other = accounts.organisations.create("Other", administrator)
    accounts.teams.create(other.id, "Research", administrator)
    with pytest.raises(Conflict):
        accounts.organisations.create("Acme", administrator)
    with pytest.raises(Conflict):
        accounts.organisations.rename(other.id, "Acme", administrator)
    with pytest.raises(Conflict):
        accounts.teams.create(team.organisation, "Research", administrator)
    assert accounts.organisations.rename(other.id, "Else", administrator).name == "Else"
    assert [(one.organisation_name, one.name) for one in accounts.teams.list_all()] == [
        ("Acme", "Research"),
        ("Else", "Research"),
    ]
    assert [one.organisation_name for one in accounts.teams.list_all(organisation=other.id)] == ["Else"]


def test_an_organisation_with_teams_is_not_deleted(accounts: Accounts, administrator: Actor, team: Team) -> None:
    with pytest.raises(Conflict):
        accounts.organisations.delete(team.organisation, administrator)
    accounts.teams.delete(team.id, administrator)
    accounts.organisations.delete(team.organisation, administrator)
    assert accounts.organisations.list_all() == []
    for attempt in (accounts.organisations.delete, accounts.teams.delete):
        with pytest.raises(NotFound):
            attempt("unknown", administrator)
    with pytest.raises(NotFound):
        accounts.teams.create("unknown", "x", administrator)


def test_a_team_has_bounds_and_models(accounts: Accounts, administrator: Actor, team: Team, keystore: KeyStore) -> None:
    revision = keystore.revision()
    changed = accounts.teams.update(
        team.id,
        administrator,
        budget={"usd_per_month": 12.5, "tokens_per_day": 1000, "usd_per_day": None},
        limits={"requests_per_minute": 60},
        models=["local-*"],
    )
    assert changed == accounts.teams.get(team.id)
    assert (changed.budget, changed.limits) == (
        {"usd_per_month": 12.5, "tokens_per_day": 1000},
        {"requests_per_minute": 60},
    )
    assert changed.models == ("local-*",)
    assert keystore.revision() > revision


BAD_VALUES: list[dict[str, Any]] = [
    *[{"budget": {"usd_per_day": value}} for value in (-1, True, "5", float("nan"), float("inf"), 10**16)],
    *[{"budget": {"tokens_per_day": 1.5}}, {"budget": {"other": 1}}, {"limits": {"requests_per_minute": 0}}],
    *[{"models": [""]}, {"models": ["x" * 201]}, {"models": ["a\x00"]}, {"models": ["m"] * 1001}, {"colour": "red"}],
    *[{"name": ""}, {"name": "x" * 201}],
]


def test_bad_values_of_a_team_name_the_field(accounts: Accounts, administrator: Actor, team: Team) -> None:
    for changes in BAD_VALUES:
        with pytest.raises(AccountError) as caught:
            accounts.teams.update(team.id, administrator, **changes)
        assert caught.value.field == next(iter(changes)), changes
    assert accounts.teams.get(team.id) == team


def test_keys_of_a_deleted_team_are_revoked_because_they_would_lose_its_bounds(
    accounts: Accounts, administrator: Actor, team: Team, keystore: KeyStore
) -> None:
    text, _ = keystore.create("k", team=team.id)
    other, _ = keystore.create("other")
    accounts.teams.delete(team.id, administrator)
    assert keystore.find_key(digest_key(text)) is None
    assert keystore.find_key(digest_key(other)) is not None


# Members


def test_an_administrator_of_a_team_manages_its_members_only(
    accounts: Accounts, administrator: Actor, member: User, team: Team
) -> None:
    lead, third = make_actor(member), add_member(accounts, "third@example.org")
    with pytest.raises(Denied):
        accounts.members.set_role(team.id, third.id, "member", lead)
    accounts.members.set_role(team.id, member.id, "member", administrator)
    with pytest.raises(Denied):
        accounts.members.set_role(team.id, member.id, "administrator", lead)
    accounts.members.set_role(team.id, member.id, "administrator", administrator)
    assert accounts.members.set_role(team.id, third.id, "member", lead).user == third
    other = accounts.teams.create(team.organisation, "Other", administrator)
    with pytest.raises(Denied):
        accounts.members.set_role(other.id, third.id, "member", lead)
    with pytest.raises(Denied):
        accounts.teams.update(team.id, lead, budget={})
    assert [(one.user.email, one.role) for one in accounts.members.list_of_team(team.id)] == [
        ("bob@example.org", "administrator"),
        ("third@example.org", "member"),
    ]
    accounts.members.remove(team.id, third.id, lead)
    with pytest.raises(NotFound):
        accounts.members.remove(team.id, third.id, lead)


def test_who_leaves_a_team_loses_the_keys_for_it(
    accounts: Accounts, administrator: Actor, member: User, team: Team, keystore: KeyStore
) -> None:
    accounts.members.set_role(team.id, member.id, "member", administrator)
    for_team, _ = keystore.create("team", account=member.id, user=member.id, team=team.id)
    own, _ = keystore.create("own", account=member.id, user=member.id)
    accounts.members.remove(team.id, member.id, make_actor(member))
    assert keystore.find_key(digest_key(for_team)) is None
    assert keystore.find_key(digest_key(own)) is not None
    assert accounts.members.list_of_user(member.id) == []


# The audit log


def test_every_change_is_in_the_audit_log(accounts: Accounts, administrator: Actor, member: User, team: Team) -> None:
    actor = Actor(id=administrator.id, name="root", role="administrator", address="192.0.2.7", request_id="r-1")
    accounts.users.set_role(member.id, "administrator", actor)
    accounts.users.set_role(member.id, "administrator", actor)  # no change
    accounts.members.set_role(team.id, member.id, "member", actor)
    accounts.teams.update(team.id, actor, budget={"usd_per_day": 1})
    accounts.teams.delete(team.id, actor)
    events = list_events(accounts.database, limit=4)
    assert [(event.action, event.object) for event in events] == [
        ("team.delete", team.id),
        ("team.update", team.id),
        ("team.set_member", team.id),
        ("user.set_role", member.id),
    ]
    assert {(event.actor, event.actor_name, event.address, event.request_id) for event in events} == {
        (administrator.id, "root", "192.0.2.7", "r-1")
    }
    assert events[3].detail == {"role": "administrator", "before": "member"}


def test_events_are_read_in_pages_and_by_action_and_actor(database: Database) -> None:
    with database.write() as connection:
        for number in range(5):
            record(connection, COMMAND, "key.create" if number % 2 else "user.create", f"o{number}", number=number)
    newest = list_events(database, limit=2)
    assert [event.object for event in newest] == ["o4", "o3"]
    assert [event.object for event in list_events(database, before=newest[-1].id)] == ["o2", "o1", "o0"]
    assert [event.object for event in list_events(database, action="key.create")] == ["o3", "o1"]
    assert [event.object for event in list_events(database, action="user.")] == ["o4", "o2", "o0"]
    assert list_events(database, actor="somebody") == []


def test_a_change_that_fails_is_not_in_the_audit_log(accounts: Accounts, administrator: Actor) -> None:
    before = list_events(accounts.database)
    with pytest.raises(Conflict):
        accounts.users.delete(administrator.id, administrator)
    with pytest.raises(NotFound):
        accounts.users.set_role("unknown", "member", administrator)
    assert list_events(accounts.database) == before
