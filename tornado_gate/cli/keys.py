"""tornado-gate keys"""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from msgspec.structs import asdict

from tornado_gate.cli.common import (
    conf_option,
    data_dir_option,
    exit_with_faults,
    exit_with_message,
    format_table,
    load,
    protect_storage,
)
from tornado_gate.cli.tasktexts import escape_unprintable
from tornado_gate.errors import ConfigError
from tornado_gate.server.command_name import format_command

if TYPE_CHECKING:
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.config.model import Config

LONGEST_WORD = 200


@click.group(short_help="Create, list and revoke API keys.")
def keys() -> None:
    """Create, list and revoke API keys, which are stored hashed in the data directory.

    Changes take effect in running servers within a second. Keys can also be defined in the configuration, under `keys:`.
    """


def _open(conf_file: Path | None, data_dir: Path | None) -> tuple[KeyStore | None, Config]:
    """Return the key store, or None if there is none, and the configuration. Creates nothing.

    The store is closed when the command ends. Exits with a message if it cannot be opened.
    """
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import open_existing_database

    _, config = load(conf_file, data_dir)
    if os.path.isdir(config.server.data_dir):  # also False for a folder that may not be read
        protect_storage(config)
    try:
        database = open_existing_database(config.server.data_dir, config.database)
    except DatabaseError as error:
        exit_with_message(str(error))
    store = None if database is None else KeyStore(database)
    if store is not None:
        click.get_current_context().call_on_close(store.close)
    return store, config


def _exit_without_store(config: Config, conf_file: Path | None, data_dir: Path | None) -> NoReturn:
    from tornado_gate.storage.private import KEY_FILE

    create_command = format_command("keys create --name NAME", conf_file, data_dir)
    exit_with_message(
        f"there is no key store at {(config.server.data_dir / KEY_FILE).absolute()}. Name the gateway's folder with --data-dir, "
        f"or its configuration with --conf; `{create_command}` creates a store."
    )


