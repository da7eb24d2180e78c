"""The store that conf selects, and what the other one costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.gateway import Gateway
from tornado_gate.config import Config, Secret
from tornado_gate.config.model import ServerConfig, TasksConfig
from tornado_gate.tasks.database_store import DatabaseTaskStore
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.opening import make_task_store


def test_conf_selects_the_store(tmp_path: Path) -> None:
    server = ServerConfig(data_dir=tmp_path)
    database = Secret("postgresql://gate@127.0.0.1/tasks")
    assert isinstance(make_task_store(Config(path=None, server=server)), FileTaskStore)
    assert isinstance(make_task_store(Config(path=None, server=server, database=database)), FileTaskStore)
    shared = Config(path=None, server=server, database=database, tasks=TasksConfig(store="database"))
    assert isinstance(make_task_store(shared), DatabaseTaskStore)


def test_the_file_store_loads_nothing_of_the_other() -> None:
    code = (
        "import sys, tornado_gate.server.app\n"
        "from tornado_gate.config import default_config\n"
        "from tornado_gate.tasks.opening import make_task_store, make_webhook_secrets\n"
        "make_task_store(default_config())\n"
        "make_webhook_secrets(default_config(), lambda: sys.exit(2))\n"
        "print(*(name for name in sys.modules if name.startswith('tornado_gate.tasks.database')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_a_reload_does_not_change_the_store(start_gateway: Callable[..., Gateway]) -> None:
    gateway = start_gateway("dialect: contract\n")
    conf = "database: postgresql://gate@127.0.0.1:9/none\ntasks: {store: database}\n"
    (gateway.folder / "gate.yaml").write_text(conf, encoding="utf-8")
    gateway.child.wait_for_line(r"restart the gateway to apply changed settings: tasks.store")
    gateway.child.wait_for_line(r"configuration 2 is in force")
