"""tornado-gate limits"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from tornado_gate.cli.common import conf_option, data_dir_option, format_table
from tornado_gate.cli.users import open_accounts

_HEADINGS = ["ID", "SUBJECT", "BOUND", "CHANGE", "UNTIL (UTC)", "BY"]


@click.group(short_help="Change limits and budgets temporarily.")
def limits() -> None:
    """Change a limit or a budget until a moment. Changes take effect in running servers within a second.

    \b
      tornado-gate limits override team team_1a2b requests_per_minute --factor 2 --until 2h
      tornado-gate limits override model gpt-4o usd_per_day --value 500 --until 2026-12-24
      tornado-gate limits list
      tornado-gate limits end ID
    """


@limits.command(short_help="Change one bound of one subject.")
@conf_option
@data_dir_option
@click.argument("kind", type=click.Choice(["key", "user", "team", "model", "provider", "gateway"]))
@click.argument("subject")
@click.argument("bound")
@click.option("--value", type=float, metavar="N", help="The value until then; US dollars for money.")
@click.option("--factor", type=float, metavar="F", help="Multiply the bound that the subject has otherwise.")
@click.option("--until", required=True, metavar="T", help="A duration such as 2h, or a date.")
def override(
    conf_file: Path | None,
    data_dir: Path | None,
    kind: str,
    subject: str,
    bound: str,
    value: float | None,
    factor: float | None,
    until: str,
) -> None:
    """SUBJECT is the id of a key, user or team, or the name of a model or provider entry in conf; - for the gateway.

    \b
      tornado-gate limits override team team_1a2b requests_per_minute --factor 2 --until 2h
    """
    from tornado_gate.accounts.people import COMMAND
    from tornado_gate.codec.durations import parse_moment

    try:
        ends = parse_moment(until)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--until") from None
    with open_accounts(conf_file, data_dir, create=True) as (accounts, _):
        subject_name = "" if subject == "-" else subject
        made = accounts.limit_overrides.create(
            kind, subject_name, bound, COMMAND, value=value, factor=factor, until=ends
        )
        click.echo(made.id)


@limits.command("list", short_help="List the temporary limits.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_overrides(conf_file: Path | None, data_dir: Path | None, *, as_json: bool) -> None:
    """List the changes that have not ended, newest first.

    \b
      tornado-gate limits list
    """
    with open_accounts(conf_file, data_dir) as (accounts, _):
        overrides = accounts.limit_overrides.list_all()
    rows = [
        {
            "id": entry.id,
            "subject": f"{entry.kind} {entry.subject}".strip(),
            "bound": entry.bound,
            "change": f"x {entry.factor:g}" if entry.value is None else f"{entry.value:.15g}",
            "until": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(entry.until)),
            "by": f"{entry.created_by} (suspended: {entry.suspended})" if entry.suspended else entry.created_by,
        }
        for entry in overrides
    ]
    click.echo(json.dumps(rows, indent=2) if as_json else format_table(_HEADINGS, [list(row.values()) for row in rows]))


@limits.command(short_help="End a temporary limit before its time.")
@conf_option
@data_dir_option
@click.argument("identity", metavar="ID")
def end(conf_file: Path | None, data_dir: Path | None, identity: str) -> None:
    """End the change with an ID that `limits list` prints.

    \b
      tornado-gate limits end ID
    """
    from tornado_gate.accounts.people import COMMAND

    with open_accounts(conf_file, data_dir) as (accounts, _):
        accounts.limit_overrides.end(identity, COMMAND)
        click.echo(f"{identity} has ended.", err=True)
