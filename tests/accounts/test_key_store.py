"""Keys on both databases: pages, changes, rotation, revocation by name, and what owners and teams do to them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from tests.accounts.support import add_team, add_user
from tests.support import databases
from tornado_gate.accounts.errors import AccountError, Conflict, NotFound
from tornado_gate.accounts.keys import KeyStore, StoredKey, bump_revision, digest_key
from tornado_gate.accounts.people import Actor
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.types.value import replace

dialect = databases.each_dialect

DAY = 86_400
ACTOR = Actor(id="user_ann", name="ann@example.com", role="administrator", address="192.0.2.7", request_id="req_1")


@pytest.fixture
def store(database: Database) -> KeyStore:
    return KeyStore(database)


def execute(store: KeyStore, statement: Any) -> None:
    with store.database.write() as connection:
        connection.execute(statement)
        bump_revision(connection)


def list_events(store: KeyStore) -> list[Any]:
    with store.database.read() as connection:
        return list(connection.execute(select(tables.audit).order_by(tables.audit.c.id)))


def names(page: tuple[list[StoredKey], int]) -> tuple[list[str], int]:
    return [key.name for key in page[0]], page[1]


# Lists


def test_pages_are_newest_first_and_have_the_number_of_all(store: KeyStore) -> None:
    for number in range(5):
        store.create(f"k{number}")
    assert names(store.list_page(limit=2)) == (["k4", "k3"], 5)
    assert names(store.list_page(offset=4, limit=2)) == (["k0"], 5)
    assert names(store.list_page(offset=9)) == ([], 5)
    assert names(store.list_page(offset=-1, limit=-1)) == ([], 5)


def test_a_search_finds_parts_of_names_and_beginnings_of_keys_and_ids(store: KeyStore) -> None:
    text, made = store.create("Nightly run")
    store.create("other")
    for search in ("nightly", "RUN", " Nightly ", text[:9], made.id[:12]):
        assert names(store.list_page(search=search)) == (["Nightly run"], 1), search


NONSENSE = ("%", "_", "%' OR 1=1 --", "\\", "/", "\x00", "\ud800", "x" * 201, "[a-z]", "👍", "ǅ")


def test_a_search_has_no_wildcards_and_no_failures(store: KeyStore) -> None:
    store.create("plain")
    for search in NONSENSE:
        assert store.list_page(search=search) == ([], 0), search


def test_wildcards_of_the_database_are_letters_in_a_search(store: KeyStore) -> None:
    store.create("50% off_peak")
    store.create("50 offXpeak")
    assert names(store.list_page(search="0% off_")) == (["50% off_peak"], 1)


def test_states_users_and_teams_are_filters(store: KeyStore) -> None:
    ann, bob = add_user(store.database, "ann"), add_user(store.database, "bob")
    team = add_team(store.database, "t", ann)
    store.create("of ann", user=ann.id)
    store.create("of team", user=ann.id, team=team)
    _, gone = store.create("of bob", user=bob.id)
    _, old = store.create("old", expires=time.time() + DAY)
    store.create("playground", user=ann.id, hidden=True)
    store.revoke(gone.id)
    execute(store, update(tables.keys).where(tables.keys.c.id == old.id).values(expires=time.time() - 1))
    assert names(store.list_page(user=ann.id)) == (["of team", "of ann"], 2)
    assert names(store.list_page(user=ann.id, hidden=True))[1] == 3
    assert names(store.list_page(team=team)) == (["of team"], 1)
    assert names(store.list_page(user=bob.id, either=[team])) == (["of bob", "of team"], 2)
    assert names(store.list_page(state="active")) == (["of team", "of ann"], 2)
    assert names(store.list_page(state="revoked")) == (["of bob"], 1)
    assert names(store.list_page(state="expired")) == (["old"], 1)
    assert store.list_page(user="\x00") == ([], 0)
    with pytest.raises(AccountError, match="active, expired or revoked"):
        store.list_page(state="dead")


def test_owners_and_teams_have_names(store: KeyStore) -> None:
    ann = add_user(store.database, "ann")
    team = add_team(store.database, "t", ann)
    store.create("a", user=ann.id, team=team)
    store.create("b")
    page, _ = store.list_page()
    assert store.name_owners(page) == {ann.id: "ann@example.com", team: "t"}


def test_an_unknown_id_is_not_found(store: KeyStore) -> None:
    store.create("a")
    for identity in ("key_000000000000", "", "x" * 100_000, *NONSENSE):
        for ask in (store.get, store.revoke_named, store.rotate, store.find_named):
            with pytest.raises(NotFound) as caught:
                ask(identity)
            assert len(caught.value.message) < 500
            assert caught.value.message.isprintable()
        assert store.revoke(identity) is False


# Creation


def test_every_field_comes_back_as_it_was_given(store: KeyStore) -> None:
    ann = add_user(store.database, "ann")
    text, made = store.create(
        " CI ",
        user=ann.id,
        role="member",
        models=["gpt-*", "gpt-*", " local-chat "],
        operations=["chat"],
        addresses=["10.0.0.0/8", "192.0.2.7/32", "2001:DB8::1"],
        tags=["nightly"],
        limits={"requests_per_minute": 60, "tokens_per_minute": None},
        budget={"usd_per_day": 5, "tokens_per_month": 10**18},
        expires=time.time() + DAY,
        created_by=ann.id,
        actor=ACTOR,
    )
    assert made.account == ann.id
    assert made.name == "CI"
    assert made.models == ("gpt-*", "local-chat")
    assert made.addresses == ("10.0.0.0/8", "192.0.2.7", "2001:db8::1")
    assert made.limits == {"requests_per_minute": 60}
    assert made.budget == {"usd_per_day": 5.0, "tokens_per_month": 10**18}
    assert store.get(made.id) == made
    assert store.find_key(digest_key(text)) == replace(made, user_name=ann.email)
    (event,) = list_events(store)
    assert (event.action, event.object, event.actor, event.actor_name) == (
        "key.create",
        made.id,
        "user_ann",
        "ann@example.com",
    )
    assert (event.address, event.request_id) == ("192.0.2.7", "req_1")
    assert event.detail["name"] == "CI"
    assert event.detail["limits"] == {"requests_per_minute": 60}
    assert text not in repr(event), "the log has no key"


# Revocation


def test_a_name_revokes_its_key_once(store: KeyStore) -> None:
    text, made = store.create("nightly")
    assert store.revoke_named("nightly", actor=ACTOR).id == made.id
    assert store.find_key(digest_key(text)) is None
    assert [(event.action, event.object, event.detail) for event in list_events(store)] == [
        ("key.revoke", made.id, {"name": "nightly"})
    ]
    with pytest.raises(NotFound, match="'nightly' that is not revoked"):
        store.revoke_named("nightly")
    with pytest.raises(Conflict, match="is revoked already"):
        store.revoke_named(made.id)


def test_an_ambiguous_name_revokes_nothing_and_names_the_ids(store: KeyStore) -> None:
    made = [store.create("twin")[1] for _ in range(7)]
    with pytest.raises(Conflict, match="7 keys have the name 'twin'") as caught:
        store.revoke_named("twin")
    assert caught.value.code == "ambiguous_name"
    assert sum(key.id in caught.value.message for key in made) == 5
    assert all(key.revoked is None for key in store.list())
    for key in made[1:]:
        store.revoke(key.id)
    assert store.revoke_named("twin").id == made[0].id


def test_a_key_that_is_named_like_the_id_of_another_does_not_hide_it(store: KeyStore) -> None:
    _, made = store.create("a")
    store.create(made.id)
    assert store.revoke_named(made.id).name == "a"


# Rotation


def test_a_rotated_key_has_a_successor_and_works_for_the_overlap(store: KeyStore, database: Database) -> None:
    add_user(database, "ann", role="administrator")
    old_text, old = store.create(
        "ci", models=["m"], limits={"requests_per_minute": 5}, tags=["x"], role="administrator"
    )
    new_text, new = store.rotate(old.id, overlap_seconds=3600, actor=ACTOR)
    assert new.id != old.id
    for name in ("name", "account", "models", "limits", "tags", "role", "expires", "created_by", "budget"):
        assert getattr(new, name) == getattr(old, name), name
    assert store.find_key(digest_key(new_text)) == new
    _, third = store.rotate(new.id, overlap_seconds=60)
    assert (old.usage_id, new.usage_id, third.usage_id) == (old.id, old.id, old.id), "a rotation gives no new budget"
    new = store.get(new.id)
    assert store.find_key(digest_key(new_text)) == new
    kept = store.find_key(digest_key(old_text))
    assert kept is not None
    assert kept.replaced_by == new.id
    assert kept.expires == pytest.approx(time.time() + 3600, abs=60)
    assert list_events(store)[0].action == "key.rotate"


def test_a_rotation_without_overlap_revokes_at_once(store: KeyStore) -> None:
    old_text, old = store.create("ci", expires=time.time() + DAY)
    _, new = store.rotate(old.id)
    assert store.find_key(digest_key(old_text)) is None
    assert store.get(old.id).revoked is not None
    assert new.expires == old.expires, "a rotation does not prolong a key"


def test_an_overlap_never_prolongs_a_key(store: KeyStore) -> None:
    _, old = store.create("ci", expires=time.time() + 60)
    store.rotate(old.id, overlap_seconds=DAY)
    assert store.get(old.id).expires == old.expires


def test_only_a_key_in_use_is_rotated_and_only_once(store: KeyStore) -> None:
    _, old = store.create("a")
    _, new = store.rotate(old.id, overlap_seconds=60)
    with pytest.raises(Conflict, match=f"its successor is {new.id}"):
        store.rotate(old.id)
    store.revoke(new.id)
    with pytest.raises(Conflict, match="is revoked"):
        store.rotate(new.id)
    for seconds in (-1, float("nan"), float("inf"), 400 * DAY):
        with pytest.raises(AccountError, match="from 0 seconds to 366 days"):
            store.rotate(old.id, overlap_seconds=seconds)


# Changes


def test_a_change_is_stored_noticed_and_recorded(store: KeyStore) -> None:
    _, made = store.create("a", models=["m"])
    revision = store.revision()
    changed = store.change(made.id, name="b", models=["n"], budget={"usd_per_day": 1}, expires=None, actor=ACTOR)
    assert (changed.name, changed.models, changed.budget) == ("b", ("n",), {"usd_per_day": 1.0})
    assert store.get(made.id) == changed
    assert store.revision() != revision
    (event,) = list_events(store)
    assert event.detail["before"] == {"budget": {}, "models": ["m"], "name": "a"}
    assert event.detail["after"] == {"budget": {"usd_per_day": 1.0}, "models": ["n"], "name": "b"}


def test_a_change_to_what_is_there_is_none(store: KeyStore) -> None:
    _, made = store.create("a", models=["m"])
    revision = store.revision()
    assert store.change(made.id, models=["m"], actor=ACTOR) == made
    assert store.revision() == revision
    assert list_events(store) == []


def test_what_cannot_be_changed_is_refused(store: KeyStore) -> None:
    _, made = store.create("a")
    with pytest.raises(TypeError, match="account, digest"):
        store.change(made.id, digest=b"", account="x")
    with pytest.raises(AccountError, match="1 to 100 characters"):
        store.change(made.id, name=" ")
    _, new = store.rotate(made.id, overlap_seconds=60)
    with pytest.raises(Conflict, match="cannot be valid for longer"):
        store.change(made.id, expires=None)
    store.revoke(new.id)
    with pytest.raises(Conflict, match="is revoked"):
        store.change(new.id, name="b")


def test_an_expired_key_can_be_renamed_and_made_valid_again(store: KeyStore) -> None:
    text, made = store.create("a", expires=time.time() + DAY)
    execute(store, update(tables.keys).values(expires=time.time() - 1))
    expired = store.get(made.id)
    assert store.change(made.id, name="b", expires=expired.expires).name == "b"
    assert store.find_key(digest_key(text)) is None
    store.change(made.id, expires=time.time() + DAY)
    assert store.find_key(digest_key(text)) is not None


# Owners and teams


def test_the_owner_limits_what_a_key_may(store: KeyStore) -> None:
    ann = add_user(store.database, "ann", role="administrator")
    text, _ = store.create("a", user=ann.id, role="administrator")
    found = store.find_key(digest_key(text))
    assert found is not None
    assert found.role == "administrator"
    execute(store, update(tables.users).values(role="member"))
    found = store.find_key(digest_key(text))
    assert found is not None
    assert found.role == "member"
    execute(store, update(tables.users).values(state="disabled"))
    assert store.find_key(digest_key(text)) is None
    execute(store, update(tables.users).values(state="active"))
    assert store.find_key(digest_key(text)) is not None
    execute(store, delete(tables.users))
    assert store.find_key(digest_key(text)) is None
    assert store.list() == ()


def test_a_key_of_a_team_needs_its_owner_in_the_team(store: KeyStore) -> None:
    ann, root = add_user(store.database, "ann"), add_user(store.database, "root", role="administrator")
    team = add_team(store.database, "t", ann)
    texts = [store.create("a", user=user, team=team)[0] for user in (ann.id, root.id, None)]
    assert all(store.find_key(digest_key(text)) is not None for text in texts)
    execute(store, delete(tables.team_members))
    assert [store.find_key(digest_key(text)) is not None for text in texts] == [False, True, True]
    execute(store, insert(tables.team_members).values(team=team, user=ann.id, role="member", source="oidc"))
    assert store.find_key(digest_key(texts[0])) is not None


def test_a_team_narrows_the_models_of_its_keys(store: KeyStore) -> None:
    team = add_team(store.database, "t", models=["gpt-*", "local-chat"])

    def models(*own: str) -> tuple[str, ...]:
        text, _ = store.create("a", team=team, models=own)
        found = store.find_key(digest_key(text))
        assert found is not None
        return found.models

    assert models() == ("gpt-*", "local-chat")
    assert models("*") == ("gpt-*", "local-chat")
    assert models("gpt-4o", "claude-*") == ("gpt-4o",)
    assert models("claude-*") == ("",), "no model has this name"


def test_the_budget_of_a_team_comes_with_its_keys(store: KeyStore) -> None:
    team = add_team(store.database, "t", budget={"usd_per_month": 500})
    found = [store.find_key(digest_key(store.create("a", team=one)[0])) for one in (team, None)]
    assert [dict(key.team_budget) if key else None for key in found] == [{"usd_per_month": 500}, {}]


def test_the_keys_of_a_team_that_is_deleted_have_no_team(store: KeyStore) -> None:
    team = add_team(store.database, "t")
    text, _ = store.create("a", team=team)
    execute(store, delete(tables.teams))
    found = store.find_key(digest_key(text))
    assert found is not None
    assert found.team is None
