"""kill -9 under load, then a start on the same data: keys, usage and database are intact, and no lock is left."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway

ROOT = "root-key-of-kills-0123456789"
CONF = f"""
server: {{log_level: info, access_log: false}}
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
keys: [{{name: root, key: {ROOT}, role: administrator}}]
"""
CHAT = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}]}
PATIENCE_SECONDS = 60.0


class Load:
    """A client that creates keys and uses each of them, until the gateway dies."""

    def __init__(self, gateway: Gateway) -> None:
        self.url = gateway.url
        self.keys: list[str] = []
        self.answered: list[str] = []
        self._enough = threading.Event()
        self._wanted = 0
        self._thread = threading.Thread(target=self._run)

    def run_until(self, number: int) -> None:
        """Start, and return when `number` keys were used. The client goes on."""
        self._wanted = number
        self._thread.start()
        assert self._enough.wait(PATIENCE_SECONDS)

    def wait_for_end(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with httpx.Client(base_url=self.url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
                while True:
                    body = {"name": f"key {len(self.keys)}"}
                    made = client.post("/admin/v1/keys", json=body, headers={"Authorization": f"Bearer {ROOT}"})
                    self.keys.append(made.raise_for_status().json()["text"])
                    self.answered.append(chat(client, self.keys[-1]))
                    if len(self.answered) >= self._wanted:
                        self._enough.set()
        except httpx.TransportError:
            self._enough.set()


def chat(client: httpx.Client, key: str) -> str:
    """The id of an answered request."""
    response = client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": f"Bearer {key}"})
    response.raise_for_status()
    return response.headers["x-request-id"]


def list_recorded(folder: Path) -> list[str]:
    with sqlite3.connect(folder / "var" / "gate.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in database.execute("SELECT request_id FROM usage")]


@pytest.mark.qa
def test_keys_and_usage_survive_kills_at_any_moment(tmp_path: Path) -> None:
    keys: list[str] = []
    answered: list[str] = []
    for number in (5, 11):
        gateway = Gateway.start(CONF, tmp_path, "--processes", "2")
        load = Load(gateway)
        load.run_until(number)
        os.killpg(gateway.child.process.pid, signal.SIGKILL)
        load.wait_for_end()
        gateway.child.kill()
        keys += load.keys
        answered += load.answered
    gateway = Gateway.start(CONF, tmp_path, "--processes", "2")
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        last = [chat(client, key) for key in keys]
    gateway.stop()
    recorded = list_recorded(tmp_path)
    assert len(recorded) == len(set(recorded))
    assert set(last) <= set(recorded), "a normal end loses nothing"
    chats = set(answered) | set(last)
    assert len(chats) == len(answered) + len(last)
    assert not list((tmp_path / "var").glob("ledger-spool/*.rows"))


def test_a_supervisor_that_is_killed_leaves_no_process_on_the_port(tmp_path: Path) -> None:
    gateway = Gateway.start(CONF, tmp_path, "--processes", "2")
    port = gateway.url.rpartition(":")[2]
    os.kill(gateway.child.process.pid, signal.SIGKILL)
    for _ in range(2):
        gateway.child.wait_for_line("draining: ")
    again = Gateway.start(CONF, tmp_path, "--port", port)
    assert again.url == gateway.url
    again.stop()
