"""tornado-gate check"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, exit_with_faults, find_conf_file, verbose_option
from tornado_gate.config.faults import Fault
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.pipeline.snapshot import Snapshot
    from tornado_gate.plugins.host import PluginHost


@click.command(short_help="Check a configuration.")
@conf_option
@verbose_option
@click.option(
    "--online", is_flag=True, help="Also ask every provider, the database, Valkey and the bucket whether they work."
)
def check(conf_file: Path | None, online: bool) -> None:
    """Check a configuration without serving it.

    Exit code 0 if it is valid; otherwise 1, with one line per fault:

    \b
      FILE:LINE: KEY: what is wrong, what is allowed

    Plugins are imported, so that operations which a provider does not support are reported here and not at run time. A plugin
    that is on and cannot work is a fault too, although the gateway starts without it and answers 503 where it is needed. The
    same applies to a plugin that plugins.lock beside the file does not allow. The files of server.tls are read. Warnings name
    .pth files that run code at each start of Python.

    \b
      tornado-gate check --online        also ask every provider and engine

    With --online each provider that is on is asked for its models, for at most 20 s. A key that is refused, an address without an
    answer, and a model that the vendor does not have are faults. A provider whose plugin cannot list models gets a chat of a few
    tokens, which costs money. The database, the store of limits and the bucket that conf names are asked too; a bucket gets a
    small object, which is deleted. Nothing is created or migrated.
    """
    from tornado_gate.config import FileFaults
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import Overrides, check_plugins, load_certificate, load_config

    path = find_conf_file(conf_file)
    host = PluginHost()
    try:
        config = load_config(path, Overrides())
        load_certificate(config)
        snapshot = check_plugins(config, host)
    except ConfigError as error:
        exit_with_faults(error, path, to_stdout=True)
    for where, why in config.inactive:
        click.echo(f"note: {'.'.join(map(str, where))} is inactive: {why}")
    failed = host.load_deferred_modules()
    failed |= snapshot.plugins.failed
    if failed:
        faults: list[Fault] = [(("plugins", name), f"cannot work: {error}") for name, error in failed.items()]
        exit_with_faults(FileFaults(faults, path, config.lines), path, to_stdout=True)
    if online:
        _check_online(snapshot, path)
    _print_warnings(snapshot, host, path)
    models, providers = len(config.models), len(snapshot.targets.providers)
    click.echo(f"{path or 'the built-in configuration'}: valid; {models} models, {providers} providers")


def _print_warnings(snapshot: Snapshot, host: PluginHost, path: Path | None) -> None:
    from tornado_gate.config import describe
    from tornado_gate.plugins.path_files import find_path_files

    for fault in describe(snapshot.plugins.warnings, path, snapshot.config.lines):
        click.echo(f"warning: {fault}")
    for name, claim in host.foreign_claims.items():
        click.echo(f"warning: plugins.{name}: {claim}")
    for path_file in find_path_files():
        click.echo(f"warning: {path_file.describe()}")


def _check_online(snapshot: Snapshot, path: Path | None) -> None:
    """Ask every provider and engine. Print those that work; exit with the faults of the others."""
    from tornado_gate.cli.engine_check import check_engines
    from tornado_gate.cli.online_check import check_providers
    from tornado_gate.config import FileFaults, describe

    result = asyncio.run(check_providers(snapshot))
    for found in check_engines(snapshot.config):
        if isinstance(found, str):
            result.working.append(found)
        else:
            result.faults.append(found)
    for line in result.working:
        click.echo(line)
    for fault in describe(result.warnings, path, snapshot.config.lines):
        click.echo(f"warning: {fault}")
    if result.faults:
        exit_with_faults(FileFaults(result.faults, path, snapshot.config.lines), path, to_stdout=True)
