"""The one check of `created_by`. It runs when an object is used: the object is valid as long as its maker could make it
now.

A maker is a user, a key of the store, or absent. Commands and keys of conf belong to no person, so the objects that
they made stay valid. A key that belongs to a user stands for that user. A key without a user stands for itself: it must
be usable now, or the key that replaced it in a rotation must be. The check reads the current state. If a maker is
enabled or promoted again, its objects are valid again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.errors import AccountError
from tornado_gate.accounts.key_rules import check_maker
from tornado_gate.accounts.people import Actor, Membership, User
from tornado_gate.accounts.rows import USER_COLUMNS, USERS, make_user, read_memberships
from tornado_gate.accounts.stored_key import StoredKey, parse_key
from tornado_gate.database import tables
from tornado_gate.types.value import Value

MOST_MAKERS: Final = 20
"""The maximum number of keys in a chain in which each made the next. A key of a longer chain is invalid until it is
adopted.
"""
_KEY, _USER = "key_", "user_"
_ADMINISTRATION: Final = "admin"
"""The operation of the administration API, with which keys make objects."""
_KEYS = tables.keys


class Verdict(Value, frozen=True):
    """The result of a check. `reason`: why an object is invalid now, "" if it is valid.

    `until`: when the object ends because the key that made it expires.
    """

    reason: str = ""
    until: float | None = None


class Maker(Value, frozen=True):
    """The maker behind an id. `holder` is a person or a key; None for a command, for conf, and if `fault` explains why
    there is no maker.
    """

    holder: User | StoredKey | None = None
    fault: str = ""
    until: float | None = None


FINE: Final = Verdict()


class Makers:
    """Checks of objects by their makers, in one transaction. Each maker is read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._found: dict[str, Maker] = {}
        self._memberships: dict[str, Sequence[Membership]] = {}
        self._depth = 0

    def judge(self, created_by: str, check: Callable[[Actor], None]) -> Verdict:
        """Check an object of this maker. `check` raises AccountError if the maker may not make such an object."""
        maker = self._find_maker(created_by)
        if maker.fault or maker.holder is None:
            return Verdict(_blame_maker(maker.fault))
        holder = maker.holder
        try:
            check(Actor(id=holder.id, name=holder.name, role=holder.role))
        except AccountError:
            return Verdict(_blame_maker("has no right to make it any more"))
        return Verdict(until=maker.until)

    def judge_key(self, key: StoredKey) -> Verdict:
        """Check a key by its issuer. The owner's right to use it is not included: see `judge_owner`."""
        if key.hidden or not has_maker(key):
            return FINE
        maker = self._find_maker(key.issuer)
        if maker.fault:
            return Verdict(_blame_maker(maker.fault))
        if maker.holder is None or (maker.holder.id == key.user and not key.shares_account):
            return FINE
        try:
            check_maker(maker.holder, self._list_memberships(maker.holder), key)
        except AccountError:
            return Verdict(_blame_maker("has no right to make such a key any more"))
        return Verdict(until=maker.until)

    def judge_owner(self, key: StoredKey) -> str:
        """Return why the owner of a key may not use it now, "" without an owner or a reason."""
        if key.user is None:
            return ""
        owner = self._find_maker(key.user).holder
        if not isinstance(owner, User):
            return explain_owner("disabled", "member", key, is_member=True)
        teams = {membership.team.id for membership in self._list_memberships(owner)}
        return explain_owner(owner.state, owner.role, key, is_member=key.team in teams)

    def _find_maker(self, identity: str) -> Maker:
        """Return the maker with this id. While a key is checked for itself, it cannot be the maker of another object."""
        known = self._found.get(identity)
        if known is None:
            self._found[identity] = Maker(fault="depends on a key that it has made itself")
            known = self._found[identity] = self._read_maker(identity)
        return known

    def _read_maker(self, identity: str) -> Maker:
        if identity.startswith(_USER):
            return self._read_user(identity)
        return self._read_key(identity) if identity.startswith(_KEY) else Maker()

    def _read_user(self, identity: str) -> Maker:
        row = self._connection.execute(select(*USER_COLUMNS).where(USERS.c.id == identity)).one_or_none()
        if row is None:
            return Maker(fault="is deleted")
        user = make_user(row)
        return Maker(user) if user.state == "active" else Maker(fault="is disabled")

    def _read_key(self, identity: str) -> Maker:
        key = self._read_current_key(identity)
        if key is None:
            return Maker(fault="is deleted")
        if key.user is not None:
            return self._find_maker(key.user)
        state = key.get_state(time.time())
        if state != "active":
            return Maker(fault=f"is a key that is {state}")
        if key.role != "administrator" or (key.operations and _ADMINISTRATION not in key.operations):
            return Maker(fault="is a key that may not administrate any more")
        self._depth += 1
        verdict = self.judge_key(key) if self._depth <= MOST_MAKERS else Verdict("too many keys have made each other")
        self._depth -= 1
        if verdict.reason:
            return Maker(fault="is a key that is suspended")
        return Maker(key, until=_find_earlier(key.expires, verdict.until))

    def _read_current_key(self, identity: str) -> StoredKey | None:
        """Return a key, or its successor after rotations."""
        row = self._connection.execute(select(_KEYS).where(_KEYS.c.id == identity)).one_or_none()
        if row is None or row.replaced_by is None:
            return None if row is None else parse_key(row)
        chain = (_KEYS.c.counted_as == parse_key(row).usage_id, _KEYS.c.replaced_by.is_(None))
        return parse_key(self._connection.execute(select(_KEYS).where(*chain)).one())

    def _list_memberships(self, holder: User | StoredKey) -> Sequence[Membership]:
        if not isinstance(holder, User) or holder.role == "administrator":
            return ()
        if holder.id not in self._memberships:
            self._memberships[holder.id] = read_memberships(self._connection, holder.id)
        return self._memberships[holder.id]


def explain_owner(state: str | None, role: str | None, key: StoredKey, *, is_member: bool) -> str:
    """Return why an owner in this state, with this role, may not use a key now, "" for no reason."""
    if state != "active":
        return "its owner is disabled"
    if key.team is not None and not is_member and role != "administrator":
        return "its owner is not in its team any more"
    return ""


def has_maker(key: StoredKey) -> bool:
    """Return whether `Makers.judge_key` has a maker to check. Most keys are issued by their owner, or by a command."""
    return key.issuer.startswith((_USER, _KEY)) and (key.issuer != key.user or key.shares_account)


def _blame_maker(fault: str) -> str:
    return f"its maker {fault}" if fault else ""


def _find_earlier(first: float | None, second: float | None) -> float | None:
    return min((moment for moment in (first, second) if moment is not None), default=None)
