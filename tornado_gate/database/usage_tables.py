"""The tables of the usage ledger: one row for each request, and totals by hour and by day.

Ids of rows begin with the moment of their end (`ledger/rows.py`), so the order of ids is the order of time. Money is in
nano-dollars (1e-9 USD), times are Unix seconds.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, String, Table, Text

from tornado_gate.database.tables import METADATA

ID_CHARACTERS: Final = 24

usage = Table(
    "usage",
    METADATA,
    Column("id", String(ID_CHARACTERS), primary_key=True),  # begins with the end of the request
    Column("request_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("user", Text, nullable=False),  # "": the key has none
    Column("team", Text, nullable=False),
    Column("model", Text, nullable=False),  # the requested name; "": a route without a model
    Column("provider", Text, nullable=False),
    Column("operation", Text, nullable=False),
    Column("status", Integer, nullable=False),
    Column("outcome", String(20), nullable=False),  # complete, broken, aborted, refused, failed
    Column("input_tokens", BigInteger),  # with cached ones; none: not reported
    Column("cached_input_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),  # kept for 5 minutes
    Column("cache_write_1h_tokens", BigInteger),
    Column("output_tokens", BigInteger),  # with reasoning
    Column("reasoning_tokens", BigInteger),
    Column("images", Integer, nullable=False),
    Column("seconds", Double, nullable=False),  # of video or sound
    Column("cost", BigInteger),  # none: the price is unknown
    Column("tags", Text, nullable=False),  # a JSON list
    Column("details", Text, nullable=False),  # a JSON object: see `ledger/details.py`
    sqlite_with_rowid=False,
)
"""One row for each request of a known key. `errors` are requests whose outcome is broken, refused or failed.

Each column and each index has a cost for every request. Values that no report sums, groups or selects are therefore in
`details`.
"""

OTHER_ROWS: Final = "usage_other"
"""In PostgreSQL, `usage` has a partition for each month (`ledger/partitions.py`), and this one for all other rows."""

ERROR_OUTCOMES: Final = ("broken", "refused", "failed")

Index("ix_usage_request_id", usage.c.request_id)
Index("ix_usage_key", usage.c.key, usage.c.id)
Index("ix_usage_model", usage.c.model, usage.c.id)
# `opening.py` makes partial indexes in PostgreSQL too. Their definition here would import its dialect, 40 ms, even for
# SQLite.
for _name in ("user", "team"):
    _owned = usage.c[_name] != ""
    Index(f"ix_usage_{_name}", usage.c[_name], usage.c.id, sqlite_where=_owned)
_failed = usage.c.outcome.in_(ERROR_OUTCOMES)
Index("ix_usage_errors", usage.c.id, usage.c.model, sqlite_where=_failed)

OWNER_DIMENSIONS: Final = ("key", "user", "team")
SHARED_DIMENSIONS: Final = ("team", "model", "provider", "operation", "status")
ALL_DIMENSIONS: Final = ("key", "user", *SHARED_DIMENSIONS)

COUNTERS: Final = (
    "requests",
    "errors",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "images",
    "seconds",
    "cost",
    "unpriced_requests",
)
"""The sums of a row of totals. `cost` covers requests with a known price, `cache_write_tokens` every duration."""


def _define_totals(name: str, dimensions: tuple[str, ...]) -> Table:
    columns: list[Any] = [Column("bucket", BigInteger, primary_key=True, autoincrement=False)]
    columns += [Column(column, Integer if column == "status" else Text, primary_key=True) for column in dimensions]
    columns += [Column(column, Double if column == "seconds" else BigInteger, nullable=False) for column in COUNTERS]
    table = Table(name, METADATA, *columns, sqlite_with_rowid=False)
    for column in ("tag", "key", "user"):
        if column in dimensions:
            owned = table.c[column] != ""
            Index(f"ix_{name}_{column}", table.c[column], table.c.bucket, sqlite_where=owned)
    return table


TOTALS: Final = {
    (span, tagged, keyed): _define_totals(
        f"usage_{'tag_' if tagged else ''}{'key_' if keyed else ''}{span}",
        (("tag",) if tagged else ()) + (ALL_DIMENSIONS if keyed else SHARED_DIMENSIONS),
    )
    for span in ("hours", "days")
    for tagged in (False, True)
    for keyed in (False, True)
}
"""Totals by (span, tagged, keyed). `bucket` is the Unix second at which the hour or the day (UTC) begins.

The `keyed` tables have the dimensions key and user. The others are smaller, and serve reports about all keys. In the
`tagged` tables, a request with several tags counts once for each, and a request without a tag is absent.
"""

OWNER_DAYS: Final = _define_totals("usage_owner_days", OWNER_DIMENSIONS)
"""Totals by day, key, user and team only. With thousands of keys, the `keyed` tables have nearly as many rows as
requests.
"""
USER_DAYS: Final = _define_totals("usage_user_days", ("user", *SHARED_DIMENSIONS))
"""Totals by day without the key, for users with many keys."""

ALL_TOTALS: Final = (*TOTALS.values(), OWNER_DAYS, USER_DAYS)
