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
    OWNER_DAYS,
    OWNER_DIMENSIONS,
    TOTALS,
    USER_DAYS,
    usage,
)
from tornado_gate.ledger.made import select_counted
from tornado_gate.ledger.request_search import (
    RequestQuery,
    contains_text,
    filter_rows,
    is_error,
    parse_request,
    read_member,
    search_requests,
)
from tornado_gate.ledger.rows import DAY, HOUR, RequestRow, UsageQuery, UsageRow, find_first_id, find_moment

GROUPS: Final = ("key", "user", "team", "model", "provider", "operation", "status", "tag", "end_user", "day", "hour")

MOST_END_USERS: Final = 50_000
"""The groups of a report by end user, which callers name."""
MOST_ROWS: Final = 5_000_000
"""The rows that a report by end user reads, in about 14 s. It has no totals, because callers may name a new end user in each
request.
"""

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
        if query.names_end_users and "tag" in query.group_by:
            raise ValueError("'end_user' and 'tag' cannot be combined")
        sums: dict[tuple[Any, ...], list[Any]] = {}
        with self._database.read() as connection:
            parts = self._plan_query(connection, query)
            if query.names_end_users:
                _check_number_of_rows(connection, query, parts)
            for part in parts:
                selected = _select_sums(query, part, connection.dialect.name)
                _add_sums(sums, connection.execute(selected), len(query.group_by))
                if query.names_end_users and len(sums) > MOST_END_USERS:
                    raise ValueError(
                        f"the report has more than {MOST_END_USERS} end users; narrow it by time or filters"
                    )
        return [_make_usage_row(query.group_by, group, sums[group]) for group in sorted(sums) if any(sums[group])]

    def _plan_query(self, connection: Connection, query: UsageQuery) -> list[_Part]:
        oldest = connection.execute(select(func.min(usage.c.id))).scalar()
        rows_since = time.time() if oldest is None else find_moment(oldest)
        if query.names_end_users:
            seconds = min((_SECONDS[name] for name in query.group_by if name in _SECONDS), default=0)
            return split_rows(max(query.start, rows_since), min(query.end, time.time() + 1), seconds)
        if "tag" in query.group_by or query.tag:
            rows_since = float("inf")
        return plan_parts(query.start, query.end, rows_since, time.time(), hourly="hour" in query.group_by)

    def requests(self, **filters: Any) -> list[RequestRow]:
        """Return requests, newest first. `filters` are the fields of `RequestQuery`."""
        return list(search_requests(self._database, RequestQuery(**filters)).rows)

    def find_requests(self, identity: str, *, user: str = "", team: str = "", limit: int = 2) -> list[RequestRow]:
        """Return the request whose row has this id, else the requests with this ``x-request-id``, newest first.

        With `user` or `team`, only the requests of this user or team are returned. Callers choose values of
        ``x-request-id``, so several requests may have the same value. The gateway chooses the id of a row.
        """
        for column in (usage.c.id, usage.c.request_id):
            query = filter_rows(select(usage).where(column == identity), usage, "team", team)
            query = filter_rows(query, usage, "user", user)
            with self._database.read() as connection:
                rows = connection.execute(query.order_by(usage.c.id.desc()).limit(limit)).all()
            if rows:
                return [parse_request(row) for row in rows]
        return []


def _check_number_of_rows(connection: Connection, query: UsageQuery, parts: Sequence[_Part]) -> None:
    """Raise ValueError if a report by end user would read more than MOST_ROWS rows. Totals tell their number.

    Only filters with an index count, because the others spare no row.
    """
    if not parts:
        return
    indexed = {"group_by": ("operation",), **{name: getattr(query, name) for name in ("user", "team", "key", "model")}}
    count = UsageQuery(start=query.start, end=query.end, **indexed, keys=query.keys, users=query.users)
    hours = plan_parts(parts[0].start, parts[-1].end, float("inf"), time.time(), hourly=False)
    selected = (_select_sums(count, part, connection.dialect.name) for part in hours)
    number = sum(int(row.sum_requests) for each in selected for row in connection.execute(each))
    if number > MOST_ROWS:
        raise ValueError(
            f"sums by end user are read from the rows of requests: here {number}, and at most {MOST_ROWS} are possible; "
            "narrow the report by time, or to a key, user, team or model"
        )


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


def split_rows(start: float, end: float, seconds: int) -> list[_Part]:
    """Return parts of rows whose union is [start, end). Each is within one period of `seconds`, unless that is 0."""
    edges = [start, end]
    if seconds and start < end:
        edges[1:1] = range(_floor_moment(start, seconds) + seconds, _ceil_moment(end, seconds), seconds)
    return [_Part("rows", first, last) for first, last in pairwise(edges) if first < last]


def _floor_moment(moment: float, seconds: int) -> int:
    return int(moment // seconds) * seconds


def _ceil_moment(moment: float, seconds: int) -> int:
    return -int(-moment // seconds) * seconds


def _select_sums(query: UsageQuery, part: _Part, dialect: str) -> Select[Any]:
    filters: dict[str, Any] = {name: getattr(query, name) for name in _FILTERS if getattr(query, name)}
    several = {name: values for name, values in (("key", query.keys), ("user", query.users)) if values}
    if part.source == "rows":
        table, bound = usage, usage.c.id
        first, last = find_first_id(part.start), find_first_id(part.end)
        columns = {name: sum_rows(name) for name in COUNTERS}
        if "operation" not in query.group_by:
            counted = select_counted(usage)
            columns["requests"] = func.sum(case((counted, 1), else_=0))
            columns["errors"] = func.sum(case((and_(counted, is_error()), 1), else_=0))
    else:
        table = _select_table(part.source, {*query.group_by, *filters, *several})
        bound, first, last = table.c.bucket, int(part.start), int(part.end)  # type: ignore[assignment]  # numbers there
        columns = {name: func.sum(table.c[name]) for name in COUNTERS}
        if "operation" not in query.group_by and table is not OWNER_DAYS:
            for name in ("requests", "errors"):
                columns[name] = func.sum(case((select_counted(table), table.c[name]), else_=0))
    # PostgreSQL's sum of BIGINT is NUMERIC, which takes long to parse.
    columns = {name: sums if name == "seconds" else cast(sums, BigInteger) for name, sums in columns.items()}
    groups = [_group_by(table, part, name, dialect).label(f"by_{name}") for name in query.group_by]
    chosen = select(*groups, *(columns[name].label(f"sum_{name}") for name in COUNTERS))
    if query.names_end_users:
        chosen = _filter_end_users(chosen, query, dialect)
        tag = filters.pop("tag", "")
        chosen = chosen.where(contains_text(dialect, usage.c.tags, orjson.dumps(tag).decode())) if tag else chosen
    for name, value in filters.items():
        chosen = filter_rows(chosen, table, name, value)
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


def _filter_end_users(chosen: Select[Any], query: UsageQuery, dialect: str) -> Select[Any]:
    wanted = (*query.end_users, query.end_user) if query.end_user else query.end_users
    return chosen.where(_read_end_user(dialect).in_(wanted)) if wanted else chosen


def _read_end_user(dialect: str) -> ColumnElement[str]:
    return func.coalesce(read_member(dialect, usage.c.details, "end_user"), "")


def _group_by(table: Table, part: _Part, name: str, dialect: str) -> ColumnElement[Any]:
    if name == "end_user":
        return _read_end_user(dialect)
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
        return func.sum(case((is_error(), 1), else_=0))
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
