"""Requests of the ledger, newest first, page by page, with filters.

Filters by time, key, user, team, model, id and failure use indexes. The other filters read rows one after the other, so a
page examines at most SCANNED_ROWS rows; `RequestPage.next` then leads to the older ones.
"""

from __future__ import annotations

from typing import Any, Final

import orjson
from sqlalchemy import JSON, ColumnElement, Row, Select, Table, cast, func, literal_column, or_, select, type_coerce
from sqlalchemy.engine import Connection

from tornado_gate.database.engine import Database
from tornado_gate.database.usage_tables import ERROR_OUTCOMES, usage
from tornado_gate.ledger.details import parse_details
from tornado_gate.ledger.rows import RequestRow, find_first_id, find_moment
from tornado_gate.types.value import Value

MOST_ROWS: Final = 1000
"""The maximum number of requests of one page."""
SCANNED_ROWS: Final = 50_000
"""The rows that a page examines at most for a filter without an index."""
LONGEST_TEXT: Final = 100


class RequestQuery(Value, frozen=True, kw_only=True):
    """The filters of a page. "", 0 and None filter nothing. `start` and `end` are Unix seconds, the end is excluded.

    `before` is `RequestPage.next` of the previous page, or the id of its last row; `after` is the id of a row that is older
    than the page. `text` is searched in the request id, the model, the end user and the error's message, without regard to the
    case of ASCII letters. The other texts must be equal.
    """

    limit: int = 50
    before: str | None = None
    after: str | None = None
    start: float | None = None
    end: float | None = None
    only_errors: bool = False
    user: str = ""
    team: str = ""
    key: str = ""
    model: str = ""
    request_id: str = ""
    operation: str = ""
    status: int = 0
    error_code: str = ""
    tag: str = ""
    end_user: str = ""
    key_name: str = ""
    text: str = ""


class RequestPage(Value, frozen=True, kw_only=True):
    """The rows of a page. `next` is `before` of the next page, "" if there is none.

    A page may be short, even empty, and yet have a next one: then it has examined SCANNED_ROWS rows.
    """

    rows: tuple[RequestRow, ...] = ()
    next: str = ""


def search_requests(database: Database, query: RequestQuery) -> RequestPage:
    """Return a page. Blocks. Raises DatabaseError."""
    limit = max(1, min(query.limit, MOST_ROWS))
    indexed = _select_indexed(query)
    with database.read() as connection:
        if not _has_slow_filter(query):
            rows = connection.execute(indexed.limit(limit + 1)).all()
            return RequestPage(
                rows=tuple(map(parse_request, rows[:limit])), next=rows[limit - 1].id if len(rows) > limit else ""
            )
        return _scan(connection, indexed, query, limit)


def _scan(connection: Connection, indexed: Select[Any], query: RequestQuery, limit: int) -> RequestPage:
    scanned = indexed.limit(SCANNED_ROWS).subquery("scanned")
    matching = select(scanned).where(*_list_slow_filters(connection.dialect.name, scanned.c, query))
    rows = connection.execute(matching.order_by(scanned.c.id.desc()).limit(limit + 1)).all()
    shown = tuple(map(parse_request, rows[:limit]))
    if len(rows) > limit:
        return RequestPage(rows=shown, next=shown[-1].id)
    number, oldest = connection.execute(select(func.count(), func.min(scanned.c.id)).select_from(scanned)).one()
    return RequestPage(rows=shown, next=oldest if number == SCANNED_ROWS else "")


def _select_indexed(query: RequestQuery) -> Select[Any]:
    column = usage.c.id
    chosen = select(usage).order_by(column.desc())
    for name in ("user", "team", "key", "model", "request_id"):
        chosen = filter_rows(chosen, usage, name, getattr(query, name))
    if query.start is not None:
        chosen = chosen.where(column >= find_first_id(query.start))
    if query.after:
        chosen = chosen.where(column > query.after)
    last = min(
        (row_id for row_id in (query.before, None if query.end is None else find_first_id(query.end)) if row_id),
        default="",
    )
    if last:
        chosen = chosen.where(column < last)
    return chosen.where(is_error()) if query.only_errors else chosen


def _has_slow_filter(query: RequestQuery) -> bool:
    return bool(
        query.operation
        or query.status
        or query.error_code
        or query.tag
        or query.end_user
        or query.key_name
        or query.text
    )


def _list_slow_filters(dialect: str, columns: Any, query: RequestQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.operation:
        conditions.append(columns.operation == query.operation)
    if query.status:
        conditions.append(columns.status == query.status)
    if query.tag:
        conditions.append(contains_text(dialect, columns.tags, orjson.dumps(_clean(query.tag)).decode()))
    for name in ("error_code", "end_user", "key_name"):
        if value := getattr(query, name):
            conditions.append(read_member(dialect, columns.details, name) == _clean(value))
    if query.text:
        text = _clean(query.text)[:LONGEST_TEXT].lower()
        members = [read_member(dialect, columns.details, name) for name in ("end_user", "error_message")]
        places = (columns.request_id, columns.model, *members)
        conditions.append(or_(*(contains_text(dialect, func.lower(place), text) for place in places)))
    return conditions


def read_member(dialect: str, details: Any, name: str) -> ColumnElement[str]:
    """Return a text of the details; NULL without it."""
    parsed = type_coerce(details, JSON) if dialect == "sqlite" else cast(details, JSON)
    member: ColumnElement[str] = parsed[name].as_string()
    return member


def contains_text(dialect: str, column: Any, text: str) -> ColumnElement[bool]:
    """Return whether a column contains a text, exactly. LIKE would ignore case in SQLite, and has wildcards."""
    position = func.instr if dialect == "sqlite" else func.strpos
    contains: ColumnElement[bool] = position(column, text) > 0
    return contains


def _clean(text: str) -> str:
    """Return a text that every database accepts."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def is_error() -> ColumnElement[bool]:
    """Return the condition for failed requests."""
    # The values stand in the text, so that both databases see that the partial index has all errors.
    return usage.c.outcome.in_([literal_column(f"'{outcome}'") for outcome in ERROR_OUTCOMES])


def filter_rows(query: Select[Any], table: Table, name: str, value: str | int) -> Select[Any]:
    """Add a condition. For a column that may be empty, the index omits empty values; the query must repeat that
    condition.
    """
    if not value:
        return query
    column = table.c[name]
    query = query.where(column == value)
    return query.where(column != literal_column("''")) if name in ("user", "team", "tag", "key") else query


def parse_request(row: Row[Any]) -> RequestRow:
    """Return the request in a row of the table `usage`."""
    values = dict(row._mapping)
    details = parse_details(values.pop("details"))
    tags = tuple(orjson.loads(values.pop("tags")))
    return RequestRow(**values, **details, moment=find_moment(row.id), tags=tags)
