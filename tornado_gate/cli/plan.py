"""tornado-gate plan"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, find_conf_file, parse_path, verbose_option
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.config.model import Config


@click.command(short_help="Show what a reload with another configuration would change.")
@click.argument("file", metavar="FILE", callback=parse_path)
@conf_option
@verbose_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of text.")
def plan(file: Path, conf_file: Path | None, as_json: bool) -> None:
    """Show what changes if FILE replaces the configuration, and who is affected. Nothing is changed.

    \b
      tornado-gate plan new.yaml                    compared with conf/gate.yaml
      tornado-gate plan new.yaml --conf /etc/gate.yaml

    FILE is checked as by `tornado-gate check`; exit code 1 and all faults if a reload would refuse it. Lines begin with + for
    what is new, - for what ends, ~ for what changes. Values of secrets are not shown.
    """
    from tornado_gate import config as conf
    from tornado_gate.cli.plan_changes import list_changes
    from tornado_gate.config import source
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import Overrides, check_plugins, load_config

    old_file, new_file = find_conf_file(conf_file), find_conf_file(file)
    assert new_file is not None
    old = _load(old_file)
    try:
        new = load_config(new_file, Overrides(), os.environ)
        conf.check_lost_sections(old, new)
        check_plugins(new, PluginHost())
    except ConfigError as error:
        exit_with_faults(error, new_file, to_stdout=True)
    before = source.read(old_file).values if old_file else {}
    changes = list_changes(before, source.read(new_file).values, old, new)
    if as_json:
        click.echo(json.dumps([change.as_json() for change in changes], indent=2))
        return
    for change in changes:
        click.echo(change.format_text())
    if not changes:
        click.echo(f"{new_file} changes nothing")


def _load(path: Path | None) -> Config:
    from tornado_gate.server.process.process import Overrides, load_config

    try:
        return load_config(path, Overrides(), os.environ)
    except ConfigError as error:
        exit_with_faults(error, path)
