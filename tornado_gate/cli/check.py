"""tornado-gate check"""

from __future__ import annotations

from pathlib import Path

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, find
from tornado_gate.errors import ConfigError


@click.command(short_help="Check a configuration.")
@conf_option
def check(conf_file: Path | None) -> None:
    """Say whether a configuration is right, without serving it.

    Exit code 0 when it is; else 1, with every fault on a line of its own:

    \b
      FILE:LINE: KEY: what is wrong, what is allowed

    Plugins are imported, so that what a provider cannot do is found here and not at run time.
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
        click.echo(f"note: {'.'.join(map(str, where))} is off: {why}")
    for plugin in host.plugins.values():
        if plugin.error:
            click.echo(f"note: plugin '{plugin.name}' failed: {plugin.error}; its models will answer 503")
    for name, fault in host.load_deferred_modules().items():
        click.echo(f"note: plugin '{name}' failed: {fault}; requests that need it will answer 503")
    models, providers = len(config.models), len(snapshot.providers)
    click.echo(f"{path or 'the built-in configuration'}: fine; {models} models at {providers} providers")
