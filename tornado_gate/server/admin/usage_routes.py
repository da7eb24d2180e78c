"""/admin/v1/usage and /requests: sums of the usage ledger, and its rows."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from tornado_gate.codec.large_json import encode_json
from tornado_gate.database.engine import Database
from tornado_gate.errors import InvalidField, NotFound, RequestError
from tornado_gate.ledger.reports import GROUPS, Reports
from tornado_gate.ledger.request_search import LONGEST_TEXT, SCANNED_ROWS, RequestPage, RequestQuery, search_requests
from tornado_gate.ledger.rows import RequestRow, UsageQuery, UsageRow
from tornado_gate.server.admin.csv_cells import render_csv
from tornado_gate.server.admin.parameters import (
    PAGE,
    choice_parameter,
    flag_parameter,
    text_parameter,
    time_parameter,
)
from tornado_gate.server.admin.routing import AdminRequest, AdminRoute, Page, TextAnswer
from tornado_gate.server.admin.scope import EVERY, Scope
from tornado_gate.types import JsonSchema, RouteParameter
from tornado_gate.types.value import Value, replace

_TAG = "admin: usage"
USUAL_SECONDS = 30 * 86400
MOST_ROWS = 50_000
MOST_SHARED = 200
"""The maximum number of requests with one x-request-id that are read."""
COLUMNS = (
    *("requests", "errors", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
    *("reasoning_tokens", "images", "seconds", "cost_usd", "unpriced_requests", "known_cost_usd"),
)
"""The sums of a row. `cost_usd` is null when the price of any request is unknown; `known_cost_usd` is the cost of the others."""


class RequestView(Value, frozen=True, kw_only=True):
    """A request of the ledger. `id` is its own id. `request_id` is its x-request-id, which the caller may have chosen.

    `moment` is its end in Unix seconds. `model` is the requested name, `upstream_model` the model that served it.
    Counts of tokens are null where the upstream reported none; `estimated`: they are an estimate. `cached`: the
    response came from a cache of the gateway. `outcome` is `complete`, `broken`, `aborted` (the caller left), `refused`
    (4xx) or `failed` (5xx). `cost_usd` is null if the price is unknown. `body` is the beginning of the request's body
    where conf records bodies. `error_message` is the message that the caller received, `error_detail` advice for
    administrators and what the upstream said; a limited key reads no detail. `tokens_per_second` are output tokens.
    """

    id: str
    moment: float
    request_id: str
    key: str
    key_name: str
    account: str
    user: str
    team: str
    model: str
    upstream_model: str
    provider: str
    plugin: str
    operation: str
    format: str
    status: int
    error_code: str
    error_message: str
    error_detail: str
    outcome: str
    input_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    cache_write_1h_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    audio_input_tokens: int | None
    audio_output_tokens: int | None
    image_tokens: int | None
    image_output_tokens: int | None
    images: int
    seconds: float
    characters: int
    estimated: bool
    cached: bool
    first_byte_ms: float | None
    total_ms: float
    tokens_per_second: float | None
    attempts: int
    cost_usd: float | None
    tags: tuple[str, ...]
    end_user: str
    attribution: dict[str, str]
    body: str | None


def describe_request(row: RequestRow, scope: Scope) -> RequestView:
    """Return a row for a key with this scope."""
    view = RequestView(**{name: getattr(row, name) for name in RequestView.__struct_fields__})
    return replace(view, error_detail="") if scope.limitations - {"administration"} else view


def describe_usage(row: UsageRow) -> dict[str, Any]:
    """Return the group and the sums of a row as one object."""
    return {**row.group, **{name: getattr(row, name) for name in COLUMNS}}


async def get_usage(request: AdminRequest) -> msgspec.Raw | TextAnswer:
    query = _read_usage_query(request.query)
    return await request.run(_make_report, request.services.database, query, request.query["format"], request.scope)


def _make_report(database: Database, query: UsageQuery, form: str, scope: Scope) -> msgspec.Raw | TextAnswer:
    """Return the response as it is sent. Blocks: 50,000 rows take half a second. Raises InvalidField."""
    try:
        rows = _find_usage(database, query, scope)
    except ValueError as error:
        raise InvalidField("group_by", f"This report cannot be made: {error}.") from None
    if len(rows) > MOST_ROWS:
        message = f"This report has {len(rows)} rows; at most {MOST_ROWS} are sent. Narrow it by time or filters."
        raise InvalidField("group_by", message, code="too_many_values")
    if form == "csv":
        return TextAnswer(text=_render_csv(query, rows), media_type="text/csv; charset=utf-8", file_name="usage.csv")
    report = {"data": [describe_usage(row) for row in rows], "from": query.start, "to": query.end}
    return msgspec.Raw(encode_json(report))


def _find_usage(database: Database, query: UsageQuery, scope: Scope) -> list[UsageRow]:
    team = scope.narrow_team(query.team)
    if team is None:
        return []
    query = replace(query, team=team)
    if not scope.is_part:
        return Reports(database).usage(query)
    groups = tuple(dict.fromkeys((*query.group_by, "model", "operation")))
    return scope.select_usage(Reports(database).usage(replace(query, group_by=groups)), query.group_by)


def _read_usage_query(parameters: dict[str, Any] | Any) -> UsageQuery:
    end = time.time() if parameters["to"] is None else parameters["to"]
    start = end - USUAL_SECONDS if parameters["from"] is None else parameters["from"]
    if start >= end:
        raise InvalidField("from", "'from' must be before 'to'.")
    groups = tuple(dict.fromkeys(word.strip() for word in parameters["group_by"].split(",") if word.strip()))
    for word in groups:
        if word not in GROUPS:
            message = f"'group_by' may have {', '.join(GROUPS)}, separated by commas, not '{word[:50]}'."
            raise InvalidField("group_by", message)
    filters = {name: parameters[name] for name in (*_FILTER_NAMES, "end_user")}
    return UsageQuery(start=start, end=end, group_by=groups, status=parameters["status"] or 0, **filters)


def _render_csv(query: UsageQuery, rows: list[UsageRow]) -> str:
    names = (*query.group_by, *COLUMNS)
    shown = map(describe_usage, rows)
    return render_csv(names, ([row[name] for name in names] for row in shown))


async def list_requests(request: AdminRequest) -> Page[RequestView]:
    query = request.query
    limit, team = query["limit"], request.scope.narrow_team(query["team"])
    if team is None:
        return Page(data=())
    filters = {"team": team, **{name: query[name] for name in ("user", "key", "model", "request_id", *_SLOW_FILTERS)}}
    wanted = RequestQuery(
        start=query["from"],
        end=query["to"],
        before=_check_row_id(query["after"]),
        limit=limit,
        only_errors=bool(query["only_errors"]),
        status=query["status"] or 0,
        text=query["search"],
        **filters,
    )
    page: RequestPage = await request.run(search_requests, request.services.database, wanted)
    shown = tuple(describe_request(row, request.scope) for row in page.rows if request.scope.has_request(row))
    return Page(data=shown, next=page.next or None)


def _check_row_id(text: str) -> str | None:
    if text and not (len(text) <= 40 and all(character in "0123456789abcdef" for character in text)):
        raise InvalidField("after", "'after' must be 'next' of the previous page.")
    return text or None


async def get_request(request: AdminRequest) -> RequestView:
    """Return a request by its id or x-request-id. Several requests with one x-request-id are a conflict, because
    callers choose it.
    """
    reports = Reports(request.services.database)
    matches = await request.run(reports.find_requests, request.id, team=request.scope.team, limit=MOST_SHARED)
    rows = [row for row in matches if request.scope.has_request(row)]
    if not rows:
        message = "The ledger has no request with this id. Requests of the last seconds may be missing."
        raise NotFound(message, code="unknown_request")
    if len(rows) > 1:
        message = (
            "Several requests have this x-request-id, which callers may choose. List them with "
            f"GET /admin/v1/requests?request_id={request.id}, and ask for one by its 'id'."
        )
        raise RequestError(message, code="ambiguous_request_id", status=409)
    return describe_request(rows[0], request.scope)


_FILTER_NAMES = ("user", "team", "key", "model", "provider", "tag")
_SLOW_FILTERS = ("error_code", "operation", "tag", "end_user")
_STATUS = RouteParameter(
    name="status",
    description="Only requests with this HTTP status.",
    schema={"type": "integer", "minimum": 100, "maximum": 599},
)
_FILTERS = tuple(text_parameter(name, f"Only requests with this {name}.") for name in _FILTER_NAMES)
_END_USER = text_parameter("end_user", "Only requests with this end user.")
_SLOW_PARAMETERS = (
    text_parameter("error_code", "Only requests with this error code."),
    text_parameter("operation", "Only requests with this operation."),
    _END_USER,
    text_parameter(
        "search", "Only requests with this text in their id, model, end user or error message.", maxLength=LONGEST_TEXT
    ),
)
_SPAN = (time_parameter("from", "The begin."), time_parameter("to", "The end, which is not included."))
_SUM: JsonSchema = {"type": "integer", "minimum": 0}
_USAGE: JsonSchema = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "from": {"type": "number"},
        "to": {"type": "number"},
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "description": "The sums of a group, and a member for each name of `group_by`.",
                "required": list(COLUMNS),
                "properties": {
                    **{name: {"type": "string"} for name in GROUPS},
                    **dict.fromkeys(COLUMNS, _SUM),
                    "seconds": {"type": "number", "description": "Of video or sound."},
                    "cost_usd": {"type": ["number", "null"], "description": "Null when any price is unknown."},
                    "known_cost_usd": {"type": "number", "description": "Of the requests with a known price."},
                },
            },
        },
    },
}

ROUTES = [
    AdminRoute(
        method="GET", path="/usage", function=get_usage, tag=_TAG, limited=EVERY, answer=_USAGE, summary="Sum up the usage",
        description=f"Without `from`, 30 days. `group_by` is one or more of {', '.join(f'`{name}`' for name in GROUPS)}, "
        "separated by commas; days and hours are UTC. Requests of the last seconds may be missing.",
        parameters=(
            *_SPAN, text_parameter("group_by", "Names, separated by commas."), *_FILTERS, _END_USER, _STATUS,
            choice_parameter("format", "The format of the answer.", "json", "csv"),
        ),
        query_example={"from": "7d", "group_by": "day,model"},
    ),
    AdminRoute(
        method="GET", path="/requests", function=list_requests, tag=_TAG, limited=EVERY, answer=Page[RequestView],
        summary="List requests", description="Newest first. A page may be short and yet have a next one: of a limited key, "
        f"and with `status`, `search`, {', '.join(f'`{name}`' for name in _SLOW_FILTERS)}, for which {SCANNED_ROWS:,} requests "
        "are examined.",
        parameters=(
            *_SPAN, *(parameter for parameter in _FILTERS if parameter.name != "provider"), _STATUS,
            *_SLOW_PARAMETERS,
            text_parameter("request_id", "Only requests with this x-request-id. Callers may choose it."),
            flag_parameter("only_errors", "Only requests that were refused, failed or broke off."), *PAGE,
        ),
    ),
    AdminRoute(
        method="GET", path="/requests/{id}", function=get_request, tag=_TAG, limited=EVERY, answer=RequestView,
        summary="Show a request by its id or its x-request-id",
        description="Several requests with one x-request-id are a 409: ask for one by its `id`.",
    ),
]  # fmt: skip
