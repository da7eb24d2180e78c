"""What somebody made is worth what its maker may do now: each kind of object, whatever happens to its maker."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.people import ADDRESS, PASSWORD, add_member
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.accounts.errors import AccountError, Conflict, Denied
from tornado_gate.accounts.key_rules import check_rotation
from tornado_gate.accounts.keys import KeyStore, StoredKey, digest_key
from tornado_gate.accounts.limit_overrides import read_overrides
from tornado_gate.accounts.makers import MOST_MAKERS
from tornado_gate.accounts.people import COMMAND, Actor, User
from tornado_gate.accounts.sessions import make_actor

NUMBERS = itertools.count(1)


class Stage:
    """One maker, who administrates the gateway and a team, and what the maker may make."""

    def __init__(self, accounts: Accounts, root: Actor) -> None:
        self.accounts, self.root, self.store = accounts, root, KeyStore(accounts.database)
        number = next(NUMBERS)
        self.maker = add_member(accounts, f"maker{number}@example.org")
        self.other = add_member(accounts, f"other{number}@example.org")
        organisation = accounts.organisations.create(f"Acme {number}", root)
        self.team = accounts.teams.create(organisation.id, "Physics", root).id
        accounts.members.set_role(self.team, self.maker.id, "administrator", root)

    def promote(self) -> None:
        self.maker = self.accounts.users.set_role(self.maker.id, "administrator", self.root)

    @property
    def actor(self) -> Actor:
        return make_actor(self.maker)

    def make_key(self, **given: Any) -> tuple[str, StoredKey]:
        return self.store.create("k", actor=self.actor, **{"created_by": self.maker.id, **given})


def accepts(refused: Callable[[], object]) -> bool:
    try:
        refused()
    except AccountError:
        return False
    return True


def works(stage: Stage, text: str) -> bool:
    return stage.store.find_key(digest_key(text)) is not None


# Each makes an object and returns a function that tells whether it works. Those of KINDS need an administrator of the gateway.


def make_invitation(stage: Stage) -> Callable[[], bool]:
    token, _ = stage.accounts.invitations.create(stage.actor, role="administrator", seconds=300 * 86400)
    return lambda: accepts(lambda: stage.accounts.invitations.find_invitation(token))


def make_reset_link(stage: Stage) -> Callable[[], bool]:
    token = stage.accounts.reset_links.create(stage.other.id, stage.actor)
    return lambda: accepts(lambda: stage.accounts.reset_links.find_user(token))


def make_service_key(stage: Stage) -> Callable[[], bool]:
    text, _ = stage.make_key()
    return lambda: works(stage, text)


def make_administrator_key(stage: Stage) -> Callable[[], bool]:
    text, _ = stage.make_key(role="administrator")
    return lambda: works(stage, text)


def make_key_of_another(stage: Stage) -> Callable[[], bool]:
    text, _ = stage.make_key(user=stage.other.id)
    return lambda: works(stage, text)


def make_rotation_of_a_command_key(stage: Stage) -> Callable[[], bool]:
    _, old = stage.store.create("of the command")
    text, _ = stage.store.rotate(old.id, actor=stage.actor)
    return lambda: works(stage, text)


def make_rotation_of_another_s_key(stage: Stage) -> Callable[[], bool]:
    _, old = stage.store.create("own", user=stage.other.id, created_by=stage.other.id)
    text, _ = stage.store.rotate(old.id, actor=stage.actor)
    return lambda: works(stage, text)


def make_key_by_own_key(stage: Stage) -> Callable[[], bool]:
    _, own = stage.make_key(user=stage.maker.id, role="administrator")
    text, _ = stage.store.create("made by a key", created_by=own.id)
    return lambda: works(stage, text)


def make_key_by_a_service_key(stage: Stage) -> Callable[[], bool]:
    _, service = stage.make_key(role="administrator")
    text, _ = stage.store.create("made by a key", created_by=service.id)
    return lambda: works(stage, text)


def make_own_key_with_the_data_of_another(stage: Stage) -> Callable[[], bool]:
    text, _ = stage.make_key(user=stage.maker.id, account=stage.other.id)
    return lambda: works(stage, text)


def make_widening_of_a_command_key(stage: Stage) -> Callable[[], bool]:
    text, key = stage.store.create("of the command", models=["local-*"])
    stage.store.change(key.id, actor=stage.actor, models=[])
    return lambda: works(stage, text)


def make_adoption(stage: Stage) -> Callable[[], bool]:
    text, key = stage.store.create("orphan", created_by="user_gone")
    assert not works(stage, text)
    stage.store.adopt(key.id, stage.actor)
    return lambda: works(stage, text)


def make_override(stage: Stage) -> Callable[[], bool]:
    made = stage.accounts.limit_overrides.create(
        "team", stage.team, "requests_per_minute", stage.actor, value=1, until=time.time() + 3600
    )
    return lambda: made.id in [one.id for one in read_overrides(stage.accounts.database)]


def make_team_invitation(stage: Stage) -> Callable[[], bool]:
    token, _ = stage.accounts.invitations.create(stage.actor, team=stage.team)
    return lambda: accepts(lambda: stage.accounts.invitations.find_invitation(token))


def make_team_key(stage: Stage) -> Callable[[], bool]:
    text, _ = stage.make_key(team=stage.team)
    return lambda: works(stage, text)


def make_rotation_of_a_team_key(stage: Stage) -> Callable[[], bool]:
    _, old = stage.store.create("of the team", team=stage.team, created_by=stage.root.id)
    text, _ = stage.store.rotate(old.id, actor=stage.actor)
    return lambda: works(stage, text)


KINDS = {
    make_invitation, make_reset_link, make_service_key, make_administrator_key, make_key_of_another,
    make_rotation_of_a_command_key, make_rotation_of_another_s_key, make_key_by_own_key, make_own_key_with_the_data_of_another,
    make_widening_of_a_command_key, make_key_by_a_service_key, make_adoption,
    make_override,
}  # fmt: skip
TEAM_KINDS = {make_team_invitation, make_team_key, make_rotation_of_a_team_key}

ENDS: dict[str, Callable[[Stage], object]] = {
    "disabled": lambda stage: stage.accounts.users.set_state(stage.maker.id, "disabled", stage.root),
    "deleted": lambda stage: stage.accounts.users.delete(stage.maker.id, stage.root),
}
OF_GATEWAY = {**ENDS, "demoted": lambda stage: stage.accounts.users.set_role(stage.maker.id, "member", stage.root)}
OF_TEAM = {
    **ENDS,
    "removed from the team": lambda stage: stage.accounts.members.remove(stage.team, stage.maker.id, stage.root),
    "made a member of the team": lambda stage: stage.accounts.members.set_role(
        stage.team, stage.maker.id, "member", stage.root
    ),
}
UNDO: dict[str, Callable[[Stage], object]] = {
    "disabled": lambda stage: stage.accounts.users.set_state(stage.maker.id, "active", stage.root),
    "demoted": lambda stage: stage.accounts.users.set_role(stage.maker.id, "administrator", stage.root),
    "removed from the team": lambda stage: stage.accounts.members.set_role(
        stage.team, stage.maker.id, "administrator", stage.root
    ),
    "made a member of the team": lambda stage: stage.accounts.members.set_role(
        stage.team, stage.maker.id, "administrator", stage.root
    ),
}


def test_nothing_works_that_its_maker_could_not_make_now(accounts: Accounts, administrator: Actor) -> None:
    faults = []
    for kinds, ends in ((KINDS, OF_GATEWAY), (TEAM_KINDS, OF_TEAM)):
        for make, (event, happen) in itertools.product(sorted(kinds, key=lambda one: one.__name__), ends.items()):
            stage = Stage(accounts, administrator)
            if kinds is KINDS:
                stage.promote()
            is_working = make(stage)
            before, revision = is_working(), stage.store.revision()
            happen(stage)
            row = (before, is_working(), stage.store.revision() > revision)
            if row != (True, False, True):
                faults.append((make.__name__, event, row))
            if event in UNDO:
                UNDO[event](stage)
                if not is_working():
                    faults.append((make.__name__, event, "does not work again"))
    assert faults == []


@pytest.mark.parametrize("maker", ["command", "conf:root", "oidc"])
def test_what_no_person_made_stays(accounts: Accounts, administrator: Actor, maker: str) -> None:
    stage, actor = Stage(accounts, administrator), Actor(id=maker, name=maker, role="administrator")
    key, _ = stage.store.create("k", created_by=maker, actor=actor)
    invitation, _ = accounts.invitations.create(actor, role="administrator")
    link = accounts.reset_links.create(stage.other.id, actor)
    for one in (stage.maker, stage.other):
        accounts.users.set_role(one.id, "administrator", administrator)
        accounts.users.set_role(one.id, "member", administrator)
    assert works(stage, key)
    assert accounts.invitations.find_invitation(invitation).suspended is None
    assert accounts.reset_links.find_user(link).id == stage.other.id


def test_own_keys_of_a_demoted_maker_stay_keys_of_a_member(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    stage.promote()
    text, _ = stage.make_key(user=stage.maker.id, role="administrator")
    _, by_key = stage.make_key(user=stage.maker.id, role="administrator")
    second, _ = stage.store.create("made by a key", user=stage.maker.id, created_by=by_key.id)
    accounts.users.set_role(stage.maker.id, "member", administrator)
    found = [stage.store.find_key(digest_key(one)) for one in (text, second)]
    assert [key and key.role for key in found] == ["member", "member"]


def test_an_administrator_who_administrates_a_team_too_keeps_the_team_s_objects(
    accounts: Accounts, administrator: Actor
) -> None:
    stage = Stage(accounts, administrator)
    stage.promote()
    text, _ = stage.make_key(team=stage.team)
    accounts.users.set_role(stage.maker.id, "member", administrator)
    assert works(stage, text), "an administrator of the team may make it"
    accounts.members.set_role(stage.team, stage.maker.id, "member", administrator)
    assert not works(stage, text)


def test_a_key_of_nobody_vouches_for_what_it_made_while_it_works(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    _, ops = stage.store.create("ops", role="administrator")
    text, made = stage.store.create("service", created_by=ops.id)
    invitation, _ = accounts.invitations.create(
        Actor(id=ops.id, name="ops", role="administrator"), role="administrator"
    )
    _, ops = stage.store.rotate(ops.id, overlap_seconds=60, actor=COMMAND)
    _, ops = stage.store.rotate(ops.id, actor=Actor(id=ops.id, name="ops", role="administrator"))  # by itself
    assert works(stage, text), "a rotation puts another key in its place"
    accounts.invitations.find_invitation(invitation)
    bound = accounts.limit_overrides.create(
        "gateway", "", "requests_per_minute", Actor(id=ops.id, name="ops", role="administrator"), value=1,
        until=time.time() + 86400,
    )  # fmt: skip
    stage.store.change(ops.id, limits={"requests_per_minute": 1}, expires=time.time() + 3600)
    ends = {one.id: one.until for one in read_overrides(accounts.database)}
    assert ends[bound.id] == stage.store.get(ops.id).expires
    found = stage.store.find_key(digest_key(text))
    assert found is not None
    assert found.expires == stage.store.get(ops.id).expires, "it ends with the key that made it, without a further look"
    stage.store.change(ops.id, models=["gpt-*"])
    assert stage.store.find_suspensions([made]) == {made.id: "its maker has no right to make such a key any more"}
    stage.store.change(ops.id, models=[])
    for change, back in (
        ({"role": "member"}, {"role": "administrator"}),
        ({"operations": ["chat"]}, {"operations": []}),
    ):
        stage.store.change(ops.id, **change)
        assert stage.store.find_suspensions([made]) == {
            made.id: "its maker is a key that may not administrate any more"
        }
        assert not accepts(lambda: accounts.invitations.find_invitation(invitation))
        stage.store.change(ops.id, **back)
    assert works(stage, text)
    stage.store.revoke(ops.id)
    assert stage.store.find_suspensions([made]) == {made.id: "its maker is a key that is revoked"}
    assert not works(stage, text)
    assert not accepts(lambda: accounts.invitations.find_invitation(invitation))


def test_keys_that_vouch_for_each_other_do_not_work(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    _, first = stage.store.create("first", role="administrator")
    text, second = stage.store.create("second", role="administrator", created_by=first.id)
    stage.store.adopt(first.id, Actor(id=second.id, name="second", role="administrator"))
    assert not works(stage, text)
    stage.store.adopt(first.id, COMMAND)
    assert works(stage, text)
    last = second
    for _ in range(MOST_MAKERS + 50):
        text, last = stage.store.create("next", role="administrator", created_by=last.id)
    assert not works(stage, text)
    stage.store.adopt(last.id, COMMAND)
    assert works(stage, text)


def test_a_suspended_key_says_why_and_is_adopted_or_rotated(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    stage.promote()
    text, key = stage.make_key()
    accounts.users.set_state(stage.maker.id, "disabled", administrator)
    assert stage.store.find_suspensions([key]) == {key.id: "its maker is disabled"}
    accounts.users.delete(stage.maker.id, administrator)
    assert stage.store.find_suspensions([key]) == {key.id: "its maker is deleted"}
    assert not works(stage, text)
    assert stage.store.adopt(key.id, administrator).issued_by == administrator.id
    assert works(stage, text)
    assert stage.store.find_suspensions([stage.store.get(key.id)]) == {}
    new, _ = stage.store.rotate(key.id, actor=COMMAND)
    assert works(stage, new)
    with pytest.raises(Conflict, match="revoked"):
        stage.store.adopt(key.id, administrator)


def test_rights_that_an_administrator_gave_a_key_of_a_command_are_his(accounts: Accounts, administrator: Actor) -> None:
    """Whoever knows the text of a key could otherwise widen it, and keep that."""
    stage = Stage(accounts, administrator)
    stage.promote()
    changes: list[tuple[dict[str, Any], bool]] = [
        ({"role": "administrator"}, True), ({"operations": []}, True), ({"addresses": ["0.0.0.0/0"]}, True),
        ({"team": stage.team}, True), ({"models": ["a-b"]}, False), ({"name": "n", "limits": {}, "budget": {}}, False),
        ({"expires": None}, False),
    ]  # fmt: skip
    for change, is_his in changes:
        given = {
            "models": ["a-*"],
            "operations": ["chat"],
            "addresses": ["10.0.0.0/8"],
            "limits": {"requests_per_minute": 1},
        }
        _, key = stage.store.create("k", expires=time.time() + 60, **given)
        assert stage.store.change(key.id, actor=stage.actor, **change).issued_by == (
            stage.maker.id if is_his else None
        ), change
        _, known = stage.make_key(**given)
        assert stage.store.change(known.id, actor=administrator, **change).issuer == stage.maker.id, (
            "its maker knows its text"
        )


def test_an_owner_rotates_a_key_of_a_shared_account_on_the_word_of_who_made_it(
    accounts: Accounts, administrator: Actor
) -> None:
    stage = Stage(accounts, administrator)
    stage.promote()
    member = make_actor(stage.other)
    for maker, works_after in (("command", True), (stage.maker.id, False)):
        _, key = stage.store.create("shared", user=stage.other.id, account="shared", created_by=maker)
        text, _ = stage.store.rotate(key.id, actor=member)
        assert works(stage, text), maker
        accounts.users.set_role(stage.maker.id, "member", administrator)
        assert works(stage, text) == works_after, maker
        stage.promote()


def test_an_administrator_of_a_team_rotates_no_key_that_would_not_work(
    accounts: Accounts, administrator: Actor
) -> None:
    stage = Stage(accounts, administrator)
    memberships = accounts.members.list_of_user(stage.maker.id)
    _, key = stage.store.create("of the team", team=stage.team)
    check_rotation(stage.maker, memberships, key)
    for fields in ({"account": "shared"}, {"role": "administrator"}):
        _, key = stage.store.create("of the team", team=stage.team, **fields)
        with pytest.raises(Denied):
            check_rotation(stage.maker, memberships, key)


def test_an_owner_s_state_shows_too(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    _, key = stage.make_key(user=stage.maker.id)
    accounts.users.set_state(stage.maker.id, "disabled", administrator)
    assert stage.store.find_suspensions([key]) == {key.id: "its owner is disabled"}


def test_an_invitation_of_a_dismissed_maker_admits_nobody(accounts: Accounts, administrator: Actor) -> None:
    stage = Stage(accounts, administrator)
    stage.promote()
    token, made = accounts.invitations.create(stage.actor, role="administrator")
    accounts.users.set_state(stage.maker.id, "disabled", administrator)
    assert [one.suspended for one in accounts.invitations.list_newest() if one.id == made.id] == [
        "its maker is disabled"
    ]
    with pytest.raises(AccountError) as caught:
        sign_up(accounts, "late@example.org", token)
    assert caught.value.code == "sign_up_refused"
    accounts.users.set_state(stage.maker.id, "active", administrator)
    assert sign_up(accounts, "late@example.org", token).role == "administrator"


def sign_up(accounts: Accounts, email: str, token: str) -> User:
    given = {"policy": "invite", "address": ADDRESS, "agent": "test"}
    return accounts.sign_up.create_account(email, PASSWORD, invitation=token, **given)[1].user  # type: ignore[arg-type]
