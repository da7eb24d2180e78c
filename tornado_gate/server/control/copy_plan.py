"""What a copy of an SQLite file to PostgreSQL copies, and the sums by which it is verified. See `database_copy.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, func, select
from sqlalchemy.engine import Connection

from tornado_gate.database import tables
from tornado_gate.database.alert_tables import alert_messages, alerts
from tornado_gate.database.table_copy import CopiedTable
from tornado_gate.database.usage_tables import ALL_TOTALS, COUNTERS, usage
from tornado_gate.types.value import Value

ACCOUNTS: Final = (tables.organisations, tables.users, tables.teams, tables.team_members, tables.keys)
"""Tables that `opening.carry_over_accounts` copies."""
_USAGE_SUMS: Final = ("input_tokens", "output_tokens", "images", "cost")
_TOTAL_SUMS: Final = tuple(name for name in COUNTERS if name != "seconds")
"""Sums of whole numbers, which both databases compute exactly."""
_HAS_TEAM: Final = "(new.team IS NULL OR EXISTS (SELECT FROM teams WHERE id = new.team))"
_HAS_USER: Final = 'EXISTS (SELECT FROM users WHERE id = new."user")'
_HAS_MAKER: Final = (
    "(new.used IS NOT NULL OR new.created_by = 'command' OR EXISTS (SELECT FROM users WHERE id = new.created_by "
    "AND coalesce(password_changed, 0) <= new.created))"
)
"""An account with a new password may have another owner, and what was made before has ended (`accounts/takeover.py`)."""

Sums = dict[str, list[int]]
"""The number of rows and the sums of each table, by its name."""


class CopyPlan(Value, frozen=True, kw_only=True):
    """What was so when a copy began. It is stored in `meta`, so that a copy which continues has the same plan.

    `path` is that of the file. `done` is None until the copy is verified. `is_fresh`: the database had no accounts.
    `has_alerts`: it had alerts. `first_row` and `first_bucket` are the first that are kept; `last_row` and `last_event` are the
    newest request and event of the file. Totals are verified before `end_bucket`, because nodes add to later ones; None: all.
    `before` has the sums that the database had.
    """

    path: str
    began: float
    done: float | None = None
    is_fresh: bool
    has_alerts: bool
    first_row: str
    last_row: str
    last_event: int
    first_bucket: int
    end_bucket: int | None
    before: Sums


def list_rules(plan: CopyPlan) -> list[CopiedTable]:
    """Return the tables in the order in which they are copied.

    A database that has had accounts for some time gets no sessions and links, because they may have ended there.
    """
    maker = "true" if plan.is_fresh else _HAS_MAKER
    rules = [CopiedTable(table=tables.invitations, condition=f"{_HAS_TEAM} AND {maker}")]
    if plan.is_fresh:
        rules += [CopiedTable(table=table, condition=_HAS_USER) for table in (tables.sessions, tables.reset_links)]
        rules.append(CopiedTable(table=tables.limit_overrides))
    if not plan.has_alerts:
        rules += [CopiedTable(table=table) for table in (alerts, alert_messages)]
    rules.append(CopiedTable(table=tables.audit))
    rules += [CopiedTable(table=table, first=plan.first_bucket, added=COUNTERS) for table in ALL_TOTALS]
    return [*rules, CopiedTable(table=usage, first=plan.first_row)]


def measure_file(rows: Connection) -> Sums:
    """Return the sums of everything that may be copied."""
    others = (tables.invitations, tables.sessions, tables.reset_links, tables.limit_overrides, alerts, alert_messages)
    return {table.name: _measure(rows, table) for table in (*ACCOUNTS, *others, tables.audit, *ALL_TOTALS, usage)}


def measure_compared(connection: Connection, plan: CopyPlan) -> Sums:
    """Return the sums of the rows to which only the copy adds."""
    compared = (tables.audit, *ALL_TOTALS, usage)
    return {table.name: _measure(connection, table, _select_compared(table, plan)) for table in compared}


def count_copied(rows: Connection, rule: CopiedTable) -> int:
    """Return the number of rows of the file that a rule copies."""
    key: ColumnElement[Any] = next(iter(rule.table.primary_key.columns))
    return _measure(rows, rule.table, None if rule.first is None else key >= rule.first)[0]


def compare_sums(plan: CopyPlan, of_file: Sums, of_database: Sums) -> Iterator[str]:
    """Yield each difference between the sums of the database and those that it must have."""
    for name, before in plan.before.items():
        table = tables.METADATA.tables[name]
        for label, old, new, seen in zip(
            ("rows", *_get_sums(table)), before, of_file[name], of_database[name], strict=True
        ):
            is_joined = label == "rows" and table in ALL_TOTALS  # rows of the file are added to rows of the database
            if seen != old + new and not is_joined:
                yield f"{name}: {label} should be {old + new}, but are {seen}"


def _measure(connection: Connection, table: Table, condition: ColumnElement[bool] | None = None) -> list[int]:
    sums = [func.coalesce(func.sum(table.c[name]), 0) for name in _get_sums(table)]
    query = select(func.count(), *sums).select_from(table)
    row = connection.execute(query if condition is None else query.where(condition)).one()
    return [int(number) for number in row]


def _get_sums(table: Table) -> tuple[str, ...]:
    return _USAGE_SUMS if table is usage else _TOTAL_SUMS if table in ALL_TOTALS else ()


def _select_compared(table: Table, plan: CopyPlan) -> ColumnElement[bool]:
    if table is usage:
        return usage.c.id.between(plan.first_row, plan.last_row)
    if table is tables.audit:
        return table.c.id <= plan.last_event
    if plan.end_bucket is None:
        return table.c.bucket >= plan.first_bucket
    return table.c.bucket.between(plan.first_bucket, plan.end_bucket - 1)
