"""tornado-gate providers"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    exit_with_message,
    format_table,
    load,
)
from tornado_gate.cli.conf_changes import load_file, read_secret, write_change
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.config.entry_edits import Step
    from tornado_gate.config.model import Config


@click.group(short_help="Add, change, test, list and remove accounts at vendors.")
def providers() -> None:
    """Add, change, test, list and remove provider entries: accounts at vendors.

    \b
      tornado-gate providers add openai --plugin openai --api-key-stdin < key.txt
      tornado-gate providers test openai
      tornado-gate providers set openai 'timeouts={total: 300}'
      tornado-gate models add gpt-4o --provider openai

    Changes are written to the configuration file, whose comments and order stay. A key goes to the encrypted store below the
    data directory. A running gateway uses the new file within seconds.
    """


@providers.command("add", short_help="Add a provider entry, and switch its plugin on.")
@click.argument("name")
@click.option("--plugin", required=True, metavar="P", help="The provider plugin.")
@click.option("--base-url", metavar="U", help="The address of the API. Default: the vendor's own.")
@click.option("--api-key-stdin", is_flag=True, help="Read the key from standard input.")
@click.option(
    "--setting", "settings", multiple=True, metavar="NAME=VALUE", help="A key of the entry, such as preset=deepseek."
)
@conf_option
@data_dir_option
def add_provider(
    name: str,
    plugin: str,
    base_url: str | None,
    api_key_stdin: bool,
    settings: tuple[str, ...],
    conf_file: Path | None,
    data_dir: Path | None,
) -> None:
    """Add the provider entry NAME. The change is checked, then written.

    \b
      tornado-gate providers add openai --plugin openai --api-key-stdin < key.txt
      tornado-gate providers add deepseek --plugin openai --setting preset=deepseek --api-key-stdin < key.txt
      tornado-gate providers add own --plugin openai --base-url http://10.0.0.7:8000/v1
    """
    from tornado_gate.config.entry_edits import EntryAddition

    path, config = load_file(conf_file, data_dir)
    entry = {"plugin": plugin, **_choose_settings(path, plugin, settings, base_url)}
    if base_url:
        entry["base_url"] = base_url
    if api_key_stdin:
        entry["api_key"] = read_secret()
    write_change(
        config,
        "provider.create",
        name,
        lambda members: [EntryAddition(section="providers", name=name, entry=members)],
        entry,
    )


def _choose_settings(path: Path, plugin: str, settings: tuple[str, ...], base_url: str | None) -> dict[str, Any]:
    """Return the given settings; without any, and without an address, those of the plugin's own vendor."""
    from tornado_gate.pipeline.vendors import find_vendor, list_vendors

    if not settings and not base_url:
        offer = find_vendor(list_vendors(path), plugin)
        return dict(offer.vendor.settings) if offer else {}
    return dict(_parse_setting(text, "--setting") for text in settings)


def _parse_setting(text: str, hint: str) -> tuple[str, Any]:
    from tornado_gate.config import source
    from tornado_gate.config.faults import FileFaults

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter("must be NAME=VALUE", param_hint=hint)
    try:
        return name, source.parse(value, Path("setting")).values
    except FileFaults as error:
        raise click.BadParameter(f"{name}: {error.faults[0][1]}", param_hint=hint) from None


