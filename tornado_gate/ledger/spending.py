"""The usage of keys and teams in the current UTC day and month, from the ledger's totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from sqlalchemy import case, func, select

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import OWNER_DAYS, TOTALS

IDS_PER_QUERY: Final = 500


class Used(NamedTuple):
    """Nano-dollars and tokens of a day and of a month. Requests with an unknown price count as free."""

    day_cost: int = 0
    day_tokens: int = 0
    month_cost: int = 0
    month_tokens: int = 0

    def get_amount(self, budget: str) -> int:
        """Return what counts against a budget, such as ``usd_per_day``: nano-dollars or tokens."""
        amounts = {
            "usd_per_day": self.day_cost,
            "usd_per_month": self.month_cost,
            "tokens_per_day": self.day_tokens,
            "tokens_per_month": self.month_tokens,
        }
        return amounts[budget]


class Period(NamedTuple):
    """The Unix seconds at which a UTC day and its month begin, and at which they end."""

    day: int
    month: int
    next_day: int
    next_month: int


def find_period(moment: float) -> Period:
    """Return the day and the month of a moment in Unix seconds."""
    now = datetime.fromtimestamp(moment, UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_month = month.replace(year=now.year + 1, month=1) if now.month == 12 else month.replace(month=now.month + 1)
    day = int(moment // 86_400) * 86_400
    return Period(day, int(month.timestamp()), day + 86_400, int(next_month.timestamp()))


def read_subjects(
    database: Database, kind: str, subjects: Iterable[str], period: Period, find_entry: Callable[[str], str]
) -> dict[str, Used]:
    """Return the usage as `read_used` does, for any kind of subject: also models and providers of conf, and the
    gateway, named "".

    `find_entry` returns the entry of conf for the model name in a request.
    """
    if kind in ("key", "team", "user"):
        return read_used(database, kind, subjects, period)
    table = TOTALS["days", False, False]
    of_day, tokens = table.c.bucket >= period.day, table.c.input_tokens + table.c.output_tokens
    sums = [func.sum(case((of_day, counted), else_=0)) for counted in (table.c.cost, tokens)]
    columns = [] if kind == "gateway" else [table.c[kind]]
    query = select(*columns, *sums, func.sum(table.c.cost), func.sum(tokens)).where(table.c.bucket >= period.month)
    names, used = set(subjects), {name: Used() for name in subjects}
    with database.read() as connection:
        for row in connection.execute(query.group_by(*columns)):
            name = "" if kind == "gateway" else find_entry(row[0]) if kind == "model" else row[0]
            if name in names:
                counts = map(int, (count or 0 for count in row[len(columns) :]))
                used[name] = Used(*(total + other for total, other in zip(used[name], counts, strict=True)))
    return used


def read_used(database: Database, kind: str, ids: Iterable[str], period: Period) -> dict[str, Used]:
    """Return the usage of each key or team (`kind`) in `period`. Subjects without usage are absent. Raises DatabaseError."""
    table = OWNER_DAYS if kind in ("key", "user") else TOTALS["days", False, False]
    of_day, tokens = table.c.bucket >= period.day, table.c.input_tokens + table.c.output_tokens
    sums = [func.sum(case((of_day, counted), else_=0)) for counted in (table.c.cost, tokens)]
    query = select(table.c[kind], *sums, func.sum(table.c.cost), func.sum(tokens)).where(
        table.c[kind] != "", table.c.bucket >= period.month
    )
    names, used = sorted(ids), {}
    with database.read() as connection:
        for begin in range(0, len(names), IDS_PER_QUERY):
            some = query.where(table.c[kind].in_(names[begin : begin + IDS_PER_QUERY])).group_by(table.c[kind])
            for name, *counts in connection.execute(some):
                used[name] = Used(*map(int, counts))
    return used
