"""Rules for making and changing keys: a key never has more rights than its maker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from tornado_gate.accounts.errors import Denied
from tornado_gate.accounts.key_checks import BUDGETS, LIMITS, check_fields
from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.people import Membership, Team, User
from tornado_gate.accounts.stored_key import LIST_FIELDS, StoredKey
from tornado_gate.codec.networks import parse_network
from tornado_gate.config.globs import covers_glob

Maker = User | StoredKey | KeyRecord | None
"""The maker of a key: a person, a key (of the store, or as `KeyRing` returns it), or None for a command."""

EXPIRY_DAYS: Final = (1, 7)
"""The days before its end from which people are told that a key expires, the shortest time first."""
DAY_SECONDS: Final = 86_400.0
_BOUNDS = (*LIST_FIELDS[:3], "role", "limits", "budget", "expires")
"""The fields that define the permissions of a key."""


def find_expiry_days(created: float, expires: float | None, now: float) -> int | None:
    """Return within which of EXPIRY_DAYS a key expires; None if it does not, or if it was made for no longer than that.

    Times are Unix seconds.
    """
    if expires is None or expires <= now:
        return None
    days = next((days for days in EXPIRY_DAYS if expires <= now + days * DAY_SECONDS), None)
    return days if days is not None and expires - created > days * DAY_SECONDS else None


def check_new_key(maker: Maker, memberships: Sequence[Membership] = (), **fields: Any) -> None:
    """Raise AccountError if `maker` may not make a key with `fields`, as `KeyStore.create` takes them.

    `memberships` are the maker's, if it is a user. The error names the field that has a fault. It is Denied, and names
    the field, if the field exceeds the maker's own permissions.
    """
    checked = check_fields(fields)
    if maker is None:
        return
    _check_role(maker.role, checked.get("role", "member"))
    if isinstance(maker, User):
        _check_user(maker, memberships, checked)
    else:
        _check_owner_of_key(maker, checked)
        check_within(maker, checked)


def check_account(maker: Maker, account: str, *, own: Collection[str] = (), field: str = "account") -> None:
    """Raise Denied if `maker` may not make, or see the text of, a key that shares the stored data of `account`.

    Every maker may share the data of its own account. `own` are further accounts that belong to the maker alone. To
    share the account of somebody else, the maker must be an administrator, with a key that is not limited to a team,
    models, operations or addresses. `field` names the account.
    """
    if maker is None or account in own or account == (maker.id if isinstance(maker, User) else maker.account):
        return
    is_limited = not isinstance(maker, User) and (maker.team or maker.models or maker.operations or maker.addresses)
    if maker.role != "administrator" or is_limited:
        message = (
            "Only administrators, by keys without a team, models, operations and addresses, make keys for the account of others: "
            "such a key reads what the account has stored."
        )
        raise Denied(message, code="outranks_maker", field=field)


def check_key_change(maker: Maker, memberships: Sequence[Membership], key: StoredKey, **changes: Any) -> None:
    """Raise AccountError if `maker` may not apply these changes to `key`.

    A maker without the role of an administrator cannot widen a key that somebody else has made, for example a key with
    a budget from an administrator.
    """
    if not may_manage_key(maker, memberships, key):
        raise Denied("This key belongs to somebody else.", code="not_your_key")
    fields = {name: getattr(key, name) for name in ("name", "user", "team", *_BOUNDS)} | changes
    if changes.get("expires", key.expires) == key.expires:
        del fields["expires"]  # an expiry in the past may stay
    if isinstance(maker, User) and maker.role != "administrator":
        _check_change_of_member(maker, memberships, key, changes, check_fields(fields))
    else:
        check_new_key(maker, memberships, **fields)


def may_manage_key(maker: Maker, memberships: Iterable[Membership], key: StoredKey) -> bool:
    """Return whether the maker sees this key and may revoke it.

    These makers may: an administrator, the owner of the key, and an administrator of its team.
    """
    if maker is None or maker.role == "administrator":
        return True
    if not isinstance(maker, User):
        return maker.id == key.id or (bool(maker.user) and maker.user == key.user)
    return key.user == maker.id or (key.team is not None and key.team in list_managed_teams(memberships))


def check_rotation(maker: Maker, memberships: Sequence[Membership], key: StoredKey) -> None:
    """Raise Denied if `maker` may not see the text of a successor of `key`. The successor has all rights of `key`."""
    if not may_manage_key(maker, memberships, key):
        raise Denied("This key belongs to somebody else.", code="not_your_key")
    fields = {name: getattr(key, name) for name in ("user", "team", *_BOUNDS)}
    if maker is None:
        return
    _check_role(maker.role, key.role)
    if isinstance(maker, User):
        if maker.role != "administrator" and key.user not in (maker.id, None):
            raise Denied("Only its owner or an administrator rotates this key. You can revoke it.", code="not_your_key")
        if key.user is None:
            check_maker(maker, memberships, key)
        return
    _check_owner_of_key(maker, fields)
    check_within(maker, fields)


def check_maker(maker: User | StoredKey, memberships: Sequence[Membership], key: StoredKey) -> None:
    """Raise Denied if `maker` may not make a key with the rights of `key` now.

    Limits, budget and expiry are not rights: they are compared when a key is made or changed.
    """
    fields = {name: getattr(key, name) for name in ("user", "team", *LIST_FIELDS[:3])}
    _check_role(maker.role, key.role)
    check_account(maker, key.account, own=(key.id, key.usage_id))
    if isinstance(maker, User):
        _check_user(maker, memberships, fields)
        return
    _check_owner_of_key(maker, fields)
    _check_scope_within(maker, fields)


def widens_rights(old: StoredKey, new: StoredKey) -> bool:
    """Return whether a change adds rights to a key: a role, another team, or more models, operations or addresses."""
    if new.team != old.team or (new.role != old.role and new.role == "administrator"):
        return True
    try:
        _check_scope_within(old, {name: getattr(new, name) for name in LIST_FIELDS[:3]})
    except Denied:
        return True
    return False


def check_adoption(maker: Maker, memberships: Sequence[Membership], key: StoredKey) -> None:
    """Raise Denied if `maker` may not become the issuer of `key`. A maker may, if it sees the key and may make such a
    key.
    """
    if not may_manage_key(maker, memberships, key):
        raise Denied("This key belongs to somebody else.", code="not_your_key")
    if isinstance(maker, User):
        check_maker(maker, memberships, key)
    elif maker is not None:
        check_key_change(maker, memberships, key)


def list_managed_teams(memberships: Iterable[Membership]) -> tuple[str, ...]:
    """Return the ids of the teams whose administrator the person is."""
    return tuple(membership.team.id for membership in memberships if membership.role == "administrator")


def find_binding_team(user: User, memberships: Iterable[Membership]) -> Team | None:
    """Return a team of a user that does not let its members make keys outside a team; None if no team forbids it."""
    if user.role == "administrator":
        return None
    return next((membership.team for membership in memberships if membership.team.is_binding), None)


def _check_role(own: str, role: str) -> None:
    if role == "administrator" and own != "administrator":
        raise Denied(
            "Only an administrator makes keys with the role administrator.", code="outranks_maker", field="role"
        )


def _check_user(maker: User, memberships: Sequence[Membership], fields: Mapping[str, Any]) -> None:
    if maker.role == "administrator":
        return
    team, owner = fields.get("team"), fields.get("user")
    teams = {membership.team.id: membership for membership in memberships}
    if team is not None and team not in teams:
        raise Denied("You are not a member of this team.", code="not_a_member", field="team")
    if owner is None and team is not None and teams[team].role == "administrator":
        return  # a key of the team, for a service
    binding = find_binding_team(maker, memberships)
    if team is None and binding is not None:
        message = (
            f"You are a member of the team {binding.name}, which has a budget or limits, so your keys belong to a team. "
            "Choose a team, or ask an administrator to allow personal keys."
        )
        raise Denied(message, code="team_required", field="team")
    if owner != maker.id:
        message = "Only administrators make keys for others, because a person with somebody's key acts as that user."
        raise Denied(message, code="not_your_key", field="user")


def _check_change_of_member(
    maker: User,
    memberships: Sequence[Membership],
    key: StoredKey,
    changes: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> None:
    _check_role(maker.role, "administrator" if changes.get("role") == "administrator" else "member")
    if fields["team"] != key.team:
        _check_user(maker, memberships, fields)
    manages_team = key.team is not None and key.team in list_managed_teams(memberships)
    if key.created_by == maker.id or manages_team:
        return
    if fields["team"] != key.team:
        raise Denied("Only who made this key moves it to another team.", code="not_your_key", field="team")
    check_within(key, {name: fields.get(name, getattr(key, name)) for name in _BOUNDS})


def _check_owner_of_key(maker: StoredKey | KeyRecord, fields: Mapping[str, Any]) -> None:
    """Check the owner of a new key. A key of an administrator without a team makes keys for anybody.

    Any other key makes keys for its own user and team only.
    """
    team, owner = fields.get("team") or "", fields.get("user") or ""
    if (maker.role != "administrator" or maker.team) and team != (maker.team or ""):
        raise Denied("This key can make keys of its own team only.", code="outranks_maker", field="team")
    if maker.role != "administrator" and owner != (maker.user or ""):
        raise Denied("This key can make keys of its own user only.", code="outranks_maker", field="user")


def check_within(maker: StoredKey | KeyRecord, fields: Mapping[str, Any]) -> None:
    """Raise Denied if a field of `fields`, which is checked, allows more than `maker` may do. A missing field allows all."""
    faults = {
        "models": not _covers_all(maker.models, fields.get("models", ()), covers_glob),
        "operations": not _covers_all(maker.operations, fields.get("operations", ()), str.__eq__),
        "addresses": not _covers_all(maker.addresses, fields.get("addresses", ()), _covers_network),
        "expires": _exceeds_bound(fields.get("expires"), maker.expires),
    }
    own_limits, own_budget = get_bounds(maker)
    limits, budget = fields.get("limits", {}), fields.get("budget", {})
    faults |= {name: _exceeds_bound(limits.get(name), own_limits.get(name)) for name in LIMITS}
    faults |= {name: _exceeds_bound(budget.get(name), own_budget.get(name)) for name in BUDGETS}
    for field, is_fault in faults.items():
        if is_fault:
            message = f"'{field}' would allow more than the key that makes this one. Narrow it."
            raise Denied(message, code="outranks_maker", field=field)


def _check_scope_within(maker: StoredKey, fields: Mapping[str, Any]) -> None:
    """Check fields as `check_within` does, except limits, budget and expiry."""
    check_within(maker, {**fields, "limits": maker.limits, "budget": maker.budget, "expires": maker.expires})


def get_bounds(key: StoredKey | KeyRecord) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the limits and the budget of a key, by name; None or missing: no limit."""
    if isinstance(key, StoredKey):
        return key.limits, key.budget
    return {name: getattr(key, name) for name in LIMITS}, {name: getattr(key.budget, name) for name in BUDGETS}


