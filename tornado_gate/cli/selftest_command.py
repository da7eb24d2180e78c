"""tornado-gate selftest"""

from __future__ import annotations

import json

import click

from tornado_gate.cli.common import exit_with_message, format_table


@click.command(short_help="Call every route of a temporary gateway with the local provider.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def selftest(as_json: bool) -> None:
    """Start a temporary gateway with the embedded models, call every route, and print a table. Takes half a minute.

    It proves that this installation works: no account, no network and no configuration is needed, and nothing remains. The
    requests are the examples of /openapi.json. Exit code 1 if one fails.

    \b
      tornado-gate selftest
    """
    from tornado_gate.cli.selftest.checks import run_checks
    from tornado_gate.cli.selftest.gateway import NotStarted, start_gateway

    try:
        with start_gateway() as gateway:
            rows = list(run_checks(gateway))
    except NotStarted as error:
        exit_with_message(f"the temporary gateway has not started: {error}")
    if as_json:
        names = ("method", "route", "example", "seconds", "failure", "skipped")
        click.echo(json.dumps([{name: getattr(row, name) for name in names} for row in rows], indent=2))
    else:
        cells = [[row.method, row.route, row.example or "-", f"{row.seconds:.2f} s", row.result] for row in rows]
        click.echo(format_table(["METHOD", "ROUTE", "EXAMPLE", "TIME", "RESULT"], cells))
    failed, skipped = sum(bool(row.failure) for row in rows), sum(bool(row.skipped) for row in rows)
    click.echo(f"{len(rows) - failed - skipped} ok, {failed} failed, {skipped} skipped", err=as_json)
    if failed:
        raise SystemExit(1)
