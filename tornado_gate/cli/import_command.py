"""tornado-gate import"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tornado_gate.cli.common import exit_with_message, parse_path

if TYPE_CHECKING:
    from tornado_gate.cli.importing.builder import ConfBuilder

F = TypeVar("F", bound=Callable[..., Any])

INCOMPLETE = 2
EXIT_CODES = (
    "Exit codes: 0 all was carried; 1 failed; 2 written, but something was not carried, or invalid command line."
)


@click.group("import", short_help="Write a configuration from that of another gateway.")
def import_() -> None:
    """Write a configuration from that of LiteLLM, new-api or one-api, Portkey, or Bifrost.

    \b
      tornado-gate import litellm config.yaml --output conf/gate.yaml
      tornado-gate import new-api one-api.db --output conf/gate.yaml
      tornado-gate import bifrost postgresql://user@host/bifrost --output conf/gate.yaml

    A source is a file, or the address of a database, which is only read. Do not write its password on the command line: for
    PostgreSQL it comes from PGPASSWORD or ~/.pgpass.

    Models, targets, keys, teams, budgets, limits and fallbacks are carried as far as the configuration can state them. Each other
    setting is listed with the reason and what to do. Exit code 0 if all was carried, 2 if something was not, 1 if the file could
    not be read. Next: set the environment variables that are listed, and run `tornado-gate check --conf FILE --online`.
    """


def _parse_source(context: click.Context, option: click.Parameter, value: str | None) -> Path | str | None:
    """Return an address of a database as a text, anything else as a path."""
    from tornado_gate.cli.importing.databases import is_address

    return value if value is not None and is_address(value) else parse_path(context, option, value)


def _parse_address(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    from tornado_gate.cli.importing.databases import is_address

    if value is not None and not is_address(value):
        raise click.BadParameter("must be an address such as postgresql://user:password@host:5432/name")
    return value


def _source_options(command: F) -> F:
    """Add FILE, --output and --force to the import of one source."""
    command = click.option("--force", is_flag=True, help="Replace existing files.")(command)
    command = click.option(
        "--output",
        metavar="FILE",
        callback=parse_path,
        help="Write the configuration to this file, readable by its owner only. Default: stdout, and the report on stderr.",
    )(command)
    return click.argument("source", metavar="FILE|ADDRESS", callback=_parse_source)(command)


_keys_option = click.option(
    "--keys",
    "keys_file",
    metavar="FILE",
    callback=parse_path,
    help="Write the keys of which only hashes are known to this file; `tornado-gate keys import` adds them.",
)


@import_.command("litellm", short_help="LiteLLM's config.yaml and its database.", epilog=EXIT_CODES)
@_source_options
@click.option(
    "--database", metavar="ADDRESS", callback=_parse_address, help="LiteLLM's database, with its keys and teams."
)
@_keys_option
def import_litellm(
    source: Path | str, output: Path | None, force: bool, database: str | None, keys_file: Path | None
) -> None:
    """Import LiteLLM's config.yaml: models with all deployments, weights and limits, fallbacks, aliases, and the master key.

    A value `os.environ/NAME` becomes `${NAME}`. Virtual keys are in the database, as hashes, with their teams, limits and
    budgets. They are written to a file of their own, and callers go on with the keys that they have:

    \b
      tornado-gate import litellm config.yaml --output conf/gate.yaml --database postgresql://user@host/litellm --keys keys.json
      tornado-gate keys import keys.json --conf conf/gate.yaml
    """
    from tornado_gate.cli.importing.files import read_yaml
    from tornado_gate.cli.importing.litellm import read_litellm
    from tornado_gate.cli.importing.litellm_accounts import read_litellm_database

    def read(source: Path | str) -> ConfBuilder:
        address = source if isinstance(source, str) else database
        conf = read_yaml(source) if isinstance(source, Path) else None
        return read_litellm(conf, None if address is None else read_litellm_database(address))

    _import(Target(output, keys_file, force), "LiteLLM", source, read)


@import_.command("new-api", short_help="The database of new-api or one-api.", epilog=EXIT_CODES)
@_source_options
def import_new_api(source: Path | str, output: Path | None, force: bool) -> None:
    """Import the database of new-api or one-api: channels, and the tokens of its users with their text.

    It is an SQLite file, or the address of a database in PostgreSQL or MySQL (mysql://user@host/name). A file may also be
    JSON with the members `channels`, `tokens` and `users`.

    \b
      tornado-gate import new-api one-api.db --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.new_api import read_new_api, read_new_api_tables

    _import(Target(output, None, force), "new-api", source, lambda source: read_new_api(read_new_api_tables(source)))


@import_.command("portkey", short_help="Configs of Portkey as JSON.", epilog=EXIT_CODES)
@_source_options
def import_portkey(source: Path | str, output: Path | None, force: bool) -> None:
    """Import a config of Portkey, a list of them, or {"configs": [...], "virtual_keys": [...]}.

    One config becomes the model `*`, because it applies to every model that a request names. Several configs become
    `SLUG/*` each. The key of a virtual key is not in a config: it becomes `${SLUG_API_KEY}`.

    \b
      tornado-gate import portkey config.json --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.files import read_json
    from tornado_gate.cli.importing.portkey import read_portkey

    def read(source: Path | str) -> ConfBuilder:
        if isinstance(source, str):
            exit_with_message("configs of Portkey are in no database; name a file with the answer of its API")
        return read_portkey(read_json(source))

    _import(Target(output, None, force), "Portkey", source, read)


@import_.command("bifrost", short_help="Bifrost's config.json, or its database.", epilog=EXIT_CODES)
@_source_options
@_keys_option
def import_bifrost(source: Path | str, output: Path | None, force: bool, keys_file: Path | None) -> None:
    """Import Bifrost: providers with their keys and models, virtual keys, teams, customers and budgets.

    FILE is its config.json, or the SQLite file of its config store; ADDRESS is that of a store in PostgreSQL. A value `env.NAME`
    becomes `${NAME}`. Models keep their names with the provider, such as `openai/gpt-4o`. Virtual keys that Bifrost has encrypted
    are written to the file of --keys by their hashes.

    \b
      tornado-gate import bifrost config.json --output conf/gate.yaml
    """
    from tornado_gate.cli.importing.bifrost import read_bifrost
    from tornado_gate.cli.importing.bifrost_store import read_bifrost_source

    read = lambda source: read_bifrost(read_bifrost_source(source))  # noqa: E731
    _import(Target(output, keys_file, force), "Bifrost", source, read)


class Target(NamedTuple):
    """What an import writes: the configuration, or None for stdout, and the file of keys."""

    output: Path | None
    keys_file: Path | None
    force: bool


def _import(target: Target, name: str, source: Path | str, read: Callable[[Path | str], ConfBuilder]) -> None:
    """Read the source, write the files and print the report."""
    from tornado_gate.cli.importing.databases import describe_source
    from tornado_gate.cli.importing.files import UnreadableSource
    from tornado_gate.cli.importing.verify import find_faults

    try:
        builder = read(source)
        described = source.name if isinstance(source, Path) else describe_source(source)
    except UnreadableSource as error:
        exit_with_message(str(error))
    if not (builder.models or builder.providers or builder.keys or builder.stored_keys):
        for line in builder.report.format_lines():
            click.echo(line, err=True)
        exit_with_message(f"{described} has no models, providers or keys to import; name the configuration of {name}")
    text = builder.format_text(f"{name}: {described}")
    output = target.output
    faults = find_faults(text, output or Path("gate.yaml"))
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text, target.force, "--output")
    _write_keys(builder, target)
    on_stderr = output is None
    for line in (*builder.report.format_lines(), *(f"repair before serving: {fault}" for fault in faults)):
        click.echo(line, err=on_stderr)
    variables = builder.list_variables()
    if variables:
        click.echo(f"set these environment variables: {', '.join(variables)}", err=on_stderr)
    counts = f"{len(builder.models)} models, {len(builder.providers)} providers, {len(builder.keys)} keys"
    click.echo(f"{output or 'the configuration'}: {counts}", err=on_stderr)
    if builder.stored_keys and target.keys_file:
        click.echo(
            f"{target.keys_file}: {len(builder.stored_keys)} keys; add them: tornado-gate keys import", err=on_stderr
        )
    if builder.report.losses or faults:
        raise SystemExit(INCOMPLETE)


def _write_keys(builder: ConfBuilder, target: Target) -> None:
    """Write the file of keys, or report that they are lost without one."""
    if target.keys_file is not None:
        _write(target.keys_file, builder.format_accounts(), target.force, "--keys")
    elif builder.stored_keys:
        text = "only their hashes are known, which conf cannot state; name a file for them with --keys"
        builder.report.lose(f"{len(builder.stored_keys)} keys", text)


def _write(output: Path, text: str, force: bool, option: str) -> None:
    """Write a file that only its owner can read. Exits with a message if it exists with content."""
    try:
        if output.exists() and not output.is_file():
            exit_with_message(f"{output} is not a file; name a file with {option}, or leave it out")
        if not force and output.exists() and output.stat().st_size:
            exit_with_message(f"{output} exists; name another file with {option}, or replace it with --force")
        opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(opened, "w", encoding="utf-8") as file:
            os.fchmod(opened, 0o600)
            file.write(text)
    except OSError as error:
        exit_with_message(f"{output} cannot be written: {error.strerror}")
