"""What one target that hangs costs the callers of another, and how much memory an upstream takes that never ends.

Usage: python -m bench.overload [--requests N] [--hanging N]. Two tables:

- the latency of a healthy model at 8 connections, alone and while N requests hang at another provider entry, in alternating
  rounds; the ratio is that of the medians of all rounds. The machine has few cores, so compare only the two columns.
- the maximum of the gateway's resident memory while each response without an end is given up (`tests/support/endless.py`), less
  what it was before; eight callers at a time, whole and streamed, verbatim and translated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.attacks import wait_until_ready
from bench.side import ROOT, end, find_free_port

KEY = "caller-key-0123456789"
CONNECTIONS = 8
ROUNDS = 5
ATTACKS = ("answer", "spaces", "tiny-chunks", "event", "comments", "newlines", "events", "headers", "interim", "bomb")
CONF = """
server: {{access_log: false, data_dir: {data}}}
plugins: {{openai: true}}
providers:
  healthy: {{plugin: openai, base_url: "http://127.0.0.1:{upstream}/healthy/v1", api_key: upstream-key-0123456789}}
  hanging: {{plugin: openai, base_url: "http://127.0.0.1:{upstream}/hanging/v1", api_key: upstream-key-0123456789}}
  limited:
    plugin: openai
    base_url: "http://127.0.0.1:{upstream}/hanging/v1"
    api_key: upstream-key-0123456789
    concurrency: {{most: 50, queue: 1000, wait: 60s}}
{endless}
models:
  healthy: {{provider: healthy}}
  hanging: {{provider: hanging}}
  limited: {{provider: limited}}
{models}
keys: [{{name: caller, key: {key}}}]
circuits: {{failures: 100000}}
"""
CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


async def serve_upstream(port: int) -> None:
    """Answer below /healthy, and never below /hanging."""
    body = json.dumps(CHAT).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                if b"/hanging/" in head.split(b"\r\n", 1)[0]:
                    await reader.read()  # until the gateway closes the connection
                    return
                writer.write(answer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


def make_request(model: str, path: str = "/v1/chat/completions", **more: object) -> bytes:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **more}).encode()
    lines = (
        f"POST {path} HTTP/1.1",
        "Host: gate",
        f"Authorization: Bearer {KEY}",
        "anthropic-version: 2023-06-01",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


async def ask_often(port: int, times: int) -> list[float]:
    """The seconds of each of `times` requests, one after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request, seconds = make_request("healthy"), []
    for _ in range(times):
        started = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length
        await reader.readexactly(int(length[1]))
        seconds.append(time.perf_counter() - started)
    writer.close()
    return seconds


async def measure_latency(port: int, times: int) -> tuple[float, float]:
    """p50 and p99 in ms."""
    found = await asyncio.gather(*(ask_often(port, times // CONNECTIONS) for _ in range(CONNECTIONS)))
    ordered = sorted(second for one in found for second in one)
    return ordered[len(ordered) // 2] * 1000, ordered[len(ordered) * 99 // 100] * 1000


async def hang(port: int, model: str, times: int) -> list[asyncio.StreamWriter]:
    """Send requests that are not answered; those who close the writers end them."""
    writers = []
    for _ in range(times):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(make_request(model))
        writers.append(writer)
    await asyncio.sleep(1)
    return writers


async def compare_latencies(port: int, requests: int, hanging: int) -> None:
    await measure_latency(port, requests)  # load what requests load
    print("| | p50 ms alone | p99 ms alone | p50 ms | p99 ms | p99 ratio |\n|---|---|---|---|---|---|")
    for model, label in (("hanging", f"{hanging} requests hang"), ("limited", f"{hanging} requests, 50 places")):
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append(await measure_latency(port, requests))
            writers = await hang(port, model, hanging)
            beside.append(await measure_latency(port, requests))
            for writer in writers:
                writer.close()
            await asyncio.sleep(0.5)
        before, after = (
            [statistics.median(values) for values in zip(*rounds, strict=True)] for rounds in (alone, beside)
        )
        figures = f"{before[0]:.2f} | {before[1]:.2f} | {after[0]:.2f} | {after[1]:.2f} | {after[1] / before[1]:.2f}"
        print(f"| {label} | {figures} |", flush=True)


async def ask_endless(port: int, request: bytes) -> str:
    """The status, and the code of the error, of one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace(b"Host: gate", b"Host: gate\r\nConnection: close"))
    status, tail = b"", b""
    while piece := await reader.read(65536):
        status = status or piece[9:12]
        tail = (tail + piece)[-2000:]
    writer.close()
    code = re.findall(rb'"code":\s*"(\w+)"', tail)
    return f"{status.decode()} {code[-1].decode() if code else 'cut off'}"


async def measure_endless(port: int, process: int) -> None:
    print("\n| response without an end | peak MiB above before | outcomes |\n|---|---|---|")
    for attack in ATTACKS:
        await ask_endless(port, make_request(attack))
        before = read_memory(process, "VmRSS")
        reset_peak(process)
        requests = [
            make_request(attack),
            make_request(attack, stream=True),
            make_request(attack, "/v1/messages", max_tokens=9),
            make_request(attack, "/v1/messages", max_tokens=9, stream=True),
        ]
        outcomes = await asyncio.gather(*(ask_endless(port, request) for request in requests * 2))
        told = ", ".join(sorted(set(outcomes)))
        print(f"| {attack} | {read_memory(process, 'VmHWM') - before} | {told} |", flush=True)


def reset_peak(process: int) -> None:
    """Let VmHWM begin again."""
    Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")


def read_memory(process: int, field: str) -> int:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found
    return int(found[1]) // 1024


@contextmanager
def run_gateway(upstream: int, endless: str) -> Iterator[tuple[int, int]]:
    """Run the gateway of this checkout; yields its port and its process."""
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data:
        conf = Path(data, "gate.yaml")
        entry = '  {name}: {{plugin: openai, base_url: "{url}/{name}/v1", api_key: upstream-key-0123456789}}'
        text = CONF.format(
            data=Path(data, "var"),
            upstream=upstream,
            key=KEY,
            endless="\n".join(entry.format(name=name, url=endless) for name in ATTACKS),
            models="\n".join(f"  {name}: {{provider: {name}}}" for name in ATTACKS),
        )
        conf.write_text(text, encoding="utf-8")
        command = [
            str(Path(sys.executable).with_name("tornado-gate")),
            "serve",
            "--conf",
            str(conf),
            "--port",
            str(port),
        ]
        quiet = None if os.environ.get("SHOW") else subprocess.DEVNULL
        child = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True)
        try:
            wait_until_ready(port, child)
            yield port, child.pid
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def main(options: argparse.Namespace) -> None:
    upstream = find_free_port()
    command = [sys.executable, "-m", "bench.overload", "--upstream", str(upstream)]
    healthy = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    endless = subprocess.Popen([sys.executable, "-m", "tests.support.endless"], cwd=ROOT, stdout=subprocess.PIPE)
    assert healthy.stdout
    assert endless.stdout
    healthy.stdout.readline()
    url = endless.stdout.readline().decode().split()[-1]
    try:
        with run_gateway(upstream, url) as (port, process):
            asyncio.run(compare_latencies(port, options.requests, options.hanging))
            asyncio.run(measure_endless(port, process))
    finally:
        end(healthy)
        end(endless)
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000, help="requests of a round (default 2000)")
    parser.add_argument("--hanging", type=int, default=500, help="requests that hang (default 500)")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream:
        asyncio.run(serve_upstream(given.upstream))
    else:
        main(given)
