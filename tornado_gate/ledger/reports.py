"""Reports of usage: sums by group, and the requests themselves, newest first.

Sums come from the totals by day and by hour, and from the rows of requests where a report begins or ends within an
hour. Two cases have whole hours only: reports with tags, and times whose rows have been deleted. There the hour in
which the report begins or ends counts as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence, Set
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import BigInteger, ColumnElement, Select, Table, and_, case, cast, func, literal_column, select
from sqlalchemy.engine import Connection, Row

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import (
    COUNTERS,
    ERROR_OUTCOMES,
    OWNER_DAYS,
    OWNER_DIMENSIONS,
    TOTALS,
    USER_DAYS,
    usage,
)
from tornado_gate.ledger.details import parse_details
from tornado_gate.ledger.made import select_counted
from tornado_gate.ledger.rows import DAY, HOUR, RequestRow, UsageQuery, UsageRow, find_first_id, find_moment

GROUPS: Final = ("key", "user", "team", "model", "provider", "operation", "status", "tag", "day", "hour")
MOST_ROWS: Final = 1000
"""The maximum number of requests in one response."""

_FILTERS = ("user", "team", "key", "model", "provider", "tag", "status")
_SECONDS = {"day": DAY, "hour": HOUR}


class _Part(NamedTuple):
    """A range of time and the source of its sums: ``days``, ``hours`` or ``rows``. Times are Unix seconds; the end is
    excluded.
    """

    source: str
    start: float
    end: float


class Reports:
    """A reader of the ledger. Synchronous: from an event loop use `database.run`. Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def usage(self, query: UsageQuery) -> list[UsageRow]:
        """Return the sums of each group, in the order of the groups' values. Raises ValueError for an unknown group.

        `requests` and `errors` count the rows of `ledger/made.py`, but all rows if they are grouped by operation.
        """
        unknown = set(query.group_by) - set(GROUPS)
        if unknown:
            raise ValueError(f"'{min(unknown)}' is not one of {', '.join(GROUPS)}")
        sums: dict[tuple[Any, ...], list[Any]] = {}
        with self._database.read() as connection:
            for part in self._plan_query(connection, query):
                _add_sums(sums, connection.execute(_select_sums(query, part)), len(query.group_by))
        return [_make_usage_row(query.group_by, group, sums[group]) for group in sorted(sums) if any(sums[group])]

    def _plan_query(self, connection: Connection, query: UsageQuery) -> list[_Part]:
        oldest = connection.execute(select(func.min(usage.c.id))).scalar()
        rows_since = time.time() if oldest is None else find_moment(oldest)
        if "tag" in query.group_by or query.tag:
            rows_since = float("inf")
        return plan_parts(query.start, query.end, rows_since, time.time(), hourly="hour" in query.group_by)

    def requests(  # noqa: PLR0913  the filters of one list
        self,
        *,
        start: float | None = None,
        end: float | None = None,
        before: str | None = None,
        limit: int = 50,
        only_errors: bool = False,
        user: str = "",
        team: str = "",
        key: str = "",
        model: str = "",
        request_id: str = "",
    ) -> list[RequestRow]:
        """Return requests, newest first: at most `limit`, and MOST_ROWS. `before` is the id of the last row of the
        previous page.
        """
        column = usage.c.id
        query = select(usage).order_by(column.desc()).limit(max(1, min(limit, MOST_ROWS)))
        filters = {"user": user, "team": team, "key": key, "model": model, "request_id": request_id}
        for name, value in filters.items():
            query = _filter_rows(query, usage, name, value)
        if start is not None:
            query = query.where(column >= find_first_id(start))
        last = min((row_id for row_id in (before, None if end is None else find_first_id(end)) if row_id), default="")
        if last:
            query = query.where(column < last)
        if only_errors:
            query = query.where(_is_error())
        with self._database.read() as connection:
            return [_parse_request(row) for row in connection.execute(query)]

    def find_requests(self, identity: str, *, team: str = "", limit: int = 2) -> list[RequestRow]:
        """Return the request whose row has this id, else the requests with this ``x-request-id``, newest first.

        With `team`, only requests of this team are returned. Callers choose values of ``x-request-id``, so several
        requests may have the same value. The gateway chooses the id of a row.
        """
        for column in (usage.c.id, usage.c.request_id):
            query = _filter_rows(select(usage).where(column == identity), usage, "team", team)
            with self._database.read() as connection:
                rows = connection.execute(query.order_by(usage.c.id.desc()).limit(limit)).all()
            if rows:
                return [_parse_request(row) for row in rows]
        return []


