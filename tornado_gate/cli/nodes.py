"""tornado-gate nodes"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table
from tornado_gate.cli.users import open_accounts

if TYPE_CHECKING:
    from tornado_gate.server.control.nodes import NodeView

_HEADINGS = ["ID", "HOST", "STATE", "CODE", "CONF", "LAG", "STARTED (UTC)", "LAST SEEN (UTC)", "FAULT"]
_DIGEST = 12
"""The characters of a digest that are shown."""


@click.group(short_help="Show the gateways that share a database.")
def nodes() -> None:
    """Show the nodes: the gateways that share a PostgreSQL database.

    \b
      tornado-gate nodes list
      tornado-gate nodes list --conf postgresql://user:password@host/name
    """


@nodes.command("list", short_help="List the nodes with their versions.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_all(conf_file: Path | None, data_dir: Path | None, *, as_json: bool) -> None:
    """List the nodes, oldest first, with their versions of the code and of the configuration.

    \b
    STATE  silent: no sign of life for 15 s; after 10 minutes the node is not listed.
    CONF   the version in the database that the node uses, and in parentheses how many newer ones there are.
           For a configuration file: the beginning of the digest of its text.
    LAG    the seconds from the making of a version to its use; of a newer one, until now.
    FAULT  why the node does not use the newest version.

    \b
      tornado-gate nodes list --conf postgresql://user@host/gate
    """
    from tornado_gate.server.control.nodes import list_nodes

    with open_accounts(conf_file, data_dir) as (accounts, _):
        if accounts.database.is_file:
            exit_with_message(
                "nodes share a PostgreSQL database. Set `database` in the configuration: docs/deployment/nodes.md."
            )
        known_nodes = list_nodes(accounts.database)
    if as_json:
        rows = [{name: getattr(node, name) for name in node.__struct_fields__} for node in known_nodes]
        click.echo(json.dumps(rows, indent=2))
        return
    click.echo(format_table(_HEADINGS, [_make_row(node) for node in known_nodes]))


def _make_row(node: NodeView) -> list[str]:
    conf = node.conf_digest[:_DIGEST] if node.conf_version is None else str(node.conf_version)
    conf += f" ({node.behind} newer)" if node.behind else ""
    lag = "-" if node.lag_seconds is None else f"{node.lag_seconds:.2f} s"
    fault = node.fault.partition("\n")[0] or "-"
    times = [_format(node.started), _format(node.last_seen)]
    return [node.id, node.host, node.state, node.version, conf or "built-in", lag, *times, fault]


def _format(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))
