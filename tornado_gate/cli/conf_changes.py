"""The changes of the configuration file by commands: checked, written, recorded in the audit log."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tornado_gate.cli.common import exit_with_message, load, protect_storage
from tornado_gate.errors import GateError

if TYPE_CHECKING:
    from tornado_gate.accounts.people import Actor
    from tornado_gate.config.entry_edits import Step
    from tornado_gate.config.model import Config
    from tornado_gate.server.process.conf_change import ChangeRefused, Review


def load_file(conf_file: Path | None, data_dir: Path | None) -> tuple[Path, Config]:
    """Return the configuration file and its values. Exits if it is invalid, or if there is none."""
    path, config = load(conf_file, data_dir)
    if path is None:
        exit_with_message("there is no configuration file. Create conf/gate.yaml, or name one with --conf FILE.")
    protect_storage(config)
    return path, config


def write_change(
    config: Config,
    action: str,
    name: str,
    make_steps: Callable[[Mapping[str, Any]], Sequence[Step]],
    entry: Mapping[str, Any],
) -> None:
    """Apply a change and print its diff. Exits on failure.

    `make_steps` gets the entry with references in place of its secrets, which are stored first.
    """
    from tornado_gate.server.configuration_changes import forget_keys, store_secrets
    from tornado_gate.server.process.conf_change import ChangeRefused, apply_change

    references: list[str] = []
    try:
        members, references = store_secrets(config, name, entry)
        author, message = make_actor().name, f"{action} {name}"
        review = apply_change(config, make_steps(members), None, author=author, message=message)
    except (ChangeRefused, GateError) as error:
        forget_keys(config, references)
        if isinstance(error, GateError):
            exit_with_message(error.message)
        _exit_refused(error)
    if not review.diff:
        click.echo("The file has this already.", err=True)
        return
    _record(config, action, name, review)
    click.echo(review.diff)
    for note in review.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"{review.file} is changed. A running gateway uses it within seconds.", err=True)


def _exit_refused(error: ChangeRefused) -> NoReturn:
    review = error.review
    for fault in review.faults if review is not None else ():
        click.echo(fault, err=True)
    lines = f"\n{review.lines}" if review is not None and review.refusal else ""
    exit_with_message(f"{error}{lines}")


def _record(config: Config, action: str, name: str, review: Review) -> None:
    """Add the change to the audit log. The change is made even if that fails, so a failure is only printed."""
    from tornado_gate.accounts.audit import record
    from tornado_gate.accounts.keys import KeyStore
    from tornado_gate.database.engine import DatabaseError

    try:
        store = KeyStore.open(config.server.data_dir, config.database)
        try:
            with store.database.write() as connection:
                record(connection, make_actor(), action, name, file=review.file, diff=review.diff[:2000])
        finally:
            store.close()
    except DatabaseError as error:
        click.echo(f"warning: the change is not in the audit log: {error}", err=True)


def make_actor() -> Actor:
    """Return the user who runs the command, for the audit log."""
    from tornado_gate.accounts.people import Actor

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # this user has no name
        name = f"user {os.getuid()}"
    return Actor(id="command", name=name[:200], role="administrator")


def read_secret() -> str:
    """Return a secret from standard input, without the line break at its end. Exits if it is empty."""
    try:
        text = sys.stdin.read(70_000).strip()
    except UnicodeDecodeError:
        exit_with_message("the secret on standard input is not UTF-8.")
    if not text:
        exit_with_message("the secret on standard input is empty.")
    return text
