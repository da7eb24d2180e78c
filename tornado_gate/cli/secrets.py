"""tornado-gate secrets"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tornado_gate.cli.common import conf_option, data_dir_option, exit_with_message, find_conf_file, format_table
from tornado_gate.cli.conf_changes import read_secret
from tornado_gate.config.stored import StoredConf

if TYPE_CHECKING:
    from tornado_gate.config.secret_store import SecretStore


@click.group(short_help="Keep secrets of the configuration encrypted.")
def secrets() -> None:
    """Keep secrets encrypted below the data directory. The configuration refers to them: ${secret:NAME}.

    The key of the encryption is GATE_SECRET_KEY, a text of at least 32 characters, or the file secrets.key in the data
    directory, which is made at first use. No command prints a secret.

    With --conf postgresql://… the secrets are in the database, and GATE_SECRET_KEY must be the same at all nodes. They use a new
    value within a second.
    """


@secrets.command("set", short_help="Add or replace a secret.")
@click.argument("name")
@conf_option
@data_dir_option
def set_secret(name: str, conf_file: Path | None, data_dir: Path | None) -> None:
    """Read the secret NAME from standard input. A running gateway uses a replaced secret after its next reload.

    \b
      tornado-gate secrets set smtp-password < password.txt
    """
    with _open_store(conf_file, data_dir) as store:
        store.write(name, read_secret())
    click.echo(f"{name} is set. Write ${{secret:{name}}} in the configuration.", err=True)


@secrets.command("list", short_help="List the names of secrets.")
@conf_option
@data_dir_option
def list_secrets(conf_file: Path | None, data_dir: Path | None) -> None:
    """List the names of secrets with their age. One that the configuration no longer names is deleted after 30 days.

    \b
      tornado-gate secrets list
    """
    with _open_store(conf_file, data_dir) as store:
        rows = [
            [secret.name, _format(secret.changed), _format(secret.retired) if secret.retired else "-"]
            for secret in store.list_secrets()
        ]
    click.echo(format_table(["NAME", "CHANGED (UTC)", "UNUSED SINCE (UTC)"], rows))


def _format(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment))


@secrets.command("remove", short_help="Delete a secret now.")
@click.argument("name")
@conf_option
@data_dir_option
def remove_secret(name: str, conf_file: Path | None, data_dir: Path | None) -> None:
    """Delete the secret NAME, unless the configuration file names it.

    \b
      tornado-gate secrets remove smtp-password
    """
    from tornado_gate.config import source
    from tornado_gate.config.entry_edits import list_secret_names

    path = find_conf_file(conf_file)
    with _open_store(conf_file, data_dir) as store:
        if path is not None and name in list_secret_names(json.dumps(source.read(path).values)):
            exit_with_message(f"{path} names the secret {name}. Change the file first.")
        store.remove(name)
    click.echo(f"{name} is deleted.", err=True)


@secrets.command("rotate", short_help="Encrypt all secrets with a new key.")
@conf_option
@data_dir_option
def rotate_key(conf_file: Path | None, data_dir: Path | None) -> None:
    """Replace the key file, and encrypt all secrets with the new key.

    With GATE_SECRET_KEY, first set it to the new and the old key, separated by a comma. Run this command, then remove the old
    one.

    \b
      tornado-gate secrets rotate
    """
    with _open_store(conf_file, data_dir) as store:
        count = store.rotate()
    click.echo(f"{count} secret{'' if count == 1 else 's'} encrypted with the new key.", err=True)


@contextmanager
def _open_store(conf_file: Path | None, data_dir: Path | None) -> Iterator[SecretStore]:
    """Open the store, also of a configuration that is invalid without a secret. Exits with the message of a failure."""
    from tornado_gate.config import ServerConfig, source
    from tornado_gate.config.environment import find_data_dir
    from tornado_gate.config.faults import FileFaults
    from tornado_gate.config.secret_store import SecretError, SecretStore
    from tornado_gate.storage.private import DataDirError, protect_data_dir

    if isinstance(conf_file, StoredConf):
        with _open_shared_store(conf_file) as store:
            yield store
        return
    path = find_conf_file(conf_file)
    try:
        if data_dir is None and path is not None:
            data_dir = find_data_dir(source.read(path).values, os.environ, path.parent)
        folder = data_dir or ServerConfig().data_dir
        protect_data_dir(folder)
        yield SecretStore(folder, os.environ)
    except FileFaults as error:
        exit_with_message(error.report()[0])
    except (SecretError, DataDirError) as error:
        exit_with_message(str(error))


@contextmanager
def _open_shared_store(conf: StoredConf) -> Iterator[SecretStore]:
    """Open the store in the database. Exits with the message of a failure."""
    from tornado_gate.config.secret_store import SecretError
    from tornado_gate.database.engine import DatabaseError
    from tornado_gate.database.opening import migrate
    from tornado_gate.server.control.conf_versions import open_conf_database
    from tornado_gate.server.control.shared_secrets import SharedSecretStore

    try:
        with open_conf_database(conf.address) as database:
            migrate(database)
        yield SharedSecretStore(conf.address, os.environ)
    except (SecretError, DatabaseError) as error:
        exit_with_message(str(error))
