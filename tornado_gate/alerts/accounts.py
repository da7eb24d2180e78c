"""Causes in the database: budgets that are nearly or fully used, and keys that expire. Synchronous; raises DatabaseError."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from tornado_gate.accounts.key_rules import DAY_SECONDS, EXPIRY_DAYS, find_expiry_days
from tornado_gate.accounts.limit_overrides import CONF_KEY
from tornado_gate.admission.bounds import NANO, NEARLY_USED, PERIOD_NAMES
from tornado_gate.alerts.values import Alert, Words
from tornado_gate.config.model import Config
from tornado_gate.database import tables
from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import OWNER_DAYS, usage
from tornado_gate.ledger.details import parse_details
from tornado_gate.ledger.rows import find_first_id
from tornado_gate.ledger.spending import Period, Used, find_period, read_used
from tornado_gate.types import NO_BUDGET, Bound, Budget
from tornado_gate.types.value import Value

IDS_PER_QUERY: Final = 500
MAX_REFUSED_ROWS: Final = 2000
_REFUSED_CODE: Final = "budget_exceeded"

ListBounds = Callable[[str, str, None, Budget, str], tuple[Bound, ...]]
"""Returns the bounds of a subject with the temporary changes of administrators: `Admission.list_bounds`."""
Subject = tuple[str, str]
"""The kind of a subject, key, user or team, and its id or its name in conf."""


class Share(Value, frozen=True, kw_only=True):
    """A budget and how much of it is used, in nano-dollars or tokens."""

    bound: Bound
    used: int

    @property
    def part(self) -> float:
        return self.used / self.bound.limit if self.bound.limit > 0 else 1.0


def find_budgets(database: Database, config: Config, list_bounds: ListBounds, now: float, since: float) -> list[Alert]:
    """Return an alert for each budget of a key, user or team of which at least 80 % are used.

    It counts as used up if requests were refused since `since`, a Unix time, because an estimate may exceed what is left.
    """
    period, refused = find_period(now), _read_refused(database, since)
    shares = _read_shares(database, config, list_bounds, period, refused)
    alerts = describe_budgets((share for each in shares.values() for share in each), period)
    for refused_subject in refused & shares.keys():
        worst = max(shares[refused_subject], key=lambda share: share.part)
        if worst.part >= NEARLY_USED:
            alerts.append(_describe_budget(worst, period, is_used_up=True))
    return alerts


def describe_budgets(shares: Iterable[Share], period: Period) -> list[Alert]:
    """Return an alert for each budget of which at least 80 % are used, the fullest first."""
    used = sorted((share for share in shares if share.part >= NEARLY_USED), key=lambda share: -share.part)
    return [_describe_budget(share, period, is_used_up=share.part >= 1) for share in used]


def _read_shares(
    database: Database, config: Config, list_bounds: ListBounds, period: Period, refused: AbstractSet[Subject]
) -> dict[Subject, list[Share]]:
    """Return the budgets of the subjects that have used something in the period, and of `refused` ones."""
    shares: dict[Subject, list[Share]] = {}
    for kind in ("key", "user", "team"):
        with database.read() as connection:
            ids = _list_used(connection, kind, period) | {name for of, name in refused if of == kind}
            budgets = list(_list_budgets(connection, config, kind, ids))
        used = read_used(database, kind, ids, period)
        for subject, title, budget in budgets:
            amounts = used.get(subject, Used())
            bounds = list_bounds(kind, subject, None, budget, title)
            shares[kind, subject] = [
                Share(bound=bound, used=amounts.get_amount(bound.name))
                for bound in bounds
                if bound.name in PERIOD_NAMES
            ]
    return {subject: counted for subject, counted in shares.items() if counted}


def _read_refused(database: Database, since: float) -> set[Subject]:
    """Return the subjects of requests that were refused because of a budget."""
    columns = (usage.c.key, usage.c.user, usage.c.team, usage.c.details)
    query = select(*columns).where(
        usage.c.id >= find_first_id(since), usage.c.outcome == "refused", usage.c.status == 429
    )
    subjects: set[Subject] = set()
    with database.read() as connection:
        for row in connection.execute(query.limit(MAX_REFUSED_ROWS)):
            if parse_details(row.details).get("error_code") == _REFUSED_CODE:
                subjects |= {("key", row.key), ("user", row.user), ("team", row.team)}
    return {subject for subject in subjects if subject[1]}


def _list_used(connection: Connection, kind: str, period: Period) -> set[str]:
    column = OWNER_DAYS.c[kind]
    query = select(column).where(column != "", OWNER_DAYS.c.bucket >= period.month).distinct()
    return {str(identity) for identity in connection.scalars(query)}


def _list_budgets(
    connection: Connection, config: Config, kind: str, ids: Iterable[str]
) -> Iterator[tuple[str, str, Budget]]:
    """Yield (id, name for people, budget) of the subjects with a budget."""
    wanted = set(ids)
    if kind == "key":
        yield from _list_conf_keys(config, wanted)
    entries = {"user": config.users, "team": config.teams}.get(kind, {})
    yield from (
        (name, name, entries[name].budget) for name in wanted & entries.keys() if entries[name].budget is not NO_BUDGET
    )
    rest = sorted(wanted - entries.keys())
    for begin in range(0, len(rest), IDS_PER_QUERY):
        for identity, title, stored in connection.execute(_select_budgets(kind, rest[begin : begin + IDS_PER_QUERY])):
            budget = _parse_budget(stored, config.accounts.default_budget if kind == "user" else NO_BUDGET)
            if budget is not NO_BUDGET:
                yield str(identity), str(title), budget


def _list_conf_keys(config: Config, ids: set[str]) -> Iterator[tuple[str, str, Budget]]:
    for key in config.keys:
        if key.budget is not NO_BUDGET and f"{CONF_KEY}{key.name}" in ids:
            yield f"{CONF_KEY}{key.name}", key.name, key.budget


def _select_budgets(kind: str, ids: list[str]) -> Any:
    if kind == "key":
        keys = tables.keys.c
        identity = func.coalesce(keys.counted_as, keys.id)
        return select(identity, keys.name, keys.budget).where(
            identity.in_(ids), keys.revoked.is_(None), keys.replaced_by.is_(None)
        )
    if kind == "user":
        return select(tables.users.c.id, tables.users.c.email, tables.users.c.budget).where(tables.users.c.id.in_(ids))
    return select(tables.teams.c.id, tables.teams.c.name, tables.teams.c.budget).where(tables.teams.c.id.in_(ids))


def _parse_budget(stored: Mapping[str, Any] | None, default: Budget) -> Budget:
    known = {name: value for name, value in (stored or {}).items() if name in Budget.__struct_fields__}
    return Budget(**known) if known else default


def _describe_budget(share: Share, period: Period, *, is_used_up: bool) -> Alert:
    bound = share.bound
    is_daily = bound.name.endswith("day")
    day = time.strftime("%Y-%m-%d", time.gmtime(period.day if is_daily else period.month))
    return Alert(
        kind="budget",
        cause=f"budget:{bound.kind}:{bound.subject}:{bound.name}:{day}:{100 if is_used_up else 80}",
        severity="critical" if is_used_up else "warning",
        heading=_name_budget(share, is_used_up=is_used_up),
        explanation=Words(
            "{used} of {limit} ({budget}) are used. Its requests are refused until {end} UTC."
            if is_used_up
            else "{used} of {limit} ({budget}) are used. It begins again on {end} UTC.",
            {
                "used": _format_amount(bound, share.used),
                "limit": _format_amount(bound, bound.limit),
                "budget": bound.name,
                "end": _format_time(period.next_day if is_daily else period.next_month),
            },
        ),
        subject=(bound.kind, bound.subject),
    )


def _name_budget(share: Share, *, is_used_up: bool) -> Words:
    bound = share.bound
    values = {"name": bound.title or bound.subject, "part": str(int(share.part * 100))}
    if is_used_up:
        return Words(
            {
                "key": "The budget of the key '{name}' is used up",
                "user": "The budget of the user '{name}' is used up",
                "team": "The budget of the team '{name}' is used up",
            }[bound.kind],
            values,
        )
    return Words(
        {
            "key": "The budget of the key '{name}' is used to {part} %",
            "user": "The budget of the user '{name}' is used to {part} %",
            "team": "The budget of the team '{name}' is used to {part} %",
        }[bound.kind],
        values,
    )


def _format_amount(bound: Bound, amount: int) -> str:
    return f"{amount / NANO:,.2f} USD" if bound.name.startswith("usd") else f"{amount:,} tokens"


def _format_time(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment))


def find_expiring_keys(database: Database, now: float) -> list[Alert]:
    """Return an alert for each key that expires within 7 days, and within 1 day, if it was valid for longer than that."""
    keys = tables.keys.c
    columns = (keys.id, keys.name, keys.created, keys.expires)
    query = select(*columns).where(
        keys.expires > now, keys.expires <= now + max(EXPIRY_DAYS) * DAY_SECONDS, keys.revoked.is_(None), keys.hidden.is_(False),
        keys.replaced_by.is_(None),
    )  # fmt: skip
    with database.read() as connection:
        rows = connection.execute(query.order_by(keys.expires)).all()
    return describe_expiries(rows, now)


def describe_expiries(keys: Iterable[Any], now: float) -> list[Alert]:
    """Return an alert for each key that expires soon. Keys have `id`, `name`, `created` and `expires`."""
    ends = ((key, find_expiry_days(key.created, key.expires, now)) for key in keys)
    return [_describe_expiry(key, days) for key, days in ends if days is not None]


def _describe_expiry(key: Any, days: int) -> Alert:
    return Alert(
        kind="key_expiry",
        cause=f"key_expiry:{key.id}:{int(key.expires)}:{days}",
        severity="critical" if days == 1 else "warning",
        heading=Words(
            "The API key '{name}' expires within 1 day"
            if days == 1
            else "The API key '{name}' expires within {days} days",
            {"name": key.name, "days": str(days)},
        ),
        explanation=Words(
            "It ends on {end} UTC. Rotate it on its page in the console; its id is {key}.",
            {"end": _format_time(key.expires), "key": key.id},
        ),
        subject=("key", key.id),
    )
