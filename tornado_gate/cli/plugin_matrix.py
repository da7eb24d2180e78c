"""tornado-gate plugins list --matrix: operations of providers by wire format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import format_table

if TYPE_CHECKING:
    from tornado_gate.config.model import Config
    from tornado_gate.hookspecs import Capabilities
    from tornado_gate.pipeline.support_matrix import SupportRow
    from tornado_gate.plugins.host import Plugin, PluginHost


def list_rows(host: PluginHost, plugins: Iterable[Plugin], config: Config) -> list[SupportRow]:
    """Return the rows of all working provider plugins: with their entries in conf, else with an entry of the defaults."""
    from tornado_gate.pipeline.support_matrix import list_support
    from tornado_gate.plugins.lanes import FormatLane

    usable = [plugin for plugin in plugins if not plugin.error and not plugin.wrapper]
    formats = [FormatLane(host, plugin, []) for plugin in usable if "format" in plugin.hooks]
    capabilities: dict[str, Capabilities] = {}
    for plugin in usable:
        if "provider" in plugin.hooks:
            capabilities |= _find_capabilities(host, plugin, config)
    return list_support(capabilities, formats)


def _find_capabilities(host: PluginHost, plugin: Plugin, config: Config) -> dict[str, Capabilities]:
    """Return the capabilities of each entry of the plugin, by the entry's name; {} if the plugin needs settings and has
    no entry.
    """
    from tornado_gate.config.model import ProviderConfig
    from tornado_gate.errors import ConfigError, GateError
    from tornado_gate.plugins.lanes import ProviderLane
    from tornado_gate.targets.configured_provider import configure_entry

    lane = ProviderLane(host, plugin, [])
    entries = [entry for entry in config.providers.values() if entry.plugin == plugin.name]
    default = ProviderConfig(name=plugin.name, plugin=plugin.name, base_url="http://localhost")
    capabilities = {}
    for entry in entries or [default]:
        try:
            capabilities[entry.name] = configure_entry(entry, lane)
        except (ConfigError, GateError):
            continue  # `tornado-gate check` reports it
    return capabilities


def echo_matrix(rows: list[SupportRow], *, as_json: bool) -> None:
    """Print the rows as a table, or as a JSON array."""
    if as_json:
        values = [{"provider": row.provider, "operation": row.operation, "formats": dict(row.cells)} for row in rows]
        click.echo(json.dumps(values, indent=2))
    else:
        click.echo(render_matrix(rows))


def render_matrix(rows: list[SupportRow]) -> str:
    """Render the rows as a table."""
    from tornado_gate.pipeline.support_matrix import WORDS

    formats = list(rows[0].cells) if rows else []
    cells = [[row.provider, row.operation, *(WORDS[row.cells[name]] for name in formats)] for row in rows]
    return format_table(["PROVIDER", "OPERATION", *(name.upper() for name in formats)], cells)


def render_markdown(rows: list[SupportRow]) -> str:
    """Render the rows as a table of Markdown."""
    from tornado_gate.pipeline.support_matrix import WORDS

    formats = list(rows[0].cells) if rows else []
    lines = [["provider", "operation", *formats], ["---"] * (2 + len(formats))]
    lines += [[row.provider, row.operation, *(WORDS[row.cells[name]] for name in formats)] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
