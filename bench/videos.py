"""Cost of many video tasks: start of a gateway that finds them, a poll among them, upstream requests if all poll one task.

Usage: .venv/bin/python bench/videos.py [TASKS]. Makes a folder with 100 stored tasks and one with TASKS (default 100,000),
starts a gateway on each, and prints how long that took and what a poll of some stored task takes, asked one after the other
over one connection. Then 1,000 clients ask about one running task for 10 seconds, and the mock upstream counts how often it
was asked meanwhile; its share of that is one call in each `poll_seconds`.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp

from tornado_gate.tasks.file_index import AccountIndex, record_path
from tornado_gate.tasks.file_store import FileTaskStore
from tornado_gate.tasks.record import TaskRecord, encode_record
from tornado_gate.types import replace

COMMAND = Path(sys.executable).with_name("tornado-gate")
FEW_TASKS, MANY_TASKS = 100, 100_000
POLLS = 3_000
CLIENTS = 1_000
SECONDS = 10.0
POLL_SECONDS = 1.0
HEADERS = {"Authorization": "Bearer bench-key-of-the-caller"}
CONF = """
server: {{port: 0, data_dir: {folder}/var, access_log: true}}
plugins: {{openai: true}}
providers:
  mock: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: bench-key}}
models:
  film: {{provider: mock}}
videos: {{poll_seconds: {poll_seconds}}}
keys:
  - {{name: bench, key: bench-key-of-the-caller, account: bench}}
"""
STATE = b'{"id":"job1","object":"video","status":"in_progress","progress":20}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(STATE), STATE)


class MockVideoUpstream:
    """An upstream with one job that never ends. `asked` counts requests by method."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.port = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"chunked" in head.lower():
                    await reader.readuntil(b"\r\n0\r\n\r\n")
                else:
                    length = re.search(rb"content-length: *([0-9]+)", head.lower())
                    await reader.readexactly(int(length[1]) if length else 0)
                self.asked[head.split()[0].decode()] += 1
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def fill(folder: Path, number: int) -> list[str]:
    """Store that many ended tasks of the account; return their ids."""
    store = FileTaskStore(folder / "var" / "tasks")
    store.disk.make("active", "accounts", *(f"records/{shard:02x}" for shard in range(256)))
    now = time.time()
    record = TaskRecord(
        id="", account="bench", model="film", provider="mock", upstream_model="film", created_at=now, deadline=now + 3600,
        request={"model": "film", "prompt": "a fox in the snow"}, step="done", status="completed", progress=100,
        completed_at=now, expires_at=now + 86_400,
    )  # fmt: skip
    ids, lines = [], []
    for count in range(number):
        one = replace(record, id=f"video_{secrets.token_hex(16)}", created_at=now - number + count)
        record_path(store.disk, one.id).write_bytes(encode_record(one))
        ids.append(one.id)
        lines.append(f"{one.created_ns:020d} {one.id}\n")
    AccountIndex(store.disk).path("bench").write_text("".join(lines), encoding="ascii")
    return ids


def start(folder: Path, port: int) -> tuple[subprocess.Popen[str], str, float]:
    """Start a gateway; return it, its address, and the seconds until it served."""
    conf = folder / "gate.yaml"
    conf.write_text(CONF.format(folder=folder, port=port, poll_seconds=POLL_SECONDS), encoding="utf-8")
    began = time.perf_counter()
    gateway = subprocess.Popen(
        [str(COMMAND), "serve", "--conf", str(conf)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert gateway.stdout is not None
    url = next(m[1] for line in gateway.stdout if (m := re.search(r"serving (http://\S+)", line)))
    return gateway, url, time.perf_counter() - began


async def poll(session: aiohttp.ClientSession, url: str, task: str) -> float:
    """Return the duration of one poll in seconds."""
    began = time.perf_counter()
    async with session.get(f"{url}/v1/videos/{task}") as response:
        await response.read()
        assert response.status == 200, response.status
    return time.perf_counter() - began


async def time_polls(url: str, ids: list[str]) -> list[float]:
    async with aiohttp.ClientSession(headers=HEADERS) as session:
        for task in ids[:50]:
            await poll(session, url, task)
        return sorted([await poll(session, url, random.choice(ids)) for _ in range(POLLS)])


async def run_crowd(url: str, upstream: MockVideoUpstream) -> str:
    """Poll one task from all clients; return the result."""
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(headers=HEADERS, connector=connector, timeout=timeout) as session:
        async with session.post(f"{url}/v1/videos", json={"model": "film", "prompt": "a fox"}) as response:
            task = (await response.json())["task_id"]
        while upstream.asked["GET"] == 0:
            await poll(session, url, task)
        before, began, took = upstream.asked["GET"], time.monotonic(), []

        async def one() -> None:
            while time.monotonic() - began < SECONDS:
                took.append(await poll(session, url, task))

        await asyncio.gather(*(one() for _ in range(CLIENTS)))
        seconds, calls = time.monotonic() - began, upstream.asked["GET"] - before
    median = statistics.median(took) * 1000
    return (
        f"{CLIENTS} clients for {seconds:.1f} s: {len(took)} polls ({len(took) / seconds:.0f} per s, p50 {median:.0f} ms); "
        f"the upstream got {calls} requests, of at most {seconds / POLL_SECONDS:.0f}"
    )


async def main(many: int) -> None:
    upstream = MockVideoUpstream()
    await upstream.start()
    print(f"{'stored tasks':>12}{'start s':>9}{'poll p50 ms':>13}{'p99 ms':>9}")
    for number in (FEW_TASKS, many):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ids = await asyncio.to_thread(fill, folder, number)
            gateway, url, started = await asyncio.to_thread(start, folder, upstream.port)
            try:
                took = await time_polls(url, ids)
                p50, p99 = (took[len(took) * share // 100] * 1000 for share in (50, 99))
                print(f"{number:12}{started:9.2f}{p50:13.2f}{p99:9.2f}", flush=True)
                if number == many:
                    print(await run_crowd(url, upstream))
            finally:
                gateway.terminate()
                await asyncio.to_thread(gateway.wait)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # both ends of each connection count on this machine
    os.environ["NO_PROXY"] = "127.0.0.1"
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else MANY_TASKS))
