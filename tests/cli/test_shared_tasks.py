"""`tornado-gate tasks` with `tasks: {store: database}`: the tasks of all nodes, from any of them, without a server."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.databases import empty
from tests.tasks.test_store_contract import a_task, end
from tornado_gate.cli import cli
from tornado_gate.database.engine import Database
from tornado_gate.tasks.database_store import DatabaseTaskStore

module = importlib.import_module("tornado_gate.cli.tasks")  # the package has the command under this name


class Node:
    """An operator at one node."""

    def __init__(self, folder: Path, address: str) -> None:
        folder.mkdir()
        self.address = address
        self.data = folder / "var"
        self.conf = folder / "gate.yaml"
        conf = f"server: {{data_dir: {self.data}}}\ntasks: {{store: database}}\ndatabase: {address}\n"
        self.conf.write_text(conf, encoding="utf-8")

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(cli, ["tasks", *arguments, "--conf", str(self.conf)], prog_name="tornado-gate")

    def use_store(self, work: Callable[[DatabaseTaskStore], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            store = DatabaseTaskStore(Database(self.data, self.address))
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(main())


@pytest.fixture
def nodes(tmp_path: Path, migrated_postgres: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Node, Node]:
    monkeypatch.setattr(module, "SERVER_PICK_UP_SECONDS", 0.2)
    empty(migrated_postgres)
    return Node(tmp_path / "a", migrated_postgres), Node(tmp_path / "b", migrated_postgres)


def test_a_node_lists_shows_cancels_and_removes_the_tasks_of_all(nodes: tuple[Node, Node]) -> None:
    a, b = nodes

    async def fill(store: DatabaseTaskStore) -> list[str]:
        waiting = await store.create(a_task(), None)
        done = await end(store, await store.create(a_task(), None), expires_at=time.time() - 1)
        return [waiting.id, done.id]

    waiting, done = a.use_store(fill)
    assert [row["id"] for row in json.loads(b.run("list", "--json").stdout)] == [waiting, done]
    assert [row["id"] for row in json.loads(b.run("list", "--account", "acme", "--json").stdout)] == [waiting, done]
    assert json.loads(b.run("show", waiting, "--json").stdout)["status"] == "queued"
    assert b.run("cancel", waiting).stdout == f"{waiting} is cancelled.\n"
    assert json.loads(a.run("show", waiting, "--json").stdout)["error"] == "cancelled"
    assert b.run("prune").stdout.startswith("1 tasks with 0 video files")
    assert a.run("show", done).exit_code == 1
    assert not a.data.exists(), "the commands need no folder"


def test_the_secret_of_webhooks_is_the_same_at_all_nodes(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    secret = a.run("webhook-secret", "--account", "acme")
    assert secret.stdout.startswith("whsec_"), secret.output
    assert b.run("webhook-secret", "--account", "acme").stdout == secret.stdout
    rotated = b.run("webhook-secret", "--account", "acme", "--rotate").stdout
    assert rotated != secret.stdout
    assert a.run("webhook-secret", "--account", "acme").stdout == rotated


def test_without_the_database_each_command_says_which_and_why(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", f"postgresql://gate:hidden@/tasks?host={tmp_path}")
    for arguments in (["list"], ["webhook-secret", "--account", "acme"]):
        result = node.run(*arguments)
        assert result.exit_code == 1
        assert "PostgreSQL database 'tasks' at" in result.stderr
        assert "hidden" not in result.output
