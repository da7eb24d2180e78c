"""tornado-gate plugins check"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import report_path_files

if TYPE_CHECKING:
    from tornado_gate.testing.conformance.report import PluginReport


@click.command("check", short_help="Drive an installed plugin through a gateway and report what works.")
@click.argument("names", metavar="NAME", nargs=-1)
@click.option("--all", "check_all", is_flag=True, help="Check every installed plugin.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of reports instead of text.")
def check_plugins(names: tuple[str, ...], check_all: bool, as_json: bool) -> None:
    """Drive installed plugins through a real gateway, and report what works: the conformance kit.

    A provider is asked for each of its operations in every installed wire format, whole and streamed, with faults of its
    upstream, callers who leave or do not read, and odd chunk borders. A format is driven in both lanes, a wrapper around
    both. No network, no key and no configuration is needed. docs/plugins/plugin-testing.md explains how a plugin ships the
    responses of its vendor.

    Exit code 1 if a plugin fails.

    \b
      tornado-gate plugins check openai
      tornado-gate plugins check --all
    """
    from tornado_gate.testing.conformance.run import list_names

    known = list_names()
    if check_all == bool(names):
        raise click.UsageError("Name the plugins to check, or give --all.")
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(
            f"no plugin '{unknown[0]}' is installed; installed: {', '.join(known)}", param_hint="NAME"
        )
    reports = [_check_plugin(name, silent=as_json) for name in (known if check_all else names)]
    report_path_files()
    if as_json:
        click.echo(json.dumps([report.describe() for report in reports], indent=2, ensure_ascii=False))
    if not all(report.passed for report in reports):
        raise SystemExit(1)


def _check_plugin(name: str, *, silent: bool) -> PluginReport:
    from tornado_gate.testing.conformance.report import render_report
    from tornado_gate.testing.conformance.run import check_plugin

    report = asyncio.run(check_plugin(name))
    if not silent:
        click.echo(render_report(report) + "\n")
    return report
