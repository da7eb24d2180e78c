"""tornado-gate conf"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, exit_with_message, format_table, parse_path
from tornado_gate.cli.conf_changes import make_actor
from tornado_gate.config.stored import StoredConf
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.database.engine import Database
    from tornado_gate.server.control.conf_push import Proposal

_HEADINGS = ["VERSION", "MADE (UTC)", "BY", "DIGEST", "MESSAGE"]
_BASE: Final = re.compile(r"\A# tornado-gate: configuration version (\d{1,12})\r?\n")
"""The first line of `conf show`, by which `conf push` knows the version that was edited."""
POLL_SECONDS = 0.1


@click.group(short_help="Keep the configuration of several nodes in their database.")
def conf() -> None:
    """Keep the configuration of several nodes in their PostgreSQL database, in versions that all nodes apply within a second.

    The option --conf, or TORNADO_GATE_CONF, is the address of the database: postgresql://user:password@host:5432/name.

    \b
      tornado-gate conf push gate.yaml -m "more models"    check, show the difference, make a version
      tornado-gate conf show > gate.yaml                   edit this file, and push it
      tornado-gate conf history                            who made which version
      tornado-gate conf rollback 11                        make a version with the text of version 11
    """


@conf.command(short_help="Make a new version.")
@click.argument("file", metavar="FILE", callback=parse_path)
@click.option("-m", "--message", default="", metavar="M", help="What the change is for. At most 500 characters.")
@click.option("--base", type=click.IntRange(0), metavar="N", help="The version that was edited. Default: see above.")
@click.option("--force", is_flag=True, help="Make the version even if a newer one than the base exists.")
@click.option("--dry-run", is_flag=True, help="Only check FILE and show the difference.")
@click.option("--wait", type=click.FloatRange(0, 600), default=5.0, metavar="S", help="Seconds to wait for the nodes.")
@conf_option
def push(
    file: Path,
    message: str,
    base: int | None,
    force: bool,
    dry_run: bool,
    wait: float,
    conf_file: Path | None,
) -> None:
    """Make FILE a new version, which all nodes apply.

    FILE is checked as by `tornado-gate check`, with the environment variables and plugins of this machine. If it is valid,
    the difference from the newest version is printed, without secrets. Exit code 1 and all faults otherwise.

    FILE must not have secrets in clear: write ${VAR}, or ${secret:NAME} with `tornado-gate secrets set`. It must not have
    `database` and `server.data_dir`.

    If somebody has made another version since the base, the push is refused. The base is the version in the first line of
    FILE, which `conf show` writes; without this line it is the version whose difference is shown.

    \b
      tornado-gate conf push gate.yaml -m "more models"
      tornado-gate conf push gate.yaml --dry-run
    """
    where = _get_database(conf_file)
    if file.exists() and not file.is_file():  # a device or a pipe may have no end
        exit_with_message(f"{file} is not a file; name the file with the configuration")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        exit_with_message(f"{file} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        exit_with_message(f"{file} has a byte that is not UTF-8; save the file as UTF-8")
    if (first := _BASE.match(text)) is not None:
        text, base = text[first.end() :], int(first[1]) if base is None else base
    proposal = _prepare(where, text, str(file))
    if not force and base is not None and base != proposal.base:
        exit_with_message(
            f"the newest version is {proposal.base}, and the change is for version {base}. "
            "Edit the newest one (conf show), or add --force."
        )
    _apply(where, proposal, "conf.push", message, dry_run=dry_run, wait=wait)


@conf.command(short_help="Make a version with an earlier text.")
@click.argument("version", type=click.IntRange(1))
@click.option("-m", "--message", default="", metavar="M", help="Why. At most 500 characters.")
@click.option("--wait", type=click.FloatRange(0, 600), default=5.0, metavar="S", help="Seconds to wait for the nodes.")
@conf_option
def rollback(version: int, message: str, wait: float, conf_file: Path | None) -> None:
    """Make a new version with the text of VERSION. It is checked as by `conf push`.

    \b
      tornado-gate conf rollback 11 -m "the new models fail"
    """
    where = _get_database(conf_file)
    old = _read(where, version)
    proposal = _prepare(where, old.text, str(old))
    _apply(where, proposal, "conf.rollback", message or f"rollback to version {version}", dry_run=False, wait=wait)


@conf.command(short_help="Print a version.")
@click.argument("version", type=click.IntRange(1), required=False)
@conf_option
def show(version: int | None, conf_file: Path | None) -> None:
    """Print the text of VERSION; without VERSION, that of the newest one. The first line is a comment with its number.

    \b
      tornado-gate conf show > gate.yaml
    """
    stored = _read(_get_database(conf_file), version)
    click.echo(
        f"# tornado-gate: configuration version {stored.number}\n{stored.text}", nl=not stored.text.endswith("\n")
    )


@conf.command(short_help="List the versions.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@conf_option
def history(conf_file: Path | None, *, as_json: bool) -> None:
    """List the versions that are kept, newest first: the last 200.

    \b
      tornado-gate conf history
    """
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.control.conf_versions import list_versions, open_conf_database

    try:
        with open_conf_database(_get_database(conf_file).address) as database:
            versions = list_versions(database)
    except DatabaseError as error:
        exit_with_message(str(error))
    if as_json:
        click.echo(
            json.dumps([{name: getattr(row, name) for name in row.__struct_fields__} for row in versions], indent=2)
        )
        return
    rows = [
        [
            str(version.number),
            time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(version.made)),
            version.made_by,
            version.digest[:12],
            version.message,
        ]
        for version in versions
    ]
    click.echo(format_table(_HEADINGS, rows))


def _get_database(conf_file: Path | None) -> StoredConf:
    """Return the database of --conf. Exits with a message for a file."""
    if isinstance(conf_file, StoredConf):
        return conf_file
    exit_with_message("name the database with --conf postgresql://… or TORNADO_GATE_CONF; a file has no versions.")


def _read(where: StoredConf, version: int | None) -> StoredConf:
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.control.conf_versions import open_conf_database, read_conf

    try:
        with open_conf_database(where.address) as database:
            stored = read_conf(database, where.address, version)
    except DatabaseError as error:
        exit_with_message(str(error))
    if stored is None:
        exit_with_message("there is no such version. `conf history` lists the versions.")
    return stored


def _prepare(where: StoredConf, text: str, name: str) -> Proposal:
    """Return the checked proposal. Exits with all faults."""
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.control.conf_push import prepare_text

    try:
        return prepare_text(where, text, name)
    except ConfigError as error:
        exit_with_faults(error, Path(name), to_stdout=True)
    except DatabaseError as error:
        exit_with_message(str(error))


def _apply(where: StoredConf, proposal: Proposal, action: str, message: str, *, dry_run: bool, wait: float) -> None:
    """Print the difference, make the version, and report which nodes use it. Exits with a message if the base has moved."""
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.server.control.conf_push import make_version
    from tornado_gate.server.control.conf_versions import BaseMoved, open_conf_database

    click.echo(proposal.diff or "Nothing changes.")
    for note in proposal.notes:
        click.echo(f"note: {note}", err=True)
    if dry_run or not proposal.diff:
        return
    try:
        with open_conf_database(where.address) as database:
            number = make_version(where, database, proposal, make_actor(), action, message)
            click.echo(f"version {number} is made.", err=True)
            _report_nodes(database, number, wait)
    except BaseMoved as error:
        exit_with_message(f"somebody has made version {error.newest} meanwhile. Push again.")
    except DatabaseError as error:
        exit_with_message(str(error))


def _report_nodes(database: Database, number: int, seconds: float) -> None:
    """Print for each node whether it uses the version, after all do or refuse it, or after `seconds`."""
    from tornado_gate.server.control.nodes import list_nodes

    ends = time.monotonic() + seconds
    while True:
        nodes = [node for node in list_nodes(database) if node.state == "serving" and node.conf_version is not None]
        waiting = [node for node in nodes if (node.conf_version or 0) < number and node.refused_version != number]
        if not waiting or time.monotonic() >= ends:
            break
        time.sleep(POLL_SECONDS)
    for node in nodes:
        name = f"node {node.id} at {node.host}"
        if node.refused_version == number:
            click.echo(f"warning: {name} cannot use it and keeps version {node.conf_version}: {node.fault}", err=True)
        elif node in waiting:
            click.echo(f"warning: {name} still uses version {node.conf_version}", err=True)
        else:
            click.echo(f"{name} uses it after {node.lag_seconds or 0:.2f} s", err=True)
