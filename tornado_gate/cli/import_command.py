"""tornado-gate import"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tornado_gate.cli.common import exit_with_message, parse_path

if TYPE_CHECKING:
    from tornado_gate.cli.importing.builder import ConfBuilder

F = TypeVar("F", bound=Callable[..., Any])

INCOMPLETE = 2


@click.group("import", short_help="Write a configuration from that of another gateway.")
def import_() -> None:
    """Write a configuration from that of LiteLLM, new-api or one-api, Portkey, or Bifrost.

    \b
      tornado-gate import litellm config.yaml --output conf/gate.yaml
      tornado-gate import new-api one-api.db --output conf/gate.yaml

    Models, targets, keys, teams, budgets, limits and fallbacks are carried as far as the configuration can state them. Each other
    setting is listed with the reason and what to do. Exit code 0 if all was carried, 2 if something was not, 1 if the file could
    not be read. Next: set the environment variables that are listed, and run `tornado-gate check --conf FILE --online`.
    """


def _source_options(command: F) -> F:
    """Add FILE, --output and --force to the import of one source."""
    command = click.option("--force", is_flag=True, help="Replace an existing file.")(command)
    command = click.option(
        "--output",
        metavar="FILE",
        callback=parse_path,
        help="Write the configuration to this file, readable by its owner only. Default: stdout, and the report on stderr.",
    )(command)
    return click.argument("source", metavar="FILE", callback=parse_path)(command)


@import_.command("litellm", short_help="LiteLLM's config.yaml.")
@_source_options
def import_litellm(source: Path, output: Path | None, force: bool) -> None:
    """Import LiteLLM's config.yaml: models with all deployments, weights and limits, fallbacks, aliases, and the master key.

    A value `os.environ/NAME` becomes `${NAME}`. Keys and teams in LiteLLM's database are not read.

    \b
      tornado-gate import litellm config.yaml --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.files import read_yaml
    from tornado_gate.cli.importing.litellm import read_litellm

    _import(source, output, force, "LiteLLM", read_yaml, read_litellm)


@import_.command("new-api", short_help="The SQLite database of new-api or one-api.")
@_source_options
def import_new_api(source: Path, output: Path | None, force: bool) -> None:
    """Import the SQLite database of new-api or one-api: channels, and the tokens of its users with their text.

    FILE may also be JSON with the members `channels`, `tokens` and `users`. Export a MySQL or PostgreSQL database to that first.

    \b
      tornado-gate import new-api one-api.db --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.files import read_tables
    from tornado_gate.cli.importing.new_api import read_new_api

    _import(source, output, force, "new-api", read_tables, read_new_api)


@import_.command("portkey", short_help="Configs of Portkey as JSON.")
@_source_options
def import_portkey(source: Path, output: Path | None, force: bool) -> None:
    """Import a config of Portkey, a list of them, or {"configs": [...], "virtual_keys": [...]}.

    One config becomes the model `*`, because it applies to every model that a request names. Several configs become
    `SLUG/*` each. The key of a virtual key is not in a config: it becomes `${SLUG_API_KEY}`.

    \b
      tornado-gate import portkey config.json --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.files import read_json
    from tornado_gate.cli.importing.portkey import read_portkey

    _import(source, output, force, "Portkey", read_json, read_portkey)


@import_.command("bifrost", short_help="Bifrost's config.json.")
@_source_options
def import_bifrost(source: Path, output: Path | None, force: bool) -> None:
    """Import Bifrost's config.json: providers with their keys and models, virtual keys, teams, customers and budgets.

    A value `env.NAME` becomes `${NAME}`. Models keep their names with the provider, such as `openai/gpt-4o`.

    \b
      tornado-gate import bifrost config.json --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.bifrost import read_bifrost
    from tornado_gate.cli.importing.files import read_json

    _import(source, output, force, "Bifrost", read_json, read_bifrost)


def _import(
    source: Path,
    output: Path | None,
    force: bool,
    name: str,
    read_file: Callable[[Path], Any],
    read_source: Callable[[Any], ConfBuilder],
) -> None:
    """Read the source, write the configuration and print the report."""
    from tornado_gate.cli.importing.files import UnreadableFile
    from tornado_gate.cli.importing.verify import find_faults

    try:
        builder = read_source(read_file(source))
    except UnreadableFile as error:
        exit_with_message(str(error))
    text = builder.format_text(f"{name}'s {source.name}")
    faults = find_faults(text, output or source.with_name("gate.yaml"))
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text, force)
    on_stderr = output is None
    for line in (*builder.report.format_lines(), *(f"repair before serving: {fault}" for fault in faults)):
        click.echo(line, err=on_stderr)
    variables = builder.list_variables()
    if variables:
        click.echo(f"set these environment variables: {', '.join(variables)}", err=on_stderr)
    counts = f"{len(builder.models)} models, {len(builder.providers)} providers, {len(builder.keys)} keys"
    click.echo(f"{output or 'the configuration'}: {counts}", err=on_stderr)
    if builder.report.losses or faults:
        raise SystemExit(INCOMPLETE)


def _write(output: Path, text: str, force: bool) -> None:
    """Write a file that only its owner can read. Exits with a message if it exists with content."""
    try:
        if output.exists() and not output.is_file():
            exit_with_message(f"{output} is not a file; name a file with --output, or leave it out for stdout")
        if not force and output.exists() and output.stat().st_size:
            exit_with_message(f"{output} exists; name another file with --output, or replace it with --force")
        opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(opened, "w", encoding="utf-8") as file:
            os.fchmod(opened, 0o600)
            file.write(text)
    except OSError as error:
        exit_with_message(f"{output} cannot be written: {error.strerror}")