@providers.command("set", short_help="Change a provider entry, such as its address or key.")
@click.argument("name")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--api-key-stdin", is_flag=True, help="Read the new key from standard input.")
@conf_option
@data_dir_option
def set_provider(
    name: str, settings: tuple[str, ...], api_key_stdin: bool, conf_file: Path | None, data_dir: Path | None
) -> None:
    """Change keys of the provider entry NAME. The change is checked, then written, and its diff is printed.

    \b
      tornado-gate providers set openai base_url=https://eu.api.openai.com/v1 --api-key-stdin < key.txt
      tornado-gate providers set openai 'timeouts={total: 300}' organization=null
      tornado-gate providers set openai --api-key-stdin < new-key.txt

    A value is YAML; null removes the key from the entry. An address at another scheme, host or port needs the API key again in
    the same command, because the stored one would be sent there.
    """
    from tornado_gate.config.entry_edits import EntryChange
    from tornado_gate.config.secret_moves import list_references

    members = dict(_parse_setting(text, "KEY=VALUE") for text in settings)
    if not members and not api_key_stdin:
        raise click.UsageError("Nothing to change: give KEY=VALUE or --api-key-stdin.")
    _, config = load_file(conf_file, data_dir)
    if api_key_stdin:
        members["api_key"] = read_secret()

    def make_steps(entry: Mapping[str, Any]) -> list[Step]:
        return [EntryChange(section="providers", name=name, members=entry, new_secrets=list_references(entry))]

    write_change(config, "provider.change", name, make_steps, members)


@providers.command("test", short_help="Test the connection, and print the vendor's models.")
@click.argument("name")
@click.option("--model", default="", metavar="M", help="The model of a short chat, if the plugin cannot list models.")
@conf_option
@data_dir_option
def test_provider(name: str, model: str, conf_file: Path | None, data_dir: Path | None) -> None:
    """Ask the vendor of the provider entry NAME for its models, and print their names. Exit code 1 if it refuses.

    \b
      tornado-gate providers test openai
    """
    from tornado_gate.pipeline.connection_tests import check_connection
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import check_plugins

    path, config = load(conf_file, data_dir)
    try:
        snapshot = check_plugins(config, PluginHost())
    except ConfigError as error:
        exit_with_faults(error, path)
    if name not in snapshot.targets.providers:
        known = ", ".join(snapshot.targets.providers) or "none"
        exit_with_message(f"no provider '{name}' that is on in {path or 'the built-in configuration'}; on: {known}")
    result = asyncio.run(check_connection(snapshot, name, model))
    if not result.ok:
        exit_with_message(result.message)
    click.echo(result.message, err=True)
    for listed in result.models:
        click.echo(listed.name)


@providers.command("list", short_help="List the provider entries.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_providers(conf_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """List the provider entries: plugin, address, whether a key is set, and the models that use them.

    \b
      tornado-gate providers list
    """
    _, config = load(conf_file, data_dir)
    rows = _list_rows(config)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    cells = [
        [
            row["name"],
            row["plugin"] or "-",
            row["base_url"] or "-",
            "set" if row["has_api_key"] else "-",
            row["state"],
            ", ".join([*row["models"][:5], *(["…"] if len(row["models"]) > 5 else [])]) or "-",
        ]
        for row in rows
    ]
    click.echo(format_table(["NAME", "PLUGIN", "BASE URL", "KEY", "STATE", "MODELS"], cells))


def _list_rows(config: Config) -> list[dict[str, Any]]:
    from tornado_gate.codec.secret_words import mask_address

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "plugin": entry.plugin,
            "base_url": mask_address(entry.base_url),
            "has_api_key": bool(entry.api_key),
            "state": "on",
            "models": [model.name for model in config.models.values() if name in {t.provider for t in model.targets}],
        }
        for name, entry in config.providers.items()
    ]
    off = [str(path[1]) for path, _ in config.inactive if path[0] == "providers" and len(path) == 2]
    empty = {"plugin": "", "base_url": "", "has_api_key": False, "state": "off", "models": []}
    return rows + [{"name": name, **empty} for name in off]


@providers.command("remove", short_help="Remove a provider entry that no model uses.")
@click.argument("name")
@conf_option
@data_dir_option
def remove_provider(name: str, conf_file: Path | None, data_dir: Path | None) -> None:
    """Remove the provider entry NAME. Its key is deleted after a month, so that the change can be reversed.

    \b
      tornado-gate providers remove openai
    """
    from tornado_gate.config.entry_edits import EntryRemoval

    _, config = load_file(conf_file, data_dir)
    step = EntryRemoval(section="providers", name=name)
    write_change(config, "provider.delete", name, lambda _: [step], {})