def _parse_name(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.key_checks import check_name

    try:
        return None if value is None else check_name(value)
    except AccountError as error:
        raise click.BadParameter(error.message) from None


def _parse_expiry(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Return a duration or a date as Unix seconds."""
    from tornado_gate.codec.durations import parse_moment

    try:
        return None if value is None else parse_moment(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _parse_list(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the words of a comma-separated list. An empty one is refused: it would allow everything."""
    if value is None:
        return ()
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise click.BadParameter("has an empty entry; leave the option out to allow all")
    if not value.isprintable() or any(len(word) > LONGEST_WORD for word in words):
        raise click.BadParameter(f"must be names of up to {LONGEST_WORD} characters without control characters")
    return words


@keys.command(short_help="Create a key.")
@conf_option
@data_dir_option
@click.option("--name", callback=_parse_name, required=True, metavar="N", help="The owner or purpose of the key.")
@click.option(
    "--account",
    callback=_parse_name,
    metavar="A",
    help="Keys of one account share tasks and stored data. Default: a new account.",
)
@click.option(
    "--expires",
    "until",
    callback=_parse_expiry,
    metavar="D",
    help="Expiry: 30d, 12h, or a date such as 2027-01-31 (UTC). Default: never.",
)
@click.option(
    "--models",
    callback=_parse_list,
    metavar="GLOB,…",
    help="Allow only these models, e.g. 'local-*,gpt-4o'. Default: all.",
)
@click.option(
    "--operations",
    callback=_parse_list,
    metavar="OP,…",
    help="Allow only these operations, e.g. 'chat,embeddings'. Default: all.",
)
def create(
    conf_file: Path | None,
    data_dir: Path | None,
    name: str,
    account: str | None,
    until: float | None,
    models: tuple[str, ...],
    operations: tuple[str, ...],
) -> None:
    """Create a key and print it once. Only its hash is stored.

    Only the key is printed to stdout, so that a script can read it:

    \b
      KEY=$(tornado-gate keys create --name nightly --expires 30d --models 'local-*')
    """
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError

    path, config = load(conf_file, data_dir)
    _check_operations(path, config, operations)
    _warn_of_unmatched_globs(config, models)
    protect_storage(config)
    try:
        with closing(KeyStore.open(config.server.data_dir, config.database)) as store:
            key, stored = store.create(name, account=account, models=models, operations=operations, expires=until)
    except DatabaseError as error:
        exit_with_message(str(error))
    click.echo(f"{stored.id} created for '{name}' in {store.database.name}. The key is shown only once:", err=True)
    click.echo(key)


def _check_operations(path: Path | None, config: Config, operations: tuple[str, ...]) -> None:
    """Exit if an operation is unknown: the key could not be used for it."""
    if not operations:
        return
    from tornado_gate.config.faults import KnownNames
    from tornado_gate.gateway.conf_checks import list_operations
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process import check_plugins

    try:
        snapshot = check_plugins(config, PluginHost())
    except ConfigError as error:
        exit_with_faults(error, path)
    routes = [route for lane in snapshot.formats.values() for route in lane.routes]
    known = KnownNames(list_operations(routes, [provider.capabilities for provider in snapshot.providers.values()]))
    for operation in operations:
        if operation not in known:
            message = known.describe_unknown(f"operation '{operation}'", operation)
            raise click.BadParameter(message, param_hint="--operations")


def _warn_of_unmatched_globs(config: Config, globs: tuple[str, ...]) -> None:
    from tornado_gate.config.globs import globs_overlap

    for glob in globs:
        if not any(globs_overlap(glob, model) for model in config.models):
            click.echo(f"warning: '{glob}' matches no model of the configuration", err=True)


@keys.command("list", short_help="List keys, without the keys themselves.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_keys(conf_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """List all keys: ID, name, first characters, permissions and state. Times are UTC.

    Exit code 1 if the data directory has no key store; keys of the configuration are listed all the same.
    """
    from tornado_gate.database.engine import DatabaseError

    store, config = _open(conf_file, data_dir)
    try:
        rows = [_describe_stored_key(row) for row in map(asdict, store.list() if store is not None else ())]
    except DatabaseError as error:
        exit_with_message(str(error))
    rows += [_describe_conf_key(entry) for entry in config.keys]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif rows or store is not None:
        columns = ["id", "name", "key", "models", "operations", "created", "expires", "state"]
        cells = [
            [", ".join(row[c]) or "all" if isinstance(row[c], list) else row[c] or "-" for c in columns] for row in rows
        ]
        click.echo(format_table([column.upper() for column in columns], cells))
    if store is None:
        _exit_without_store(config, conf_file, data_dir)


def _describe_stored_key(row: dict[str, Any]) -> dict[str, Any]:
    now = time.time()
    state = "active"
    if row["revoked"]:
        state = "revoked"
    elif row["expires"] and row["expires"] <= now:
        state = "expired"
    return {
        "id": row["id"],
        "name": row["name"],
        "account": row["account"],
        "key": row["prefix"] + "…",
        "models": list(row["models"]),
        "operations": list(row["operations"]),
        "created": _format_time(row["created"]),
        "expires": _format_time(row["expires"]),
        "state": state,
    }


def _describe_conf_key(entry: Any) -> dict[str, Any]:
    return {
        "id": f"conf:{entry.name}",
        "name": entry.name,
        "account": entry.account,
        "key": "",
        "models": list(entry.models),
        "operations": list(entry.operations),
        "created": "",
        "expires": "",
        "state": "active",
    }


def _format_time(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) if seconds else ""


@keys.command(short_help="Revoke a key.")
@conf_option
@data_dir_option
@click.argument("id_", metavar="ID")
def revoke(conf_file: Path | None, data_dir: Path | None, id_: str) -> None:
    """Revoke a key, given the ID from `keys list`. Takes effect in every running server within a second."""
    from tornado_gate.database.engine import DatabaseError

    store, config = _open(conf_file, data_dir)
    shown = escape_unprintable(id_)
    if id_.startswith("conf:"):
        exit_with_message(f"{shown} is defined in the configuration; remove it from `keys:` there.")
    if store is None:
        _exit_without_store(config, conf_file, data_dir)
    try:
        known = id_.isascii() and store.revoke(id_)
    except DatabaseError as error:
        exit_with_message(str(error))
    if not known:
        hint = format_command("keys list", conf_file, data_dir)
        exit_with_message(f"there is no active key with the ID '{shown}'; `{hint}` lists all keys.")
    click.echo(f"{id_} is revoked in {store.database.name}.")
