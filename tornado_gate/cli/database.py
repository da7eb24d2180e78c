"""tornado-gate database"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load, protect_storage

if TYPE_CHECKING:
    from tornado_gate.server.control.database_copy import CopyResult

REPORT_SECONDS: Final = 5.0
_HEADINGS: Final = ["TABLE", "ROWS READ", "ROWS WRITTEN"]


@click.group(short_help="Copy the file of one machine to PostgreSQL.")
def database() -> None:
    """Change from the SQLite file of one machine to the PostgreSQL database of several.

    \b
      tornado-gate database copy --conf conf/gate.yaml
    """


@database.command(short_help="Copy accounts, usage and the audit log.")
@conf_option
@data_dir_option
@click.option("--add", "adds", is_flag=True, help="Copy to a database that has the data of another gateway.")
def copy(conf_file: Path | None, data_dir: Path | None, *, adds: bool) -> None:
    """Copy gate.db of the data directory to the PostgreSQL database that the configuration names in `database`.

    Copied are accounts, teams, keys, invitations, sessions, links, temporary limits, alerts, the audit log and usage. The file
    must not be in use, and stays as it is. It is migrated first if it is of an earlier version. Nodes may serve meanwhile with
    the database.

    A copy that was interrupted, even by kill -9, is continued by the same command. Nothing is copied twice. At the end the
    numbers of rows and the sums of tokens and costs are compared. Exit code 1 if they differ.

    \b
      tornado-gate database copy --conf conf/gate.yaml
    """
    from tornado_gate.database.engine import Database, DatabaseError
    from tornado_gate.database.opening import migrate
    from tornado_gate.server.control.database_copy import CopyRefused, check_unused, copy_database

    _, config = load(conf_file, data_dir)
    if not config.database:
        exit_with_message("the configuration has no `database`. Set it to the PostgreSQL database to copy to.")
    protect_storage(config)
    began = time.monotonic()
    folder = config.server.data_dir
    try:
        with closing(Database(folder)) as source, closing(Database(folder, config.database)) as target:
            check_unused(source)
            migrate(source)
            migrate(target)
            try:
                result = copy_database(source, target, config.ledger, _Reporter().report, adds=adds)
            except DatabaseError as error:
                exit_with_message(f"{error} Run the command again to continue.")
            names = source.name, target.name
    except (CopyRefused, DatabaseError) as error:
        exit_with_message(str(error))
    _print_result(result, *names, time.monotonic() - began)


class _Reporter:
    """Prints the progress of each table: at its end, and every few seconds."""

    def __init__(self) -> None:
        self._began = self._printed = time.monotonic()
        self._name = ""
        self._read = 0

    def report(self, name: str, total: int, read: int) -> None:
        now = time.monotonic()
        if name != self._name:
            self._name, self._began, self._read = name, now, read
        if now - self._printed >= REPORT_SECONDS:
            rate = (read - self._read) / max(now - self._began, 0.001)
            click.echo(f"{name}: {read:,} of {total:,} rows, {rate:,.0f} rows/s", err=True)
            self._printed = now


def _print_result(result: CopyResult, source: str, target: str, seconds: float) -> None:
    if result.done_before is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(result.done_before))
        click.echo(f"{source} was copied to {target} on {when} UTC. Nothing is left to copy.", err=True)
        return
    rows = [[name, f"{copied.read:,}", f"{copied.written:,}"] for name, copied in result.copied.items()]
    click.echo(format_table(_HEADINGS, rows))
    if result.differences:
        for difference in result.differences:
            click.echo(difference, err=True)
        exit_with_message(f"{target} differs from {source}. Copy to a new database.")
    click.echo(f"{source} is copied to {target} in {seconds:.1f} s; numbers and sums are equal.", err=True)
