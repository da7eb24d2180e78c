"""A gateway of one machine becomes a node of several: what its data directory has is in the database after the next start."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import psycopg
import pytest

from tests.support.databases import empty
from tests.support.gateway import COMMAND, Gateway, run_command
from tests.support.process import Child
from tests.support.upstream import Upstream
from tests.tasks.test_service_kill import KEY, MP4, begins, content, create, downloads, ended, made, polls, shown, state
from tornado_gate.storage.conversation_state import MemoryStore

CONF = """
plugins: {{local: true, openai: true}}
providers:
  o: {{plugin: openai, base_url: "{url}/v1", api_key: key-of-the-upstream}}
  local: {{plugin: local}}
models:
  sora: {{provider: o, model: sora-2}}
  local-chat: {{provider: local}}
  local-realtime: {{provider: local}}
videos: {{concurrency: 4, poll_seconds: 0.05, keep_seconds: 600}}
fetch: {{allow_networks: [127.0.0.0/8]}}
keys: [{{name: test, key: {key}}}]
{more}
"""
SHARED = """
database: {address}
tasks: {{store: database}}
state: {{store: database}}
"""
VALUES = 20_000

Start = Callable[..., Gateway]


@pytest.fixture
def start(upstream: Upstream, tmp_path: Path, migrated_postgres: str) -> Iterator[Start]:
    """Starts the gateway of this name, again in its folder; `shared`: as a node of several."""
    empty(migrated_postgres)
    started: list[Gateway] = []

    def begin(name: str, *, shared: bool, installed: bool = False) -> Gateway:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        more = SHARED.format(address=migrated_postgres) if shared else ""
        started.append(Gateway.start(CONF.format(url=upstream.url, key=KEY, more=more), folder, installed=installed))
        return started[-1]

    yield begin
    for gateway in started:
        if gateway.child.process.poll() is None:
            gateway.child.kill()


def send(gateway: Gateway, path: str, body: Any) -> Any:
    headers = {"authorization": f"Bearer {KEY}"}
    done = httpx.post(gateway.url + path, json=body, headers=headers, trust_env=False, timeout=60)
    assert done.status_code == 200, done.text
    return done.json()


def respond(gateway: Gateway, **fields: Any) -> Any:
    return send(gateway, "/v1/responses", {"model": "local-chat", "input": "Hi", **fields})


def read_webhook_secret(gateway: Gateway) -> str:
    options = ("--conf", str(gateway.folder / "gate.yaml"), "--data-dir", str(gateway.folder / "var"))
    done = run_command("tasks", "webhook-secret", "--account", "test", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.qa
def test_a_gateway_with_files_becomes_a_node_and_another_continues_everything(start: Start, upstream: Upstream) -> None:
    one = start("one", shared=False)
    upstream.script(begins(), downloads(MP4), polls(state("completed")))
    finished = create(one)
    assert ended(one, finished)["status"] == "completed"
    upstream.script(begins(), polls(state("in_progress", progress=30), repeat=True))
    running = create(one)
    upstream.wait_for_requests(5)
    kept, webhook_secret = respond(one, store=True), read_webhook_secret(one)
    one.stop()
    upstream.reset()
    one = start("one", shared=True)
    other = start("other", shared=True)
    assert shown(other, finished)["status"] == "completed"
    assert content(one, finished) == MP4, "its file is at its node"
    upstream.script(downloads(MP4), polls(state("completed"), repeat=True))
    assert ended(other, running)["status"] == "completed"
    assert made(upstream) == 0, "the upstream makes no second video"
    continued = respond(other, previous_response_id=kept["id"])
    assert continued["usage"]["input_tokens"] > kept["usage"]["input_tokens"]
    assert read_webhook_secret(other) == webhook_secret


@pytest.mark.qa
def test_a_start_that_is_killed_while_it_carries_over_is_repeated(start: Start, migrated_postgres: str) -> None:
    one = start("one", shared=False)
    kept = respond(one, store=True)
    one.stop()
    store = MemoryStore(one.folder / "var")
    values = {f"value {number}": orjson.dumps({"number": number}) for number in range(VALUES)}
    store.put("test", values, time.time() + 600)
    store.close()
    write_shared_conf(one, migrated_postgres)
    command = [str(COMMAND), "serve", "--conf", str(one.folder / "gate.yaml"), "--port", "0"]
    child = Child([*command, "--data-dir", str(one.folder / "var")], folder=one.folder, forked=True)
    child.wait_for_line("carried over 500 of")
    child.kill()
    assert 500 <= count_values(migrated_postgres) < VALUES, "it was killed before the end"
    one = start("one", shared=True)
    assert count_values(migrated_postgres) >= VALUES
    assert respond(one, previous_response_id=kept["id"])["usage"]["input_tokens"] > kept["usage"]["input_tokens"]


@pytest.mark.qa
def test_a_hand_over_is_refused_while_files_must_be_carried_over(start: Start, migrated_postgres: str) -> None:
    one = start("one", shared=False, installed=True)
    kept = respond(one, store=True)
    write_shared_conf(one, migrated_postgres)
    os.kill(one.child.process.pid, signal.SIGUSR2)
    one.wait_for_log("Stop the gateway and start it again")
    assert respond(one, previous_response_id=kept["id"])["id"], "the gateway goes on"


def write_shared_conf(gateway: Gateway, address: str) -> None:
    more = SHARED.format(address=address)
    text = CONF.format(url="http://127.0.0.1:9", key=KEY, more=more)
    (gateway.folder / "gate.yaml").write_text(text, encoding="utf-8")


def count_values(address: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT count(*) FROM kept_values").fetchone()
    assert row is not None
    return int(row[0])
