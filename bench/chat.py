"""What a request through the gateway costs, in CPU time of the gateway's process: the figure that a busy machine blurs least.

Usage: .venv/bin/python bench/chat.py [REQUESTS]. Starts a mock upstream and the gateway (authentication, checks, routing,
metering, metrics and logs on), sends REQUESTS chats (default 2,000) of each kind over 16 connections, and prints a table.
Look at it before and after a change on the hot path; compare on the same machine only.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("tornado-gate")
CONNECTIONS = 16
TICKS = os.sysconf("SC_CLK_TCK")
CONF = """
server: {{port: 0, data_dir: {folder}/var, access_log: {access_log}}}
plugins: {{local: true, openai: true}}
providers:
  mock: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: bench-key}}
  local: {{plugin: local}}
models:
  mocked: {{provider: mock}}
  local-chat: {{provider: local}}
keys:
  - {{name: bench, key: bench-key-of-the-caller}}
"""


def body(model: str, messages: int, stream: bool) -> dict[str, object]:
    """A chat of that many messages, 400 bytes each from the second on."""
    talk = [{"role": "user" if n % 2 == 0 else "assistant", "content": "x" * 400} for n in range(messages - 1)]
    return {"model": model, "messages": [*talk, {"role": "user", "content": "Say hello"}], "stream": stream}


CASES = {
    "chat, verbatim": body("mocked", 1, False),
    "chat of 101 messages, verbatim": body("mocked", 101, False),
    "stream of 50 chunks, verbatim": body("mocked", 1, True),
    "chat, local model": body("local-chat", 1, False),
}


def cpu_seconds(process: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def send(url: str, content: bytes, count: int) -> None:
    headers = {"Authorization": "Bearer bench-key-of-the-caller", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:
        left = iter(range(count))

        async def ask() -> None:
            for _ in left:
                async with session.post(url + "/v1/chat/completions", data=content, headers=headers) as response:
                    await response.read()
                    assert response.status == 200, response.status

        await asyncio.gather(*(ask() for _ in range(CONNECTIONS)))


def measure(url: str, process: int, content: dict[str, object], count: int) -> tuple[float, float]:
    """(CPU microseconds per request, requests per second)."""
    raw = json.dumps(content, separators=(",", ":")).encode()
    asyncio.run(send(url, raw, count // 10))
    used, started = cpu_seconds(process), time.monotonic()
    asyncio.run(send(url, raw, count))
    return (cpu_seconds(process) - used) / count * 1e6, count / (time.monotonic() - started)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        upstream_port = 18999
        conf = Path(folder) / "gate.yaml"
        conf.write_text(CONF.format(folder=folder, port=upstream_port, access_log="true"), encoding="utf-8")
        upstream = subprocess.Popen([sys.executable, str(HERE / "upstream.py"), str(upstream_port)])
        gateway = subprocess.Popen(
            [str(COMMAND), "serve", "--conf", str(conf)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert gateway.stdout is not None
            url = next(m[1] for line in gateway.stdout if (m := re.search(r"serving (http://\S+)", line)))
            print(f"{'':34}{'CPU µs':>8}{'per s':>8}")
            for name, content in CASES.items():
                micros, rate = measure(url, gateway.pid, content, count)
                print(f"{name:34}{micros:8.0f}{rate:8.0f}")
        finally:
            gateway.terminate()
            upstream.terminate()
            gateway.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
