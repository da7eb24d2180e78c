"""tornado-gate keys"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
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
from tornado_gate.cli.conf_changes import make_actor
from tornado_gate.cli.key_import import import_keys
from tornado_gate.cli.key_options import (
    bound_options,
    parse_checked_list,
    parse_expiry,
    parse_list,
    parse_name,
    parse_overlap,
    take_bounds,
)
from tornado_gate.cli.tasktexts import escape_unprintable
from tornado_gate.errors import ConfigError
from tornado_gate.server.process.command_name import format_command

if TYPE_CHECKING:
    from tornado_gate.accounts.keys import KeyStore, StoredKey
    from tornado_gate.config.model import Config, KeyEntry


@click.group(short_help="Create, list, rotate and revoke API keys.")
def keys() -> None:
    """Create, list, rotate and revoke API keys, which are stored hashed in the data directory.

    Changes take effect in running servers within a second. Keys can also be defined in the configuration, under `keys:`.
    """


keys.add_command(import_keys)


def _open_store(conf_file: Path | None, data_dir: Path | None) -> tuple[KeyStore | None, Config]:
    """Return the key store, or None without one, and the configuration. Creates no file.

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


@keys.command(short_help="Create a key.")
@conf_option
@data_dir_option
@click.option("--name", callback=parse_name, required=True, metavar="N", help="The owner or purpose of the key.")
@click.option(
    "--account",
    callback=parse_name,
    metavar="A",
    help="Keys of one account share tasks and stored data. Default: a new account.",
)
@click.option(
    "--expires",
    "expires",
    callback=parse_expiry,
    metavar="D",
    help="Expiry: 90s, 5m, 2h, 30d, 1w, or a date such as 2027-01-31 (UTC). Default: never.",
)
@click.option(
    "--models",
    callback=parse_checked_list,
    metavar="GLOB,…",
    help="Allow only these models, e.g. 'local-*,gpt-4o'. Default: all.",
)
@click.option(
    "--operations",
    callback=parse_list,
    metavar="OP,…",
    help="Allow only these operations, e.g. 'chat,embeddings'. Default: all.",
)
@click.option(
    "--addresses",
    callback=parse_checked_list,
    metavar="NET,…",
    help="Allow only these addresses, e.g. '10.1.0.0/16,192.0.2.7'. Default: all.",
)
@click.option("--tags", callback=parse_checked_list, metavar="TAG,…", help="Tags of the key's usage.")
@click.option("--user", metavar="EMAIL", help="The owner, who sees the key in the console. Default: nobody.")
@click.option("--team", metavar="T", help="The name or ID of the team whose budget and limits apply too.")
@click.option("--role", type=click.Choice(["member", "administrator"]), default="member", show_default=True)
@bound_options
def create(conf_file: Path | None, data_dir: Path | None, name: str, **options: Any) -> None:
    """Create a key and print it once. Only its hash is stored.

    Only the key is printed to stdout, so that a script can read it:

    \b
      KEY=$(tornado-gate keys create --name nightly --expires 30d --models 'local-*' --limit requests=60/m --budget 5/d)
    """
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError

    take_bounds(options)
    path, config = load(conf_file, data_dir)
    _check_operations(path, config, options["operations"])
    _warn_of_unmatched_globs(config, options["models"])
    protect_storage(config)
    try:
        with closing(KeyStore.open(config.server.data_dir, config.database)) as store:
            options |= store.find_owner(options.pop("user"), options.pop("team"), role=options["role"])
            key, stored = store.create(name, **options, actor=make_actor())
    except (AccountError, DatabaseError) as error:
        exit_with_message(str(error))
    click.echo(f"{stored.id} created for '{name}' in {store.database.name}. The key is shown only once:", err=True)
    click.echo(key)


