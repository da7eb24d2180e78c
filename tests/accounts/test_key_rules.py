"""A key never outranks who made it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.accounts.support import make_membership, make_user
from tornado_gate.accounts.errors import AccountError, Denied
from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.key_rules import (
    check_key_change,
    check_new_key,
    check_rotation,
    check_within,
    may_manage_key,
)
from tornado_gate.accounts.people import Membership, User
from tornado_gate.accounts.stored_key import StoredKey
from tornado_gate.config.globs import covers_glob, intersect_globs, matches_any, matches_glob
from tornado_gate.types import Budget

ROOT, ANN, BOB = make_user("root", role="administrator"), make_user("ann"), make_user("bob")
TEAM = make_membership("t")
LEADER = make_membership("t", "administrator")
SOON = time.time() + 86_400


def make_key(**fields: Any) -> StoredKey:
    given = {"id": "key_1", "name": "k", "digest": b"", "prefix": "tg-", "created": 1.0, **fields}
    return StoredKey(**{"account": given.get("user") or given["id"], **given})


BOUNDED = make_key(
    user=ANN.id,
    team="team_t",
    models=("gpt-*", "local-chat"),
    operations=("chat", "embeddings"),
    addresses=("10.0.0.0/8", "2001:db8::/32"),
    limits={"requests_per_minute": 60, "tokens_per_minute": 1000, "concurrent_requests": 5},
    budget={"usd_per_day": 5.0, "usd_per_month": 50.0, "tokens_per_day": 100, "tokens_per_month": 1000},
    expires=SOON,
)
WITHIN: dict[str, Any] = {
    "user": ANN.id,
    "team": "team_t",
    "models": ["gpt-4*", "local-chat"],
    "operations": ["chat"],
    "addresses": ["10.1.0.0/16", "2001:db8::7"],
    "limits": {"requests_per_minute": 60, "tokens_per_minute": 1, "concurrent_requests": 5},
    "budget": {"usd_per_day": 5, "usd_per_month": 0, "tokens_per_day": 100, "tokens_per_month": 1},
    "expires": SOON,
}


def refuse(maker: Any, memberships: list[Membership], field: str, **wanted: Any) -> None:
    with pytest.raises(Denied) as caught:
        check_new_key(maker, memberships, **wanted)
    assert caught.value.field == field
    assert caught.value.message


# Keys that users make


def test_a_member_makes_keys_of_its_own_only() -> None:
    check_new_key(ANN, [], user=ANN.id, models=["*"])
    refuse(ANN, [], "user", user=BOB.id)
    refuse(ANN, [], "user")
    refuse(ANN, [], "role", user=ANN.id, role="administrator")


def test_a_team_must_be_the_member_s_own() -> None:
    check_new_key(ANN, [TEAM], user=ANN.id, team="team_t")
    refuse(ANN, [TEAM], "team", user=ANN.id, team="team_other")
    refuse(ANN, [], "team", user=ANN.id, team="team_t")
    refuse(ANN, [TEAM], "user", user=BOB.id, team="team_t")


def test_an_administrator_of_a_team_makes_keys_of_the_team_and_none_of_another_person() -> None:
    check_new_key(ANN, [LEADER], team="team_t")
    check_new_key(ANN, [LEADER], team="team_t", user=ANN.id)
    refuse(ANN, [TEAM], "user", team="team_t")
    refuse(ANN, [LEADER], "user", user=BOB.id, team="team_t")
    refuse(ANN, [LEADER], "user")
    refuse(ANN, [LEADER], "role", team="team_t", role="administrator")


@pytest.mark.parametrize("maker", [ROOT, None, make_key(role="administrator"), make_key(id="k", role="administrator")])
def test_administrators_and_commands_make_any_key(maker: Any) -> None:
    check_new_key(maker, [], user=BOB.id, team="team_other", role="administrator")


def test_the_fields_are_checked_for_everybody() -> None:
    for maker in (None, ROOT):
        with pytest.raises(AccountError) as caught:
            check_new_key(maker, [], name="")
        assert caught.value.field == "name"


# Keys that keys make


@pytest.mark.parametrize(
    "maker",
    [
        BOUNDED,
        KeyRecord(
            id="key_1",
            usage_id="key_1",
            account="a",
            name="k",
            user=ANN.id,
            team="team_t",
            models=BOUNDED.models,
            operations=BOUNDED.operations,
            addresses=BOUNDED.addresses,
            requests_per_minute=60,
            tokens_per_minute=1000,
            concurrent_requests=5,
            budget=Budget(usd_per_day=5.0, usd_per_month=50.0, tokens_per_day=100, tokens_per_month=1000),
            expires=SOON,
        ),
    ],
    ids=["stored", "record"],
)
def test_a_key_makes_keys_within_its_own_permissions(maker: Any) -> None:
    check_new_key(maker, [], **WITHIN)
    for field, value in (
        ("role", "administrator"),
        ("user", BOB.id),
        ("user", None),
        ("team", None),
        ("team", "team_other"),
        ("models", []),
        ("models", ["*"]),
        ("models", ["gpt-4", "claude-*"]),
        ("operations", []),
        ("operations", ["images"]),
        ("addresses", []),
        ("addresses", ["0.0.0.0/0"]),
        ("addresses", ["10.0.0.1", "::/0"]),
        ("expires", None),
        ("expires", SOON + 1),
    ):
        refuse(maker, [], field, **{**WITHIN, field: value})
    for group in ("limits", "budget"):
        for bound, value in WITHIN[group].items():
            own = dict(getattr(BOUNDED, group))[bound]
            refuse(maker, [], bound, **{**WITHIN, group: {**WITHIN[group], bound: own + 1}})
            refuse(maker, [], bound, **{**WITHIN, group: {**WITHIN[group], bound: None}})
            assert value <= own


def test_an_administrator_s_key_with_bounds_makes_keys_within_them() -> None:
    maker = make_key(role="administrator", models=("gpt-*",))
    check_new_key(maker, [], role="administrator", user=BOB.id, team="team_t", models=["gpt-4"])
    refuse(maker, [], "models", role="administrator")
    refuse(make_key(role="administrator", team="team_t"), [], "team")


# Changes


def test_who_manages_a_key() -> None:
    own, of_team = make_key(user=ANN.id), make_key(user=BOB.id, team="team_t")
    assert [may_manage_key(maker, [], own) for maker in (ANN, BOB, ROOT, None)] == [True, False, True, True]
    assert [may_manage_key(ANN, [membership], of_team) for membership in (TEAM, LEADER)] == [False, True]
    assert may_manage_key(make_key(id="other", user=ANN.id), [], own)
    assert not may_manage_key(make_key(id="other"), [], make_key())
    assert may_manage_key(make_key(), [], make_key())


def rotates(maker: Any, key: StoredKey, *memberships: Membership) -> bool:
    try:
        check_rotation(maker, memberships, key)
    except Denied:
        return False
    return True


def test_nobody_learns_a_key_that_can_do_more() -> None:
    own, of_root = make_key(user=ANN.id), make_key(user=ROOT.id, team="team_t", role="administrator")
    assert [rotates(maker, own) for maker in (ANN, BOB, ROOT, None)] == [True, False, True, True]
    assert not rotates(ANN, of_root, LEADER), "who manages a team does not become an administrator"
    assert not rotates(ANN, make_key(user=BOB.id, team="team_t"), LEADER), "nor another person"
    assert not rotates(ANN, make_key(team="team_t", role="administrator"), LEADER)
    assert rotates(ANN, make_key(team="team_t"), LEADER)
    assert not rotates(ANN, make_key(team="team_t", account="another"), LEADER), "whose stored data it reads"
    assert not rotates(ANN, make_key(user=ANN.id, role="administrator")), "she is no administrator any more"
    assert rotates(make_key(id="wide", user=ANN.id), make_key(user=ANN.id, models=("m",)))
    assert not rotates(make_key(id="narrow", user=ANN.id, models=("m",)), make_key(user=ANN.id))
    assert rotates(BOUNDED, BOUNDED)


def change(maker: User, key: StoredKey, memberships: list[Membership], **changes: Any) -> str:
    """The field for which a change is refused, or ""."""
    try:
        check_key_change(maker, memberships, key, **changes)
    except Denied as error:
        return error.field or error.code
    return ""


def test_a_member_changes_its_own_key_and_cannot_widen_one_from_an_administrator() -> None:
    own = make_key(user=ANN.id, created_by=ANN.id, budget={"usd_per_day": 5.0}, models=("gpt-*",))
    assert change(ANN, own, [], name="b", models=[], budget={}) == ""
    assert change(ANN, own, [], role="administrator") == "role"
    assert change(ANN, own, [], team="team_t") == "team"
    assert change(ANN, own, [TEAM], team="team_t") == ""
    assert change(BOB, own, [], name="b") == "not_your_key"
    given_to_ann = make_key(user=ANN.id, created_by=ROOT.id, budget={"usd_per_day": 5.0}, models=("gpt-*",))
    assert change(ANN, given_to_ann, [], name="b") == ""
    assert change(ANN, given_to_ann, [], models=["gpt-4"], budget={"usd_per_day": 4}) == ""
    assert change(ANN, given_to_ann, [], models=[]) == "models"
    assert change(ANN, given_to_ann, [], budget={}) == "usd_per_day"
    assert change(ANN, given_to_ann, [TEAM], team="team_t") == "team"
    assert change(ROOT, given_to_ann, [], models=[], budget={}) == ""


def test_an_administrator_of_the_team_changes_its_keys_and_does_not_take_them_elsewhere() -> None:
    key = make_key(user=BOB.id, created_by=ROOT.id, team="team_t", limits={"requests_per_minute": 5})
    assert change(ANN, key, [LEADER], limits={"requests_per_minute": 9}) == ""
    assert change(ANN, key, [LEADER], team=None) == "user"
    assert change(ANN, key, [LEADER], role="administrator") == "role"


def test_an_administrator_s_key_that_its_demoted_owner_renames_stays_possible() -> None:
    key = make_key(user=ANN.id, created_by=ANN.id, role="administrator", expires=1.0)
    assert change(ANN, key, [], name="b") == ""
    assert change(ANN, key, [], role="administrator") == "role"


# Globs

GLOBS = st.text(alphabet="ab*", max_size=6)
NAMES = st.text(alphabet="abc", max_size=8)


@given(GLOBS, GLOBS, NAMES)
def test_a_glob_that_covers_another_matches_all_of_its_names(outer: str, inner: str, name: str) -> None:
    if covers_glob(outer, inner) and matches_glob(inner, name):
        assert matches_glob(outer, name)


@given(GLOBS, GLOBS)
def test_a_glob_that_does_not_cover_another_lacks_one_of_its_names(outer: str, inner: str) -> None:
    assert covers_glob(outer, inner) == matches_glob(outer, inner.replace("*", "c"))


@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), NAMES)
def test_an_intersection_matches_what_both_lists_match(some: list[str], others: list[str], name: str) -> None:
    both = intersect_globs(some, others)
    allowed = (not some or matches_any(some, name)) and (not others or matches_any(others, name))
    if not both:
        assert not some
        assert not others
    elif both != ("",) and matches_any(both, name):
        assert allowed


@given(st.lists(GLOBS, min_size=1, max_size=3), st.lists(GLOBS, max_size=3), NAMES)
def test_no_list_of_models_within_another_matches_more(own: list[str], wanted: list[str], name: str) -> None:
    try:
        check_within(make_key(models=tuple(own)), {"models": wanted})
    except Denied:
        return
    assert matches_any(own, name) or not matches_any(wanted, name)