def plan_parts(start: float, end: float, rows_since: float, now: float, *, hourly: bool) -> list[_Part]:
    """Return the parts of a report: whole days, else whole hours, else rows.

    Their union is [start, end), rounded as the module's docstring describes.

    `rows_since` is the time from which on rows exist. The hour and the day of `now` count as whole when the report ends
    later.
    """
    end = min(end, _ceil_moment(now, DAY) + DAY)
    first = _ceil_moment(start, HOUR) if start >= rows_since else _floor_moment(start, HOUR)
    last = _ceil_moment(end, HOUR) if end >= now or end < rows_since else _floor_moment(end, HOUR)
    if first >= last:
        edges = (start, min(max(first, start), end), end)
        return [_Part("rows", *edge) for edge in pairwise(edges) if edge[0] < edge[1]]
    parts = [_Part("rows", start, first)] if start < first else []
    first_day, last_day = _ceil_moment(first, DAY), _ceil_moment(last, DAY) if last >= now else _floor_moment(last, DAY)
    if hourly or first_day >= last_day:
        parts.append(_Part("hours", first, last))
    else:
        between = (("hours", first, first_day), ("days", first_day, last_day), ("hours", last_day, last))
        parts += [_Part(*part) for part in between if part[1] < part[2]]
    if last < end:
        parts.append(_Part("rows", last, end))
    return parts