def _check_operations(path: Path | None, config: Config, operations: tuple[str, ...]) -> None:
    """Exit if an operation is unknown: the key could not be used for it."""
    if not operations:
        return
    from tornado_gate.config.faults import KnownNames
    from tornado_gate.pipeline.conf_checks import list_operations
    from tornado_gate.plugins.host import PluginHost
    from tornado_gate.server.process.process import check_plugins

    try:
        snapshot = check_plugins(config, PluginHost())
    except ConfigError as error:
        exit_with_faults(error, path)
    routes = [route for lane in snapshot.formats.values() for route in lane.routes]
    known = KnownNames(
        list_operations(routes, [provider.capabilities for provider in snapshot.targets.providers.values()])
    )
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

    \b
      tornado-gate keys list
      tornado-gate keys list --json
    """
    from tornado_gate.database.engine import DatabaseError

    store, config = _open_store(conf_file, data_dir)
    try:
        stored = store.list() if store is not None else ()
        owners = store.name_owners(stored) if store is not None else {}
        suspensions = store.find_suspensions(stored) if store is not None else {}
    except DatabaseError as error:
        exit_with_message(str(error))
    now = time.time()
    rows = [_describe_stored_key(key, owners, suspensions, now) for key in stored] + [
        _describe_conf_key(key) for key in config.keys
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif rows or store is not None:
        columns = ["id", "name", "owner", "key", "models", "operations", "created", "last_used", "expires", "state"]
        cells = [[_format_cell(row[column], column) for column in columns] for row in rows]
        click.echo(format_table([column.upper().replace("_", " ") for column in columns], cells))
    if store is None:
        _exit_without_store(config, conf_file, data_dir)


def _format_cell(value: Any, column: str) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "all"
    return str(value or ("never" if column == "last_used" else "-"))


def _describe_stored_key(
    key: StoredKey, owners: Mapping[str, str], suspensions: Mapping[str, str], now: float
) -> dict[str, Any]:
    reason = suspensions.get(key.id)
    return {
        "id": key.id,
        "name": key.name,
        "account": key.account,
        "owner": owners.get(key.user or "", ""),
        "team": owners.get(key.team or "", ""),
        "role": key.role,
        "key": key.prefix + "…",
        "models": list(key.models),
        "operations": list(key.operations),
        "addresses": list(key.addresses),
        "tags": list(key.tags),
        "limits": dict(key.limits),
        "budget": dict(key.budget),
        "created": _format_time(key.created),
        "created_by": key.created_by,
        "last_used": _format_time(key.last_used),
        "expires": _format_time(key.expires),
        "revoked": _format_time(key.revoked),
        "replaced_by": key.replaced_by or "",
        "issued_by": key.issued_by or "",
        "state": f"suspended: {reason}" if reason else key.get_state(now),
    }


def _describe_conf_key(entry: KeyEntry) -> dict[str, Any]:
    limits = {
        name: getattr(entry, name) for name in ("requests_per_minute", "tokens_per_minute", "concurrent_requests")
    }
    return {
        "id": f"conf:{entry.name}",
        "name": entry.name,
        "account": entry.account,
        "owner": "",
        "team": entry.team,
        "role": entry.role,
        "key": "",
        "models": list(entry.models),
        "operations": list(entry.operations),
        "addresses": list(entry.addresses),
        "tags": list(entry.tags),
        "limits": {name: value for name, value in limits.items() if value is not None},
        "budget": {name: value for name, value in asdict(entry.budget).items() if value is not None},
        "created": "",
        "created_by": "conf",
        "last_used": "",
        "expires": "",
        "revoked": "",
        "replaced_by": "",
        "issued_by": "",
        "state": "active",
    }


def _format_time(seconds: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds)) if seconds else ""


@keys.command(short_help="Revoke a key.")
@conf_option
@data_dir_option
@click.argument("named", metavar="ID|NAME")
def revoke(conf_file: Path | None, data_dir: Path | None, named: str) -> None:
    """Revoke a key, given its ID or, if only one key has it, its name. Takes effect in every running server within a second.

    \b
      tornado-gate keys revoke nightly
    """
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.database.engine import DatabaseError

    store = _open_for_change(conf_file, data_dir, named)
    try:
        key = store.revoke_named(named, actor=make_actor())
    except (AccountError, DatabaseError) as error:
        exit_with_message(str(error))
    click.echo(f"{key.id} ('{key.name}') is revoked in {store.database.name}.")


@keys.command(short_help="Replace a key by a new one.")
@conf_option
@data_dir_option
@click.argument("named", metavar="ID|NAME")
@click.option(
    "--overlap",
    callback=parse_overlap,
    default="0",
    show_default=True,
    metavar="D",
    help="How long the old key stays valid: 90s, 5m, 2h, 30d. 0: it is revoked immediately.",
)
def rotate(conf_file: Path | None, data_dir: Path | None, named: str, overlap: float) -> None:
    """Create a key with the permissions, limits and expiry of another, and print it once.

    Like `keys create`, it prints only the new key to stdout:

    \b
      KEY=$(tornado-gate keys rotate nightly --overlap 1h)
    """
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.database.engine import DatabaseError

    store = _open_for_change(conf_file, data_dir, named)
    try:
        old = store.find_named(named)
        key, new = store.rotate(old.id, overlap_seconds=overlap, actor=make_actor())
        old = store.get(old.id)
    except (AccountError, DatabaseError) as error:
        exit_with_message(str(error))
    until = f"is valid until {_format_time(old.expires)} UTC" if old.revoked is None else "is revoked"
    click.echo(f"{new.id} replaces {old.id} ('{old.name}'), which {until}. The key is shown only once:", err=True)
    click.echo(key)


@keys.command(short_help="Take over a key whose maker has lost the right to it.")
@conf_option
@data_dir_option
@click.argument("named", metavar="ID|NAME")
def adopt(conf_file: Path | None, data_dir: Path | None, named: str) -> None:
    """Make a suspended key work again, with the same text. `keys list` shows suspended keys and the reasons.

    Its maker may still have the text: `keys rotate` replaces it by another one.

    \b
      tornado-gate keys adopt nightly
    """
    from tornado_gate.accounts.errors import AccountError
    from tornado_gate.database.engine import DatabaseError

    store = _open_for_change(conf_file, data_dir, named)
    try:
        key = store.adopt(store.find_named(named).id, make_actor())
    except (AccountError, DatabaseError) as error:
        exit_with_message(str(error))
    click.echo(f"{key.id} ('{key.name}') is taken over. Rotate it if its maker must not know it.", err=True)


def _open_for_change(conf_file: Path | None, data_dir: Path | None, named: str) -> KeyStore:
    """Return the key store. Exits without one, or if the key is defined in the configuration."""
    store, config = _open_store(conf_file, data_dir)
    if named.startswith("conf:"):
        exit_with_message(f"{escape_unprintable(named)} is defined in the configuration; change it in `keys:` there.")
    if store is None:
        _exit_without_store(config, conf_file, data_dir)
    return store
