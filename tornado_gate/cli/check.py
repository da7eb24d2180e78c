"""tornado-gate check"""

from __future__ import annotations

from pathlib import Path

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, find
from tornado_gate.errors import ConfigError


@click.command(short_help="Check a configuration.")
@conf_option
def check(conf_file: Path | None) -> None:
    """Check a configuration without serving it.

    Exit code 0 if it is valid; otherwise 1, with one line per fault:

    \b
      FILE:LINE: KEY: what is wrong, what is allowed

    Plugins are imported, so that operations which a provider does not support are reported here and not at run time.
    """
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process import Overrides, check_plugins, load_config

    path = find(conf_file)
    host = PluginHost()
    try:
        config = load_config(path, Overrides())
        snapshot = check_plugins(config, host)
    except ConfigError as error:
        exit_with_faults(error, path, to_stdout=True)
    for where, why in config.inactive:
        click.echo(f"note: {'.'.join(map(str, where))} is inactive: {why}")
    for plugin in host.plugins.values():
        if plugin.error:
            click.echo(f"note: plugin '{plugin.name}' failed: {plugin.error}; requests for its models get a 503")
    for name, fault in host.load_deferred_modules().items():
        click.echo(f"note: plugin '{name}' failed: {fault}; requests that need it get a 503")
    models, providers = len(config.models), len(snapshot.providers)
    click.echo(f"{path or 'the built-in configuration'}: valid; {models} models, {providers} providers")
