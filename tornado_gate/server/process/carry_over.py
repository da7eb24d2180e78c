"""Carry over the files of a data directory to the stores of several nodes that conf names, before anything is served."""

from __future__ import annotations

import os

from tornado_gate.config.faults import FileFaults, KeyPath
from tornado_gate.config.model import Config
from tornado_gate.database.engine import Database, DatabaseError
from tornado_gate.server.process.listeners import ServeError
from tornado_gate.storage.files import MediaFull, MediaUnavailable


def carry_over(config: Config, database: Database, *, is_hand_over: bool) -> None:
    """Move video tasks, kept values and secrets to the database, if they belong there now.

    Raises FileFaults with the line of conf, and ServeError after a hand-over: the process that still serves uses the files.
    """
    if config.tasks.store == "database":
        _carry_over_tasks(config, database, is_hand_over)
    if config.state.store == "database":
        _carry_over_state(config, database, is_hand_over)


def _carry_over_tasks(config: Config, database: Database, is_hand_over: bool) -> None:
    from tornado_gate.tasks import carry_over as tasks
    from tornado_gate.tasks.webhook_cipher import WebhookCipher
    from tornado_gate.tasks.webhook_secrets import WebhookSecretError

    folder = config.server.data_dir / "tasks"
    if is_hand_over and tasks.has_tasks(folder):
        raise _still_serves_error("tasks.store")
    try:
        tasks.carry_over_tasks(database, folder)
        tasks.carry_over_webhook_secrets(database, config.server.data_dir, WebhookCipher(os.environ))
    except (DatabaseError, tasks.TaskInUse, WebhookSecretError, MediaFull, MediaUnavailable) as error:
        raise _make_fault(config, ("tasks", "store"), error) from error


def _carry_over_state(config: Config, database: Database, is_hand_over: bool) -> None:
    from tornado_gate.database import state_carry_over as state

    try:
        if is_hand_over and state.has_state(config.server.data_dir):
            raise _still_serves_error("state.store")
        state.carry_over_state(database, config.server.data_dir)
    except DatabaseError as error:
        raise _make_fault(config, ("state", "store"), error) from error


def _still_serves_error(key: str) -> ServeError:
    return ServeError(
        f"{key} has changed, and the files of data_dir are carried over to the database. Stop the gateway and start it again: "
        "a hand-over is not possible, because the running process uses these files."
    )


def _make_fault(config: Config, key: KeyPath, error: Exception) -> FileFaults:
    message = f"the files of data_dir could not be carried over to the database: {error}. Start again to continue."
    return FileFaults([(key, message)], config.path, config.lines)