def _floor_moment(moment: float, seconds: int) -> int:
    return int(moment // seconds) * seconds


def _ceil_moment(moment: float, seconds: int) -> int:
    return -int(-moment // seconds) * seconds


def _is_error() -> ColumnElement[bool]:
    # The values stand in the text, so that both databases see that the partial index has all errors.
    return usage.c.outcome.in_([literal_column(f"'{outcome}'") for outcome in ERROR_OUTCOMES])


def _filter_rows(query: Select[Any], table: Table, name: str, value: str | int) -> Select[Any]:
    """Add a condition. For a column that may be empty, the index omits empty values; the query must repeat that
    condition.
    """
    if not value:
        return query
    column = table.c[name]
    query = query.where(column == value)
    return query.where(column != literal_column("''")) if name in ("user", "team", "tag", "key") else query


def _select_sums(query: UsageQuery, part: _Part) -> Select[Any]:
    filters: dict[str, Any] = {name: getattr(query, name) for name in _FILTERS if getattr(query, name)}
    several = {name: values for name, values in (("key", query.keys), ("user", query.users)) if values}
    if part.source == "rows":
        table, bound = usage, usage.c.id
        first, last = find_first_id(part.start), find_first_id(part.end)
        columns = {name: sum_rows(name) for name in COUNTERS}
        if "operation" not in query.group_by:
            counted = select_counted(usage)
            columns["requests"] = func.sum(case((counted, 1), else_=0))
            columns["errors"] = func.sum(case((and_(counted, _is_error()), 1), else_=0))
    else:
        table = _select_table(part.source, {*query.group_by, *filters, *several})
        bound, first, last = table.c.bucket, int(part.start), int(part.end)  # type: ignore[assignment]  # numbers there
        columns = {name: func.sum(table.c[name]) for name in COUNTERS}
        if "operation" not in query.group_by and table is not OWNER_DAYS:
            for name in ("requests", "errors"):
                columns[name] = func.sum(case((select_counted(table), table.c[name]), else_=0))
    # PostgreSQL's sum of BIGINT is NUMERIC, which takes long to parse.
    columns = {name: sums if name == "seconds" else cast(sums, BigInteger) for name, sums in columns.items()}
    groups = [_group_by(table, part, name).label(f"by_{name}") for name in query.group_by]
    chosen = select(*groups, *(columns[name].label(f"sum_{name}") for name in COUNTERS))
    for name, value in filters.items():
        chosen = _filter_rows(chosen, table, name, value)
    for name, values in several.items():
        chosen = chosen.where(table.c[name].in_(values))
        if "" not in values:  # as in `_filter_rows`
            chosen = chosen.where(table.c[name] != literal_column("''"))
    chosen = chosen.where(bound >= first, bound < last)
    return chosen.group_by(*(literal_column(f"by_{name}") for name in query.group_by)).having(func.count() > 0)


def _select_table(source: str, names: Set[str]) -> Table:
    """Return the smallest table of totals with these dimensions."""
    is_owned, is_tagged = bool(names & {"key", "user"}), "tag" in names
    if is_owned and not is_tagged and source == "days":
        if names <= {"day", *OWNER_DIMENSIONS}:
            return OWNER_DAYS
        if "key" not in names:
            return USER_DAYS
    return TOTALS[source, is_tagged, is_owned]


def _group_by(table: Table, part: _Part, name: str) -> ColumnElement[Any]:
    if name not in _SECONDS:
        return table.c[name]
    if table is usage:  # a part of rows is within one hour
        return literal_column(str(_floor_moment(part.start, _SECONDS[name])))
    return table.c.bucket - table.c.bucket % literal_column(str(_SECONDS[name]))


def sum_rows(name: str) -> ColumnElement[Any]:
    """Return the sum of a counter over rows of the table `usage`."""
    rows = usage.c
    if name == "requests":
        return func.count()
    if name == "errors":
        return func.sum(case((_is_error(), 1), else_=0))
    if name == "unpriced_requests":
        return func.sum(case((rows.cost.is_(None), 1), else_=0))
    if name == "cache_write_tokens":
        return func.sum(func.coalesce(rows.cache_write_tokens, 0) + func.coalesce(rows.cache_write_1h_tokens, 0))
    return func.sum(func.coalesce(rows[name], 0))


def _add_sums(sums: dict[tuple[Any, ...], list[Any]], rows: Iterable[Row[Any]], groups: int) -> None:
    for row in rows:
        group, values = tuple(row[:groups]), row[groups:]
        known = sums.get(group)
        sums[group] = (
            list(values) if known is None else [count + other for count, other in zip(known, values, strict=True)]
        )


def _make_usage_row(names: Sequence[str], group: Sequence[Any], sums: Sequence[Any]) -> UsageRow:
    # A page makes thousands of rows, so the sums are not put into a dict.
    requests, errors, prompt, cached, written, output, reasoning, images, seconds, cost, unpriced = sums
    return UsageRow(
        group={name: _format_group(name, value) for name, value in zip(names, group, strict=True)},
        requests=requests,
        errors=errors,
        input_tokens=prompt,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=reasoning,
        images=images,
        seconds=seconds,
        cost=cost,
        unpriced_requests=unpriced,
    )


@lru_cache(10_000)
def _format_group(name: str, value: Any) -> str:
    if name not in _SECONDS:
        return str(value)
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d" if name == "day" else "%Y-%m-%dT%H:00:00Z")


def _parse_request(row: Row[Any]) -> RequestRow:
    values = dict(row._mapping)
    details = parse_details(values.pop("details"))
    tags = tuple(orjson.loads(values.pop("tags")))
    return RequestRow(**values, **details, moment=find_moment(row.id), tags=tags)
