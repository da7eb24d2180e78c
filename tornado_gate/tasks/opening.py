"""The task store of conf."""

from __future__ import annotations

from tornado_gate.config.model import Config
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.store import TaskStore


def make_task_store(config: Config) -> TaskStore:
    """Return the task store of conf, which is not open yet. Only the store that conf selects is imported with its database."""
    data_dir = config.server.data_dir
    if config.tasks.store == "file":
        return FileTaskStore(data_dir / "tasks")
    from tornado_gate.database.engine import Database
    from tornado_gate.tasks.database_store import DatabaseTaskStore

    return DatabaseTaskStore(Database(data_dir, config.database))
