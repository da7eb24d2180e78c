"""The scope of an administrator's key: everything, or the part that its team, its models and its operations allow.

A limited key sees only objects within its limits, and calls only the routes that name its limitations. By default a
route names no limitation: routes that give people rights (users, sessions, invitations) are for keys without
limitations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from tornado_gate.accounts.errors import NotFound as AccountNotFound
from tornado_gate.accounts.key_record import KeyRecord
from tornado_gate.accounts.key_rules import check_bounds_within, is_part_of
from tornado_gate.accounts.permissions import may_use_model
from tornado_gate.accounts.stored_key import StoredKey
from tornado_gate.config.globs import intersect_globs
from tornado_gate.database.usage_tables import COUNTERS
from tornado_gate.errors import NotAllowed
from tornado_gate.ledger.rows import RequestRow, UsageRow
from tornado_gate.types import Caller
from tornado_gate.types.value import Value, replace

OPERATION: Final = "admin"
"""The operation that a key needs for administration if it is limited to certain operations."""

Limitation = Literal["team", "models", "operations", "administration"]
"""Limitations of a key with the role administrator: to a team, to models, to operations of models, or to administration
alone.
"""

EVERY: Final[frozenset[Limitation]] = frozenset({"team", "models", "operations", "administration"})
ADMINISTRATION: Final[frozenset[Limitation]] = frozenset({"administration"})
TEAM: Final[frozenset[Limitation]] = frozenset({"team"})
TEAM_ADMINISTRATION: Final = TEAM | ADMINISTRATION


class Scope(Value, frozen=True, kw_only=True):
    """The limits of a key. `operations` are operations of models, without the operation of administration."""

    team: str = ""
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    limitations: frozenset[Limitation] = frozenset()

    @property
    def is_part(self) -> bool:
        """Return whether some requests and models are outside of the scope. Only their own columns show it."""
        return bool(self.models or self.operations)

    def check_route(self, allowed: frozenset[Limitation]) -> None:
        """Raise NotAllowed if a route is not for keys with these limitations."""
        if not self.limitations <= allowed:
            limited = ", ".join(sorted(self.limitations))
            message = (
                f"This administrator's key is limited ({limited}), so it may not do this. Use a key with the role administrator "
                "and without a team, models and operations."
            )
            raise NotAllowed(message, code="outranks_maker")

    def check_team(self, team: str) -> None:
        """Raise NotFound for a team other than the team of the key."""
        if self.team and team != self.team:
            raise AccountNotFound("There is no such team.", code="unknown_team")

    def narrow_team(self, team: str) -> str | None:
        """Return the team to which a list is limited, "" for no limit; None if no object is in both."""
        if self.team and team not in ("", self.team):
            return None
        return self.team or team

    def has_model(self, name: str) -> bool:
        return not self.models or may_use_model(Caller(id="", account="", models=self.models), name)

    def has_request(self, row: RequestRow) -> bool:
        if self.team and row.team != self.team:
            return False
        return (not self.operations or row.operation in self.operations) and self.has_model(row.model)

    def select_usage(self, rows: Iterable[UsageRow], groups: tuple[str, ...]) -> list[UsageRow]:
        """Return the sums by `groups` of the rows in the scope. The rows are also grouped by model and operation."""
        sums: dict[tuple[str, ...], list[UsageRow]] = {}
        for row in rows:
            if (not self.operations or row.group["operation"] in self.operations) and self.has_model(
                row.group["model"]
            ):
                sums.setdefault(tuple(row.group[name] for name in groups), []).append(row)
        return [_add_rows(dict(zip(groups, values, strict=True)), counters) for values, counters in sums.items()]


def make_scope(key: KeyRecord | Caller) -> Scope:
    """Return the scope of an administrator's key."""
    operations = tuple(name for name in key.operations if name != OPERATION)
    limited_by: dict[Limitation, bool] = {
        "team": bool(key.team),
        "models": bool(key.models),
        "operations": bool(operations),
        "administration": bool(key.operations) and not operations,
    }
    limitations = frozenset(name for name, is_limited in limited_by.items() if is_limited)
    return Scope(team=key.team, models=tuple(key.models), operations=operations, limitations=limitations)


def is_in_scope(maker: KeyRecord, key: StoredKey, team_models: tuple[str, ...]) -> bool:
    """Return whether `maker` sees a key. It must be of the same team, and allow no more models and operations than
    `maker`.

    `team_models` are the models of the maker's team, () without one. They narrow both keys.
    """
    scope = make_scope(maker)
    if scope.team and key.team != scope.team:
        return False
    models = intersect_globs(key.models, team_models) if team_models else key.models
    return is_part_of(scope.models, scope.operations, replace(key, models=models))


def check_key(maker: KeyRecord, key: StoredKey, team_models: tuple[str, ...]) -> None:
    """Raise NotFound for a key that `maker` does not see, as for a key that does not exist."""
    if not is_in_scope(maker, key, team_models):
        raise AccountNotFound(f"There is no key with the id {key.id[:60]!a}.", code="key_not_found")


def check_bounds(maker: KeyRecord, values: Mapping[str, Any]) -> None:
    """Raise Denied if limits or budgets for other subjects are higher than the limits of the key itself."""
    check_bounds_within(maker, {**values.get("limits", {}), **values.get("budget", {})})


def check_override(maker: KeyRecord, bound: str, *, value: float | None, factor: float | None) -> None:
    """Raise Denied for an override that is higher than the key's own bound. A factor above 1 could exceed it."""
    check_bounds_within(maker, {bound: value if factor is None else (None if factor > 1 else 0.0)})


def _add_rows(group: Mapping[str, str], rows: list[UsageRow]) -> UsageRow:
    return UsageRow(group=group, **{name: sum(getattr(row, name) for row in rows) for name in COUNTERS})
