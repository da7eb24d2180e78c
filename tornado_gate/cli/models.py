"""tornado-gate models"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    exit_with_message,
    find_conf_file,
)
from tornado_gate.cli.conf_changes import load_file, write_change
from tornado_gate.errors import ConfigError

if TYPE_CHECKING:
    from tornado_gate.targets.configured_provider import ConfiguredProvider
    from tornado_gate.types import Target


@click.group(short_help="Show, add and remove models.")
def models() -> None:
    """Show the facts about the models in the configuration, add models, and remove them."""


@models.command("add", short_help="Add a model of a provider entry.")
@click.argument("name")
@click.option("--provider", required=True, metavar="P", help="The provider entry.")
@click.option("--model", metavar="M", help="The vendor's name of the model. Default: NAME.")
@conf_option
@data_dir_option
def add_model(name: str, provider: str, model: str | None, conf_file: Path | None, data_dir: Path | None) -> None:
    """Add the model NAME, as callers name it. With a * in NAME, the rest of the name goes upstream: 'openai/*'.

    \b
      tornado-gate models add fast --provider openai --model gpt-4o-mini
      tornado-gate models add 'openai/*' --provider openai
    """
    from tornado_gate.config.entry_edits import EntryAddition

    _, config = load_file(conf_file, data_dir)
    entry = {"provider": provider, **({"model": model} if model else {})}
    step = EntryAddition(section="models", name=name, entry=entry)
    write_change(config, "model.create", name, lambda _: [step], {})


@models.command("remove", short_help="Remove a model that nothing else needs.")
@click.argument("name")
@conf_option
@data_dir_option
def remove_model(name: str, conf_file: Path | None, data_dir: Path | None) -> None:
    """Remove the model NAME from the configuration file.

    \b
      tornado-gate models remove fast
    """
    from tornado_gate.config.entry_edits import EntryRemoval

    _, config = load_file(conf_file, data_dir)
    step = EntryRemoval(section="models", name=name)
    write_change(config, "model.delete", name, lambda _: [step], {})


@models.command("show", short_help="The targets of a model and what each accepts.")
@click.argument("name")
@conf_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of text.")
def show_model(name: str, conf_file: Path | None, as_json: bool) -> None:
    """Show the targets of the model NAME, as callers name it, and the facts by which translated requests are fitted to each.

    The facts are from the plugin's table of models and from `model_rules` of the provider entry; each row is listed with its
    source, in the order in which the rows apply. Unknown models get the facts of the newest family.

    \b
      tornado-gate models show gpt-4o
    """
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import Overrides, check_plugins, load_config

    path = find_conf_file(conf_file)
    try:
        config = load_config(path, Overrides())
        snapshot = check_plugins(config, PluginHost())
    except ConfigError as error:
        exit_with_faults(error, path)
    targets = [_describe_target(target, provider) for target, provider in snapshot.targets.list_targets(name)]
    if not targets:
        known = ", ".join(config.models) or "none"
        exit_with_message(f"no model '{name}' in {path or 'the built-in configuration'}; models there: {known}")
    click.echo(json.dumps(targets, indent=2) if as_json else "\n\n".join(map(_format_target, targets)))


def _describe_target(target: Target, provider: ConfiguredProvider) -> dict[str, Any]:
    table = provider.capabilities.model_table
    known = {"facts": {}, "rows": []} if table is None else table.explain(target.upstream_model)
    return {
        "model": target.model,
        "provider": target.provider,
        "plugin": target.plugin,
        "upstream_model": target.upstream_model,
        "operations": sorted(target.operations or ()),
        **known,
    }


def _format_target(target: dict[str, Any]) -> str:
    lines = [
        f"{target['provider']}: {target['upstream_model']} (plugin {target['plugin']})",
        f"  operations: {', '.join(target['operations']) or 'unknown'}",
    ]
    lines += [f"  {name}: {_format_value(value)}" for name, value in target["facts"].items()]
    lines += ["  rows:"] if target["rows"] else ["  rows: none; the plugin has no facts about this model"]
    for row in target["rows"]:
        lines += [f"    {', '.join(row['match'])}: {', '.join(row['facts'])}", f"      {row['source']}"]
    return "\n".join(lines)


def _format_value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case []:
            return "none"
        case list():
            return ", ".join(map(str, value))
        case _:
            return json.dumps(value) if isinstance(value, bool) else str(value)
