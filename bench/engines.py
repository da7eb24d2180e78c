"""The load that a gateway puts on PostgreSQL and Valkey: statements, commands and bytes for chats, streams, kept responses,
realtime sessions and video tasks.

Usage: python -m bench.engines [--chats N] [--sessions N] [--videos N]. Prints a table, without the idle load of the same time.
Bytes are counted between the gateway and the engine (`qa/cluster/link.py`), transactions by PostgreSQL, commands by Valkey.
"""

from __future__ import annotations

import argparse
import re
import socket
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from websockets.sync.client import connect

from qa.cluster.nodes import CHAT, CONF, Cluster, create_key, send
from qa.cluster.test_partitions import ANSWER, VIDEO
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream, answer
from tests.support.valkey import Valkey
from tests.tasks.test_service_kill import MP4, polls, state

THREADS = 4
SHARED_CONF = (
    CONF.replace("plugins: {{", "state: {{store: database}}\nplugins: {{local: true, ")
    .replace("providers:\n", "providers:\n  local: {{plugin: local}}\n")
    .replace("models:\n", "models:\n  local-chat: {{provider: local}}\n  local-realtime: {{provider: local}}\n")
)
SESSION = {"session": {"type": "realtime", "model": "local-realtime"}}
STREAM = {"model": "local-chat", "messages": [{"role": "user", "content": "hello"}], "stream": True}
FLUSH_SECONDS = 3.0
"""The time after which rows and counters of a request have reached the engines."""
STATE = (
    '{"id": "video_up", "object": "video", "status": "completed", "progress": 100, "model": "sora-2", "seconds": "4"}'
)


@dataclass(frozen=True)
class Counts:
    """Numbers since the start of the engines."""

    transactions: int
    commands: int
    postgres_bytes: int
    valkey_bytes: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))


def read_counts(cluster: Cluster, address: str, valkey: Valkey) -> Counts:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    links = [cluster.links["a", engine].set_mode("counts") for engine in ("postgres", "valkey")]
    assert row is not None
    return Counts(
        transactions=row[0],
        commands=count_commands(valkey),
        postgres_bytes=links[0]["to_engine"] + links[0]["from_engine"],
        valkey_bytes=links[1]["to_engine"] + links[1]["from_engine"],
    )


def count_commands(valkey: Valkey) -> int:
    with socket.create_connection(("127.0.0.1", valkey.port)) as connection:
        connection.sendall(b"INFO stats\r\n")
        text = connection.recv(65536).decode()
    found = re.search(r"total_commands_processed:(\d+)", text)
    assert found is not None, text
    return int(found[1])


def measure(read: Callable[[], Counts], work: Callable[[], Any]) -> Counts:
    """Return what `work` adds to the idle load of the same time."""
    began, before = time.monotonic(), read()
    work()
    time.sleep(FLUSH_SECONDS)
    counts, seconds = read() - before, time.monotonic() - began
    before = read()
    time.sleep(seconds)
    return counts - (read() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--videos", type=int, default=20)
    options = parser.parse_args()
    postgres, valkey, upstream = PostgresServer(), Valkey(), Upstream.start()
    with tempfile.TemporaryDirectory() as folder:
        address = postgres.create("load")
        cluster = Cluster(Path(folder), postgres, "load", valkey, upstream, SHARED_CONF)
        try:
            node = cluster.start("a")
            run(cluster, address, valkey, upstream, node, options)
        finally:
            cluster.close()
            upstream.stop()
            valkey.kill()
            postgres.close()


class Load:
    """The requests to a node, of a key without limits (`plain`) and of one with a rate and a budget (`limited`)."""

    def __init__(self, node: Gateway, options: argparse.Namespace) -> None:
        self._node, self._options = node, options
        self.plain = create_key(node, "plain")
        bounds: dict[str, Any] = {"limits": {"requests_per_minute": 10**6}, "budget": {"usd_per_day": 10**6}}
        self.limited = create_key(node, "limited", **bounds)
        for key in (self.plain, self.limited):
            self._post("/v1/chat/completions", CHAT, key)
        self._second = self._respond(previous_response_id=self._respond())
        self._open_session()

    def send_chats(self, key: str, body: Any = CHAT) -> None:
        self._repeat(self._options.chats, lambda: self._post("/v1/chat/completions", body, key))

    def keep_responses(self) -> None:
        self._repeat(self._options.chats, self._respond)

    def continue_responses(self) -> None:
        self._repeat(self._options.chats, lambda: self._respond(previous_response_id=self._second))

    def open_sessions(self) -> None:
        self._repeat(self._options.sessions, self._open_session)

    def make_videos(self) -> None:
        ids = [self._post("/v1/videos", VIDEO).json()["id"] for _ in range(self._options.videos)]
        while not all(self._has_ended(identity) for identity in ids):
            time.sleep(0.5)

    def _post(self, path: str, body: Any, key: str = "") -> Any:
        response = send(self._node, "POST", path, key or self.plain, json=body)
        assert response.status_code == 200, response.text
        return response

    def _repeat(self, number: int, work: Callable[[], Any]) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda _: work(), range(number)))

    def _respond(self, **fields: Any) -> str:
        body = {"model": "local-chat", "input": "hello", **fields}
        return str(self._post("/v1/responses", body).json()["id"])

    def _open_session(self) -> None:
        secret = self._post("/v1/realtime/client_secrets", SESSION).json()["value"]
        url = f"{self._node.url.replace('http', 'ws', 1)}/v1/realtime?model=local-realtime"
        with connect(url, additional_headers={"Authorization": f"Bearer {secret}"}, proxy=None) as client:
            assert "session.created" in str(client.recv(timeout=20))

    def _has_ended(self, video: str) -> bool:
        status = send(self._node, "GET", f"/v1/videos/{video}", self.plain).json()["status"]
        return status in ("completed", "failed")


def run(
    cluster: Cluster, address: str, valkey: Valkey, upstream: Upstream, node: Gateway, options: argparse.Namespace
) -> None:
    upstream.script(
        answer(ANSWER, path="/v1/chat/completions", repeat=True),
        answer(MP4, path="/v1/videos/video_up/content", headers={"content-type": "video/mp4"}, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    load, read = Load(node, options), partial(read_counts, cluster, address, valkey)
    cases: dict[str, Callable[[], None]] = {
        f"{options.chats} chats, no limits": lambda: load.send_chats(load.plain),
        f"{options.chats} chats, a rate and a budget": lambda: load.send_chats(load.limited),
        f"{options.chats} streams, no limits": lambda: load.send_chats(load.plain, STREAM),
        f"{options.chats} streams, a rate and a budget": lambda: load.send_chats(load.limited, STREAM),
        f"{options.chats} responses that are kept": load.keep_responses,
        f"{options.chats} responses that continue two": load.continue_responses,
        f"{options.sessions} realtime sessions by client secrets": load.open_sessions,
        f"{options.videos} videos": load.make_videos,
    }
    print("| load | PostgreSQL transactions | bytes | Valkey commands | bytes |\n|---|---|---|---|---|")
    for name, work in cases.items():
        print_row(name, measure(read, work))
    began = read()
    time.sleep(10)
    print_row("10 s without requests", read() - began)


def print_row(name: str, counts: Counts) -> None:
    numbers = (counts.transactions, counts.postgres_bytes, counts.commands, counts.valkey_bytes)
    print(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
