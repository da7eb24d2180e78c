"""The load that a gateway puts on PostgreSQL and Valkey: statements, commands and bytes for 1,000 chats, and for a video task.

Usage: python -m bench.engines [--chats N] [--videos N]. Prints a table. The idle load of the same time is taken off.
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
from pathlib import Path
from typing import Any

import psycopg

from qa.cluster.nodes import CHAT, Cluster, create_key, send
from qa.cluster.test_partitions import ANSWER, VIDEO
from tests.support.postgres import PostgresServer
from tests.support.upstream import Upstream, answer
from tests.support.valkey import Valkey
from tests.tasks.test_service_kill import MP4, polls, state

THREADS = 4
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
    parser.add_argument("--videos", type=int, default=20)
    options = parser.parse_args()
    postgres, valkey, upstream = PostgresServer(), Valkey(), Upstream.start()
    with tempfile.TemporaryDirectory() as folder:
        address = postgres.create("load")
        cluster = Cluster(Path(folder), postgres, "load", valkey, upstream)
        try:
            node = cluster.start("a")
            run(cluster, address, valkey, upstream, node, options)
        finally:
            cluster.close()
            upstream.stop()
            valkey.kill()
            postgres.close()


def run(cluster: Cluster, address: str, valkey: Valkey, upstream: Upstream, node: Any, options: Any) -> None:
    upstream.script(
        answer(ANSWER, path="/v1/chat/completions", repeat=True),
        answer(MP4, path="/v1/videos/video_up/content", headers={"content-type": "video/mp4"}, repeat=True),
        polls(state("completed"), repeat=True),
        answer(state("queued"), path="/v1/videos", repeat=True),
    )
    plain = create_key(node, "plain")
    limited = create_key(node, "limited", limits={"requests_per_minute": 10**6}, budget={"usd_per_day": 10**6})

    def chat(key: str) -> int:
        return send(node, "POST", "/v1/chat/completions", key, json=CHAT).status_code

    def send_chats(key: str) -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            assert set(pool.map(chat, [key] * options.chats)) == {200}

    def make_videos() -> None:
        ids = [send(node, "POST", "/v1/videos", plain, json=VIDEO).json()["id"] for _ in range(options.videos)]
        while any(
            send(node, "GET", f"/v1/videos/{each}", plain).json()["status"] not in ("completed", "failed")
            for each in ids
        ):
            time.sleep(0.5)

    def read() -> Counts:
        return read_counts(cluster, address, valkey)

    chat(plain), chat(limited)
    cases = {
        f"{options.chats} chats, no limits": lambda: send_chats(plain),
        f"{options.chats} chats, a rate and a budget": lambda: send_chats(limited),
        f"{options.videos} videos": make_videos,
    }
    print("| load | PostgreSQL transactions | bytes | Valkey commands | bytes |\n|---|---|---|---|---|")
    for name, work in cases.items():
        counts = measure(read, work)
        print_row(name, counts)
    began = read()
    time.sleep(10)
    print_row("10 s without requests", read() - began)


def print_row(name: str, counts: Counts) -> None:
    numbers = (counts.transactions, counts.postgres_bytes, counts.commands, counts.valkey_bytes)
    print(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
