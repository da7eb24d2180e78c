"""The stores of conf: of tasks, and of the secrets of their webhooks. Only modules of the selected stores are imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tornado_gate.config.model import Config
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.store import TaskStore
from tornado_gate.tasks.webhook_secrets import WebhookSecrets, WebhookSecretStore

if TYPE_CHECKING:
    from tornado_gate.database.engine import Database


def make_task_store(config: Config) -> TaskStore:
    """Return the task store of conf, which is not open yet."""
    data_dir = config.server.data_dir
    if config.tasks.store == "file":
        return FileTaskStore(data_dir / "tasks")
    from tornado_gate.database.engine import Database
    from tornado_gate.tasks.database_store import DatabaseTaskStore

    return DatabaseTaskStore(Database(data_dir, config.database))


def make_webhook_secrets(config: Config, open_database: Callable[[], Database]) -> WebhookSecrets:
    """Return the store of the secrets, which is where the tasks are. `open_database` is called if they are in the database."""
    if config.tasks.store == "file":
        return WebhookSecretStore(config.server.data_dir)
    from tornado_gate.tasks.database_webhook_secrets import DatabaseWebhookSecretStore
    from tornado_gate.tasks.webhook_cipher import WebhookCipher

    return DatabaseWebhookSecretStore(open_database(), WebhookCipher(os.environ))
