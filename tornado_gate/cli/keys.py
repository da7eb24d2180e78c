"""tornado-gate keys"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, format_table, load_for_storage

if TYPE_CHECKING:
    from tornado_gate.storage.keys import KeyStore


@click.group(short_help="Create, list and revoke API keys.")
def keys() -> None:
    """Create, list and revoke API keys, which are stored hashed in the data directory.

    Changes take effect in running servers within a second. Keys can also be defined in the configuration, under `keys:`.
    """


def _open(conf_file: Path | None, data_dir: Path | None) -> tuple[KeyStore, Any]:
    from tornado_gate.storage.keys import KeyStore, KeyStoreError

    config = load_for_storage(conf_file, data_dir)
    try:
        return KeyStore.open(config.server.data_dir), config
    except KeyStoreError as error:
        exit_with_message(str(error))


@keys.command(short_help="Create a key.")
@conf_option
@data_dir_option
@click.option("--name", required=True, metavar="N", help="The owner or purpose of the key.")
@click.option("--account", metavar="A", help="Keys of one account share tasks and stored data. Default: a new account.")
@click.option("--expires", metavar="D", help="Expiry: 30d, 12h, or a date such as 2027-01-31 (UTC). Default: never.")
@click.option("--models", metavar="GLOB,…", help="Allow only these models, e.g. 'local-*,gpt-4o'. Default: all.")
@click.option("--operations", metavar="OP,…", help="Allow only these operations, e.g. 'chat,embeddings'. Default: all.")
def create(
    conf_file: Path | None,
    data_dir: Path | None,
    name: str,
    account: str | None,
    expires: str | None,
    models: str | None,
    operations: str | None,
) -> None:
    """Create a key and print it once. Only its hash is stored.

    Only the key is printed to stdout, so that a script can read it:

    \b
      KEY=$(tornado-gate keys create --name nightly --expires 30d --models 'local-*')
    """
    from tornado_gate.storage.keys import KeyStoreError, parse_duration

    try:
        until = parse_duration(expires) if expires else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--expires") from None
    store, _ = _open(conf_file, data_dir)
    try:
        key, stored = store.create(
            name, account=account, models=_split_list(models), operations=_split_list(operations), expires=until
        )
    except KeyStoreError as error:
        exit_with_message(str(error))
    click.echo(f"{stored.id} created for '{name}'. The key is shown only once:", err=True)
    click.echo(key)


def _split_list(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


@keys.command("list", short_help="List keys, without the keys themselves.")
@conf_option
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of a table.")
def list_keys(conf_file: Path | None, data_dir: Path | None, as_json: bool) -> None:
    """List all keys: ID, name, first characters, permissions and state. Times are UTC."""
    store, config = _open(conf_file, data_dir)
    rows = [_describe_stored_key(row) for row in map(asdict, store.list())]
    rows += [_describe_conf_key(entry) for entry in config.keys]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = ["id", "name", "key", "models", "operations", "created", "expires", "state"]
    cells = [
        [", ".join(row[c]) or "all" if isinstance(row[c], list) else row[c] or "-" for c in columns] for row in rows
    ]
    click.echo(format_table([column.upper() for column in columns], cells))


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
    from tornado_gate.storage.keys import KeyStoreError

    store, _ = _open(conf_file, data_dir)
    if id_.startswith("conf:"):
        exit_with_message(f"{id_} is defined in the configuration; remove it from `keys:` there.")
    try:
        known = store.revoke(id_)
    except KeyStoreError as error:
        exit_with_message(str(error))
    if not known:
        exit_with_message(f"there is no key with the ID '{id_}'; `tornado-gate keys list` lists all keys.")
    click.echo(f"{id_} is revoked.")
