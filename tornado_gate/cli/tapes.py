"""tornado-gate tapes"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load

if TYPE_CHECKING:
    from tornado_gate.tapes.store import TapeStore

_HEADINGS = ["ID", "TIME (UTC)", "MODEL", "STATUS", "OUTCOME", "BYTES", "WHY", "MARKS"]


@click.group(short_help="List, show and delete recorded requests.")
def tapes() -> None:
    """List, show and delete tapes: requests that were recorded on the wire, with or without a running server.

    The section `tapes` of the configuration says which requests are recorded. Tapes are in the data directory, and have the
    texts of requests and responses: run these commands as the user that the server runs as.

    \b
      tornado-gate tapes list
      tornado-gate tapes show tape_0006…  > weather.jsonl
      tornado-gate replay weather.jsonl
    """


@tapes.command("list", short_help="List the tapes, the newest first.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tapes(conf_file: Path | None, data_dir: Path | None, *, as_json: bool) -> None:
    """List the tapes that have not expired. Marks: `truncated`, and `withheld` if a guard has replaced a part of the response.

    \b
      tornado-gate tapes list
    """
    rows = _open_store(conf_file, data_dir).list_tapes()
    if as_json:
        click.echo(json.dumps([asdict(tape) for tape in rows], indent=2))
        return
    cells = [
        [
            *(tape.id, time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(tape.time)), tape.model, str(tape.status)),
            *(tape.outcome, str(tape.bytes), tape.reason),
            " ".join(name for name in ("truncated", "withheld") if getattr(tape, name)),
        ]
        for tape in rows
    ]
    click.echo(format_table(_HEADINGS, cells))


@tapes.command(short_help="Print a tape.")
@conf_option
@data_dir_option
@click.argument("identity", metavar="ID")
def show(conf_file: Path | None, data_dir: Path | None, identity: str) -> None:
    """Print the lines of the tape with an ID that `tapes list` prints. They are JSON: see docs/deployment/observability.md.

    \b
      tornado-gate tapes show ID > tape.jsonl
    """
    data = _open_store(conf_file, data_dir).read(identity)
    if data is None:
        exit_with_message(describe_unknown(identity))
    click.echo(data, nl=False)


@tapes.command(short_help="Delete a tape.")
@conf_option
@data_dir_option
@click.argument("identity", metavar="ID")
def delete(conf_file: Path | None, data_dir: Path | None, identity: str) -> None:
    """Delete the tape with an ID that `tapes list` prints.

    \b
      tornado-gate tapes delete ID
    """
    if not _open_store(conf_file, data_dir).delete(identity):
        exit_with_message(describe_unknown(identity))
    click.echo(f"{identity} is deleted.", err=True)


def describe_unknown(identity: str) -> str:
    """Return the message for a tape that does not exist."""
    return (
        f"there is no tape with the ID {identity[:60]!a}, or it has expired; `tornado-gate tapes list` lists all tapes."
    )


def _open_store(conf_file: Path | None, data_dir: Path | None) -> TapeStore:
    from tornado_gate.config.tapes import TapesConfig
    from tornado_gate.tapes.store import TapeStore

    _, config = load(conf_file, data_dir)
    return TapeStore(config.server.data_dir, (config.tapes or TapesConfig()).keep_seconds)
