"""tornado-gate plugins"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    format_table,
    load,
    verbose_option,
)
from tornado_gate.cli.plugin_check import check_plugins
from tornado_gate.cli.plugin_lock import lock
from tornado_gate.cli.plugin_matrix import echo_matrix, list_rows
from tornado_gate.cli.plugin_new import new
from tornado_gate.errors import ConfigError, GateError

if TYPE_CHECKING:
    from tornado_gate.config.model import Config
    from tornado_gate.plugins.host import Plugin, PluginHost


@click.group(short_help="List installed plugins; write, check and lock them.")
def plugins() -> None:
    """List, write, check and lock plugins: providers, wire formats and wrappers.

    Install plugins with pip, and enable them in the configuration, under `plugins`.
    """


plugins.add_command(new)
plugins.add_command(lock)
plugins.add_command(check_plugins)


@plugins.command("list", short_help="Name, version, kind, state, hooks and operations of each.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
@verbose_option
@click.option("--matrix", is_flag=True, help="Show the operations of providers by wire format instead.")
def list_plugins(conf_file: Path | None, data_dir: Path | None, as_json: bool, matrix: bool) -> None:
    """List every installed plugin, enabled or not.

    A failed plugin is listed with its error: from its import by this command, or from a running server with the same data
    directory.

    \b
      tornado-gate plugins list
      tornado-gate plugins list --matrix      which provider has which operation
    """
    from tornado_gate.plugins import failure_log, running_versions
    from tornado_gate.plugins.discovery import describe_update
    from tornado_gate.plugins.host import PluginHost, make_absent_plugin

    path, config = load(conf_file, data_dir)
    host = PluginHost()
    try:
        host.use_lock(path)
    except ConfigError as error:
        exit_with_faults(error, path)
    noted, running = failure_log.read(config.server.data_dir), running_versions.read(config.server.data_dir)
    _choose_distributions(host, config, path)
    loaded = [host.load(name) for name in sorted(host.plugins)]
    faults = host.load_deferred_modules()
    for plugin in loaded:
        plugin.error = plugin.error or faults.get(plugin.name, "")
    loaded += [make_absent_plugin(name) for name, on in config.plugins.items() if on and name not in host.plugins]
    if matrix:
        echo_matrix(list_rows(host, loaded, config), as_json=as_json)
        return
    rows = [_describe_plugin(host, plugin, config, noted) for plugin in loaded]
    for row in rows:
        row["update"] = describe_update(running[row["name"]], row["version"]) if row["name"] in running else ""
    rows += _describe_others(host)
    rows.sort(key=lambda row: row["name"])
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = ["name", "version", "kind", "state", "hooks", "operations"]
    cells = [[", ".join(row[c]) if isinstance(row[c], list) else row[c] or "-" for c in columns] for row in rows]
    click.echo(format_table([column.upper() for column in columns], cells))
    for row in rows:
        for text in (row["error"], row["update"]):
            if text:
                click.echo(f"{row['name']}: {text}")


def _choose_distributions(host: PluginHost, config: Config, path: Path | None) -> None:
    """Apply the choice of conf between several distributions. Exits with the faults of a wrong choice."""
    for name, options in config.plugin_options.items():
        try:
            host.choose(name, options.distribution)
        except ConfigError as error:
            exit_with_faults(ConfigError([(("plugins", name, *at), message) for at, message in error.faults]), path)


def _describe_others(host: PluginHost) -> list[dict[str, Any]]:
    """Return the rows of plugins that are not used, because another distribution installs a plugin of the same name."""
    rows = []
    for name, candidates in host.installed.items():
        used = host.plugins[name]
        for other in candidates:
            if other.distribution != used.distribution:
                is_used = f"{used.distribution} is used, which installs a plugin of the same name"
                why = host.foreign_claims.get(name, "" if used.error else is_used)
                row = {"name": name, "distribution": other.distribution, "version": other.version, "kind": "unknown"}
                rows.append({**row, "state": "off", "hooks": [], "operations": [], "error": why, "update": ""})
    return rows


def _describe_plugin(host: PluginHost, plugin: Plugin, config: Config, noted: dict[str, Any]) -> dict[str, Any]:
    from tornado_gate.config.model import FIRST_PARTY_FORMATS

    on = config.plugins.get(plugin.name, plugin.name in FIRST_PARTY_FORMATS)
    error = plugin.error
    seen = noted.get(plugin.name)
    if not error and seen:
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seen["time"]))
        error = f"failed in a running server at {when}: {seen['error']}"
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "kind": plugin.kind or "unknown",
        "state": ("failed" if plugin.error else "on") if on else "off",
        "hooks": sorted({hook for names in plugin.hooks.values() for hook in names}),
        "operations": _list_operations(host, plugin, config),
        "error": error,
    }


def _list_operations(host: PluginHost, plugin: Plugin, config: Config) -> list[str]:
    """Return the operations of a plugin: from the routes of a format, or from the capabilities of a provider's entries."""
    from tornado_gate.plugins.lanes import FormatLane, ProviderLane
    from tornado_gate.targets.configured_provider import configure_entry

    if plugin.error or plugin.wrapper:
        return []
    operations: set[str] = set()
    try:
        if "format" in plugin.hooks:
            operations |= {route.operation for route in FormatLane(host, plugin, []).routes}
        if "provider" in plugin.hooks:
            lane = ProviderLane(host, plugin, [])
            entries = [entry for entry in config.providers.values() if entry.plugin == plugin.name]
            for entry in entries:
                operations |= configure_entry(entry, lane).operations
    except GateError as error:
        plugin.error = getattr(error, "detail", error.message)
    return sorted(operations)