def _covers_all(own: Collection[str], entries: Collection[str], covers: Callable[[str, str], bool]) -> bool:
    """Return whether each entry of `entries` is covered by an entry of `own`. An empty list means all."""
    if not own:
        return True
    return bool(entries) and all(any(covers(outer, inner) for outer in own) for inner in entries)


def _covers_network(outer: str, inner: str) -> bool:
    whole, part = parse_network(outer), parse_network(inner)
    if isinstance(whole, IPv4Network):
        return isinstance(part, IPv4Network) and part.subnet_of(whole)
    return isinstance(part, IPv6Network) and part.subnet_of(whole)


def _exceeds_bound(bound: float | None, own: float | None) -> bool:
    """Return whether a limit is higher than the maker's; None is no limit."""
    return own is not None and (bound is None or bound > own)


def is_part_of(models: Collection[str], operations: Collection[str], key: StoredKey) -> bool:
    """Return whether a key allows only these models and operations, apart from administration. An empty list means all."""
    own = [name for name in key.operations if name != "admin"] or list(key.operations)
    return _covers_all(models, key.models, covers_glob) and _covers_all(
        (*operations, "admin") if operations else (), own, str.__eq__
    )


def check_bounds_within(maker: KeyRecord, bounds: Mapping[str, float | None]) -> None:
    """Raise Denied if a limit or a budget of `bounds` is higher than the one of `maker`. `bounds` are set for other
    subjects.
    """
    limits, budget = get_bounds(maker)
    own = {**limits, **budget}
    for name, value in bounds.items():
        if _exceeds_bound(value, own.get(name)):
            message = f"'{name}' would be higher than that of the key that sets it. Narrow it."
            raise Denied(message, code="outranks_maker", field=name)
