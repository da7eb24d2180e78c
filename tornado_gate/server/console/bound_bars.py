"""Budgets and limits as bars: how much of each is used now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tornado_gate.accounts.keys import StoredKey
from tornado_gate.accounts.people import Team, User
from tornado_gate.admission.bounds import NANO, NEARLY_USED, PERIODS
from tornado_gate.database.engine import Database
from tornado_gate.ledger.spending import Used, find_period, read_used
from tornado_gate.pipeline.gate import Gate
from tornado_gate.server.console.languages.catalogues import mark, translate
from tornado_gate.server.console.words import format_usd
from tornado_gate.types import NO_BUDGET, NO_LIMITS, Bound, Budget, Limits
from tornado_gate.types.value import Value, replace

LABELS: Final[Mapping[str, str]] = {
    "requests_per_minute": mark("Requests per minute"),
    "tokens_per_minute": mark("Tokens per minute"),
    "concurrent_requests": mark("Open requests"),
    "usd_per_day": mark("US dollars per day"),
    "usd_per_month": mark("US dollars per month"),
    "tokens_per_day": mark("Tokens per day"),
    "tokens_per_month": mark("Tokens per month"),
}
LINKS: Final = {"key": "/console/keys/", "user": "/console/users/", "team": "/console/teams/"}


class Bar(Value, frozen=True, kw_only=True):
    """One bound, and what is used of it: `amount` in nano-dollars, tokens or requests. `link` leads to its subject."""

    bound: Bound
    amount: int
    link: str

    @property
    def title(self) -> str:
        return self.bound.title or self.bound.subject

    @property
    def label(self) -> str:
        return translate(LABELS[self.bound.name])

    @property
    def part(self) -> float:
        """Return the used share, at most 1."""
        return round(min(1.0, self.amount / self.bound.limit), 4) if self.bound.limit > 0 else 1.0

    @property
    def used(self) -> str:
        return self._format(self.amount)

    @property
    def limit(self) -> str:
        return self._format(self.bound.limit)

    @property
    def is_budget(self) -> bool:
        return self.bound.family == PERIODS

    @property
    def is_nearly_used(self) -> bool:
        return self.part >= NEARLY_USED

    def _format(self, amount: int) -> str:
        return format_usd(amount / NANO) if self.bound.name.startswith("usd") else f"{amount:,}"


def list_subject_bounds(gate: Gate, subject: StoredKey | User | Team) -> tuple[Bound, ...]:
    """Return the bounds of a key, a user or a team alone, with conf's defaults and temporary changes."""
    limits = _parse(Limits, subject.limits, NO_LIMITS)
    budget = _parse(Budget, subject.budget, NO_BUDGET)
    config, list_bounds = gate.snapshot.config, gate.admission.list_bounds
    if isinstance(subject, StoredKey):
        usual = {name: getattr(config.limits, name) for name in ("requests_per_minute", "tokens_per_minute")}
        missing = {name: value for name, value in usual.items() if getattr(limits, name) is None}
        return list_bounds("key", subject.usage_id, replace(limits, **missing), budget, subject.name)
    if isinstance(subject, User):
        limits = config.accounts.default_limits if limits is NO_LIMITS else limits
        budget = config.accounts.default_budget if budget is NO_BUDGET else budget
        return list_bounds("user", subject.id, limits, budget, subject.email)
    return list_bounds("team", subject.id, limits, budget, subject.name)


def _parse(kind: Any, values: Mapping[str, Any], empty: Any) -> Any:
    known = {name: value for name, value in values.items() if name in kind.__struct_fields__}
    return kind(**known) if known else empty


async def read_bars(gate: Gate, database: Database, subjects: Iterable[StoredKey | User | Team]) -> list[Bar]:
    """Return the bars of subjects, in their order. Budgets come from the ledger, limits from the counters. Raises
    DatabaseError.
    """
    bounds = [
        (bound, f"{LINKS[bound.kind]}{subject.id}")
        for subject in subjects
        for bound in list_subject_bounds(gate, subject)
    ]
    budgets = [bound for bound, _ in bounds if bound.family == PERIODS]
    limits = [bound for bound, _ in bounds if bound.family != PERIODS]
    used = await database.run(_read_budgets, database, budgets) if budgets else {}
    levels = await gate.admission.limiter.read(limits) if limits else ()
    used |= {(level.bound.kind, level.bound.subject, level.bound.name): level.used for level in levels}
    return [
        Bar(bound=bound, amount=used.get((bound.kind, bound.subject, bound.name), 0), link=link)
        for bound, link in bounds
    ]


def _read_budgets(database: Database, bounds: Sequence[Bound]) -> dict[tuple[str, str, str], int]:
    """Return what is used of each budget, in nano-dollars or tokens. Blocks."""
    period = find_period(time.time())
    amounts: dict[tuple[str, str, str], int] = {}
    for kind in {bound.kind for bound in bounds}:
        own = [bound for bound in bounds if bound.kind == kind]
        used = read_used(database, kind, {bound.subject for bound in own}, period)
        for bound in own:
            amounts[kind, bound.subject, bound.name] = used.get(bound.subject, Used()).get_amount(bound.name)
    return amounts
