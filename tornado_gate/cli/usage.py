"""tornado-gate usage"""

from __future__ import annotations

import csv
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load
from tornado_gate.cli.tasktexts import escape_unprintable

if TYPE_CHECKING:
    from tornado_gate.ledger.rows import UsageQuery, UsageRow

GROUPS: Final = ("key", "user", "team", "model", "provider", "operation", "status", "tag", "end_user", "day", "hour")
COLUMNS: Final = (
    *("requests", "errors", "input_tokens", "cached_input_tokens", "output_tokens"),
    *("cost_usd", "unpriced_requests", "known_cost_usd"),
)
USUAL_DAYS: Final = 30


def _parse_past(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return Unix seconds of ``7d`` (that long ago) or of a date or time in UTC."""
    from tornado_gate.codec.durations import parse_duration

    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        return time.time() - parse_duration(value)
    except ValueError:
        raise click.BadParameter(
            f"'{value}' is neither a duration such as 7d or 12h nor a date such as 2027-01-31 or 2027-01-31T13:00"
        ) from None


def _parse_groups(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(word.strip() for word in value.split(",") if word.strip())
    unknown = sorted(set(names) - set(GROUPS))
    if unknown or len(set(names)) < len(names):
        raise click.BadParameter(f"must be different names of {', '.join(GROUPS)}, separated by commas")
    return names


@click.command(short_help="Show what was used and what it cost.")
@conf_option
@data_dir_option
@click.option("--from", "start", callback=_parse_past, metavar="T", help="Begin: 7d, or a date (UTC). Default: 30d.")
@click.option("--to", "end", callback=_parse_past, metavar="T", help="End, not included. Default: now.")
@click.option(
    "--group-by", "groups", callback=_parse_groups, default="key", show_default=True, metavar="NAMES",
    help=f"One or more of {', '.join(GROUPS)}.",
)  # fmt: skip
@click.option("--status", type=click.IntRange(100, 599), metavar="CODE", help="Only requests with this HTTP status.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as GET /admin/v1/usage answers.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
def usage(
    conf_file: Path | None,
    data_dir: Path | None,
    start: float | None,
    end: float | None,
    groups: tuple[str, ...],
    status: int | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show requests, errors, tokens and cost by key, model, day or other groups.

    cost_usd is empty when the price of any request is unknown; unpriced_requests is their number.

    \b
      tornado-gate usage --from 2027-01-01 --to 2027-02-01 --group-by team,model
    """
    from tornado_gate.ledger.rows import UsageQuery

    now = time.time()
    begin = now - USUAL_DAYS * 86400 if start is None else start
    query = UsageQuery(start=begin, end=now if end is None else end, group_by=groups, status=status or 0)
    if query.start >= query.end:
        exit_with_message("the time of --from must be before that of --to")
    rows = [_describe_row(row) for row in _read_usage(conf_file, data_dir, query)]
    names = [*groups, *COLUMNS]
    if as_json:
        click.echo(json.dumps({"data": rows}, indent=2))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: _guard_formula(row[name]) for name in names} for row in rows])
    else:
        click.echo(
            format_table(
                [name.upper() for name in names], [[_format_value(row[name]) for name in names] for row in rows]
            )
        )


def _read_usage(conf_file: Path | None, data_dir: Path | None, query: UsageQuery) -> list[UsageRow]:
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import open_existing_database
    from tornado_gate.ledger.reports import Reports

    _, config = load(conf_file, data_dir)
    try:
        database = open_existing_database(config.server.data_dir, config.database)
        if database is None:
            return []
        click.get_current_context().call_on_close(database.close)
        return Reports(database).usage(query)
    except DatabaseError as error:
        exit_with_message(str(error))
    except ValueError as error:
        exit_with_message(f"this report cannot be made: {error}.")


def _describe_row(row: UsageRow) -> dict[str, Any]:
    return {**row.group, **{name: getattr(row, name) for name in COLUMNS}}


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return escape_unprintable(str(value)) or "-"


def _guard_formula(value: Any) -> Any:
    """Return the value of a cell without an exponent, and protected against use as a formula.

    Names of models and tags come from callers.
    """
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return _format_value(value) if isinstance(value, float) else value
