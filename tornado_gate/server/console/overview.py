"""The figures of the home page: what happened today, compared with the same hours of yesterday. Days are UTC."""

from __future__ import annotations

from collections.abc import Callable

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import COUNTERS
from tornado_gate.ledger.latencies import find_percentiles, read_times
from tornado_gate.ledger.reports import Reports
from tornado_gate.ledger.rows import DAY, HOUR, NANO_DOLLARS, UsageQuery
from tornado_gate.server.console.languages.catalogues import translate
from tornado_gate.server.console.usage_chart import format_milliseconds
from tornado_gate.server.console.usage_query import METRICS
from tornado_gate.server.console.words import format_usd
from tornado_gate.types.value import Value


class Figure(Value, frozen=True, kw_only=True):
    """A figure in words, and its change since yesterday: ``+12%``, "" if there is nothing to compare with."""

    label: str
    value: str
    before: str
    change: str
    link: str


class _Day(Value, frozen=True, kw_only=True):
    """What happened on a day until now, or until the same time. `first_token` is the median in milliseconds."""

    requests: float = 0
    cost: float = 0
    errors: float = 0
    tokens: float = 0
    first_token: float | None = None


def read_figures(database: Database, user: str, now: float) -> list[Figure]:
    """Return the figures of a user, or with "" of the gateway. Blocks; raises DatabaseError."""
    start = now // DAY * DAY
    seconds = now - start
    share = seconds % HOUR / HOUR
    today = _read_day(database, user, start, seconds, last_share=1)
    yesterday = _read_day(database, user, start - DAY, seconds, last_share=share)
    labels = {
        "requests": translate("Requests"),
        "cost": translate("Cost"),
        "errors": translate("Errors"),
        "tokens": translate("Tokens"),
        "first_token": translate("First token, median"),
    }
    return [_compare(name, label, today, yesterday) for name, label in labels.items()]


def _read_day(database: Database, user: str, start: float, seconds: float, *, last_share: float) -> _Day:
    """Return the sums of the first `seconds` of a day. Its last hour counts by a share, because its rows may be millions."""
    hours = int(seconds // HOUR) + 1
    query = UsageQuery(start=start, end=start + hours * HOUR, group_by=("hour",), user=user)
    sums = dict.fromkeys(COUNTERS, 0.0)
    for row in Reports(database).usage(query):
        is_last = f"T{hours - 1:02}:" in row.group["hour"]
        for name in COUNTERS:
            sums[name] += getattr(row, name) * (last_share if is_last else 1)
    times = read_times(database, query, hours * HOUR)
    medians = [value.p50 for each in times for value in each.first if value is not None for _ in range(each.requests)]
    median = find_percentiles(medians)
    return _Day(
        requests=sums["requests"],
        cost=sums["cost"] / NANO_DOLLARS,
        errors=sums["errors"],
        tokens=sums["input_tokens"] + sums["output_tokens"],
        first_token=None if median is None else median.p50,
    )


def _compare(name: str, label: str, today: _Day, yesterday: _Day) -> Figure:
    now, before = getattr(today, name), getattr(yesterday, name)
    format_value: Callable[[float], str] = format_usd if name == "cost" else "{:,.0f}".format
    if name == "first_token":
        format_value = format_milliseconds
    link = f"/console/usage?range=24h&metric={name}" if name in METRICS else "/console/usage?range=24h#times"
    return Figure(
        label=label,
        value="–" if now is None else format_value(now),
        before="–" if before is None else format_value(before),
        change=format_change(now / before - 1) if now is not None and before else "",
        link=link,
    )


def format_change(part: float) -> str:
    """Return ``+12%``, ``−3%``, or ``±0%`` for a change that rounds to nothing."""
    percent = round(part * 100)
    return f"{percent:+,}%".replace("-", "−") if percent else "±0%"
