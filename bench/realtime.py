"""Cost of realtime sessions: CPU time and latency per message in both directions, and memory of idle sessions.

Usage: .venv/bin/python bench/realtime.py [--trips 3000] [--rounds 5] [--json] [--skip-memory] [--profile WAY].
Four ways lead to the same mock upstream, which answers each message of 4 KB with one of 4 KB: "direct", without a process
between; "floor", a plain relay of Tornado and aiohttp on uvloop (end of this file); "gateway", with the same dialect at caller
and upstream; "translated", where the caller uses the beta dialect, the upstream the current one, and audio events are renamed.
They are measured alternately in one run, so that other load affects all alike. The measured process is pinned to one core, this
process (client and upstream) to another if there is one. A round trip is one message up and one down; "per core" is computed from
its CPU time, which other load affects least; "per s" is the measured rate.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import cProfile
import hashlib
import json
import os
import pstats
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, cast

import aiohttp
import uvloop
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

TICKS = os.sysconf("SC_CLK_TCK")
MESSAGE_BYTES = 4096
CONNECTIONS = 16
PACED, PACE_SECONDS = 300, 0.005  # sequential messages of each way, for the latency
SESSIONS, AT_ONCE = (0, 500, 1000, 2000), 50  # AT_ONCE: concurrent handshakes; all SESSIONS are multiples of it
SETTLE_SECONDS = 1.0
PROFILE = "gateway.prof"
KEY = "bench-key-of-the-caller"
CONF = """
server: {{port: 0, data_dir: {folder}/var}}
plugins: {{openai: true}}
providers: {{mock: {{plugin: openai, base_url: "http://127.0.0.1:{port}/v1", api_key: bench-key}}}}
models: {{voice: {{provider: mock}}}}
realtime: {{sessions_per_key: 100000, messages_per_second: 1000000}}
keys: [{{name: bench, key: {key}}}]
"""
PATH = "/v1/realtime?model=voice"
AUTHORIZED = f"Authorization: Bearer {KEY}\r\n"
SDK = "User-Agent: OpenAI/Python 3.52.0\r\n"  # this client uses the current dialect
TEXT, CLOSE, PING, PONG = 0x81, 0x88, 0x89, 0x8A


def make_frame(opcode: int, payload: bytes, *, masked: bool) -> bytes:
    """A client frame (RFC 6455 5.2, below 64 KiB) with a mask of zeros, which leaves the payload unchanged at no cost."""
    bit, mask = (0x80, bytes(4)) if masked else (0, b"")
    size, large = len(payload), len(payload) > 125
    length = struct.pack("!BH", bit | 126, size) if large else struct.pack("!B", bit | size)
    return bytes((opcode,)) + length + mask + payload


def find_payload(data: bytes, at: int) -> slice | None:
    """Return the bounds of the payload of the frame at `at`; None if it is incomplete."""
    if len(data) < at + 4:
        return None
    length = data[at + 1] & 0x7F
    assert length < 127, "frames of 64 KiB or more are not supported"
    start = at + (4 if length == 126 else 2) + (4 if data[at + 1] & 0x80 else 0)
    end = start + (int.from_bytes(data[at + 2 : at + 4], "big") if length == 126 else length)
    return slice(start, end) if len(data) >= end else None


def make_event(kind: str, sound: str, **rest: Any) -> bytes:
    """Return an event with enough audio to make it MESSAGE_BYTES long."""
    bare = json.dumps({"type": kind, **rest, sound: "*"}, separators=(",", ":"))
    return bare.replace("*", "x" * (MESSAGE_BYTES - len(bare) + 1)).encode()


IDS = {"event_id": "event_1", "response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
CREATED = b'{"type":"session.created","event_id":"event_0","session":{"id":"sess_1","type":"realtime"}}'
UPSTREAM_MESSAGE = make_frame(TEXT, make_event("input_audio_buffer.append", "audio"), masked=True)
ANSWER_MESSAGE = make_frame(TEXT, make_event("response.output_audio.delta", "delta", **IDS), masked=False)
GREETING = make_frame(TEXT, CREATED, masked=False)
CLOSE_FRAME = make_frame(CLOSE, struct.pack("!H", 1000), masked=True)


class WebSocketPeer(asyncio.Protocol):
    """One end of a WebSocket with minimal overhead."""

    client = False
    transport: asyncio.Transport
    _kept = b""
    _open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are not a subclass

    def data_received(self, data: bytes) -> None:
        data, at = self._kept + data, 0
        if not self._open and (at := data.find(b"\r\n\r\n") + 4) >= 4:
            self._open = True
            self.on_message(None, data[:at])
        while self._open and (place := find_payload(data, at)) is not None:
            if data[at] in (PING, CLOSE):
                self.transport.write(make_frame(PONG if data[at] == PING else CLOSE, b"", masked=self.client))
            elif data[at] == TEXT:
                self.on_message(TEXT, data[place])
            at = place.stop
        self._kept = data[at:] if self._open else data

    def on_message(self, opcode: int | None, data: bytes) -> None:
        """Handle a text message; the head of the handshake is passed first, without an opcode."""


class Upstream(WebSocketPeer):
    """Sends a greeting, then answers each message with the same audio."""

    def on_message(self, opcode: int | None, data: bytes) -> None:
        if opcode == TEXT:
            self.transport.write(ANSWER_MESSAGE)
        elif found := re.search(rb"(?i)\nsec-websocket-key: *(\S+)", data):
            accept = base64.b64encode(hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            self.transport.write(head + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + GREETING)


class Client(WebSocketPeer):
    """The caller."""

    client = True
    news: asyncio.Future[bytes]

    def on_message(self, opcode: int | None, data: bytes) -> None:
        if opcode == TEXT:
            self.news.set_result(data)
        else:
            assert data.startswith(b"HTTP/1.1 101"), data

    def connection_lost(self, error: Exception | None) -> None:
        if not self.news.done():
            self.news.set_exception(error or ConnectionResetError())

    async def make_round_trip(self, said: bytes = UPSTREAM_MESSAGE) -> bytes:
        """Send one message and return the answer."""
        self.news = asyncio.get_running_loop().create_future()
        self.transport.write(said)
        return await self.news


@dataclass(slots=True)
class MeasuredWay:
    """`process` is None for "direct". `answer` is the event type of audio at the caller's end."""

    name: str
    port: int
    process: int | None = None
    headers: str = ""
    answer: bytes = b'"response.output_audio.delta"'
    clients: list[Client] = field(default_factory=list)
    micros: list[float] = field(default_factory=list)  # CPU time per round trip, by round
    rates: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    async def connect(self) -> Client:
        """Open a session and wait for its greeting."""
        _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", self.port)
        await client.make_round_trip(
            f"GET {PATH} HTTP/1.1\r\nHost: bench\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{self.headers}"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        return client


def read_cpu_seconds(process: int) -> float:
    """Return user and system time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_resident_kb(process: int) -> float:
    """Return the memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1024


async def run_burst(way: MeasuredWay, count: int) -> None:
    """Make `count` round trips over all connections concurrently, sequential on each."""
    left = iter(range(count))

    async def speak(client: Client) -> None:
        for _ in left:
            await client.make_round_trip()

    await asyncio.gather(*(speak(client) for client in way.clients))


async def measure_time(ways: list[MeasuredWay], trips: int, rounds: int) -> None:
    for way in ways:
        way.clients = [await way.connect() for _ in range(CONNECTIONS)]
        said = await way.clients[0].make_round_trip()
        assert way.answer in said, said[:200]
        await run_burst(way, trips // 2)
    for _ in range(rounds):
        for way in ways:
            process = way.process or os.getpid()
            used, started = read_cpu_seconds(process), time.monotonic()
            await run_burst(way, trips)
            way.rates.append(trips / (time.monotonic() - started))
            way.micros.append((read_cpu_seconds(process) - used) / trips * 1e6)


async def measure_latency(ways: list[MeasuredWay]) -> None:
    """Measure latency with one message at a time; the ways alternate."""
    for way in ways * PACED:
        await asyncio.sleep(PACE_SECONDS)
        started = time.perf_counter()
        await way.clients[0].make_round_trip()
        way.waits.append((time.perf_counter() - started) * 1e6)


async def measure_memory(way: MeasuredWay, counts: tuple[int, ...] = SESSIONS) -> dict[str, float]:
    """Return kilobytes of the process with that many idle sessions, after a message on each, and after all have closed."""
    assert way.process is not None
    clients: list[Client] = []
    found: dict[str, float] = {}
    used = read_cpu_seconds(way.process)
    for count in counts:
        while len(clients) < count:
            clients += await asyncio.gather(*(way.connect() for _ in range(AT_ONCE)))
        await asyncio.sleep(SETTLE_SECONDS)
        found[str(count)] = read_resident_kb(way.process)
    used = read_cpu_seconds(way.process) - used
    for client in clients:
        await client.make_round_trip()
    found["spoken"] = read_resident_kb(way.process)
    for client in clients:
        client.transport.write(CLOSE_FRAME)
    await asyncio.sleep(2 * SETTLE_SECONDS)
    found["closed"] = read_resident_kb(way.process)
    least, most = found[str(counts[0])], counts[-1]
    each = {"idle each": (found[str(most)] - least) / most, "spoken each": (found["spoken"] - least) / most}
    return {**found, **each, "µs to open": used / most * 1e6}


@contextmanager
def run_child(core: int, *arguments: str) -> Iterator[tuple[int, int]]:
    """Run this file as a process that prints its port; yields (its id, its port). Ended with the block."""
    command = [sys.executable, __file__, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        os.sched_setaffinity(process.pid, {core})
        assert process.stdout is not None
        found = next((m for line in process.stdout if (m := re.search(r"serving http://\S+:(\d+)", line))), None)
        assert found is not None, f"{command} ended with {process.wait()}"
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait()


def compute_figures(
    ways: list[MeasuredWay], memory: dict[str, dict[str, float]]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return medians of the rounds. Latencies are those added to the direct way, in microseconds."""
    bare = quantiles(ways[0].waits, n=100)
    times = {}
    for way in ways:
        micros, waits = median(way.micros), quantiles(way.waits, n=100)
        times[way.name] = {"CPU µs": micros, "per core": 1e6 / micros, "per s": median(way.rates)}
        times[way.name] |= {"p50 +µs": waits[49] - bare[49], "p99 +µs": waits[98] - bare[98]}
    return {"round trips": times, "RSS in KB": memory}


def show(tables: dict[str, dict[str, dict[str, float]]]) -> None:
    for name, rows in tables.items():
        for number, (row, cells) in enumerate(rows.items()):
            if not number:
                print(f"{name:12}" + "".join(f"{column:>12}" for column in cells))
            print(f"{row:12}" + "".join(f"{cell:12.1f}" for cell in cells.values()))


async def bench(options: argparse.Namespace) -> None:
    core, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {others[0] if others else core})
    upstream = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1000)
    port = upstream.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        conf = Path(folder) / "gate.yaml"
        conf.write_text(CONF.format(folder=folder, port=port, key=KEY), encoding="utf-8")
        floor, floor_port = stack.enter_context(run_child(core, "--relay", str(port)))
        gateway, gate_port = stack.enter_context(run_child(core, "--serve", str(conf)))
        ways = [MeasuredWay("direct", port), MeasuredWay("floor", floor_port, floor)]
        ways.append(MeasuredWay("gateway", gate_port, gateway, AUTHORIZED + SDK))
        ways.append(MeasuredWay("translated", gate_port, gateway, AUTHORIZED, b'"response.audio.delta"'))
        if options.profile:
            way = next(way for way in ways if way.name == options.profile)
            await profile(way, options.trips * options.rounds, Path(folder) / PROFILE)
            return
        memory = {}
        for way in () if options.skip_memory else ways[1:3]:
            await measure_memory(way, (AT_ONCE,))  # so that one-time allocations are done before
            memory[way.name] = await measure_memory(way)
        await measure_time(ways, options.trips, options.rounds)
        await measure_latency(ways)
    print(json.dumps(compute_figures(ways, memory))) if options.json else show(compute_figures(ways, memory))


def serve(conf: Path) -> None:
    """The gateway. cProfile starts at SIGUSR1, and SIGUSR2 writes its result."""
    from tornado_gate.cli import main

    watching = cProfile.Profile()
    signal.signal(signal.SIGUSR1, lambda *_: watching.enable())
    signal.signal(signal.SIGUSR2, lambda *_: watching.dump_stats(conf.with_name(PROFILE)))
    sys.argv = ["tornado-gate", "serve", "--conf", str(conf)]
    main()


async def profile(way: MeasuredWay, trips: int, file: Path) -> None:
    """Print the functions that take most of the gateway's time per round trip. cProfile exaggerates small functions."""
    assert way.process is not None
    way.clients = [await way.connect() for _ in range(CONNECTIONS)]
    os.kill(way.process, signal.SIGUSR1)
    await run_burst(way, trips)
    os.kill(way.process, signal.SIGUSR2)
    await run_burst(way, CONNECTIONS)  # answers after the signal show that it was handled
    rows = pstats.Stats(str(file)).stats.items()  # type: ignore[attr-defined]  # the only access to the figures
    print(f"{way.name}: {'own µs':>10}{'with callees':>14}{'calls':>8}")
    for (path, line, name), (_, calls, own, whole, _) in sorted(rows, key=lambda row: -row[1][2])[:25]:
        place = "/".join(Path(path).parts[-2:])
        print(f"{own / trips * 1e6:20.1f}{whole / trips * 1e6:14.1f}{calls / trips:8.2f}  {place}:{line} {name}")


class BareRelay(WebSocketHandler):
    """Relay messages in both directions without checks."""

    def initialize(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session

    def check_origin(self, origin: str) -> bool:
        return True

    async def open(self, *_: str, **__: str) -> None:
        self.set_nodelay(True)
        self.up = await self.session.ws_connect(self.url, heartbeat=30, compress=0)
        self.down = asyncio.ensure_future(self.pass_down())

    async def on_message(self, message: str | bytes) -> None:
        await self.up.send_str(str(message))

    async def pass_down(self) -> None:
        async for message in self.up:
            await self.write_message(message.data)
        self.close()

    def on_close(self) -> None:
        self.down.cancel()
        self.closing = asyncio.ensure_future(self.up.close())


async def relay(upstream: int) -> None:
    """Serve until the process ends."""
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    passed = {"url": f"ws://127.0.0.1:{upstream}{PATH}", "session": session}
    sockets = bind_sockets(0, "127.0.0.1")
    HTTPServer(Application([(r".*", BareRelay, passed)], websocket_ping_interval=20)).add_sockets(sockets)
    print(f"serving http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the cost of realtime sessions.")
    parser.add_argument("--trips", type=int, default=3000, help="round trips per way and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--profile", choices=("gateway", "translated"), help="print a profile instead")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--relay", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if options.serve:
        serve(options.serve)
    else:
        with asyncio.Runner(
            loop_factory=uvloop.new_event_loop
        ) as runner:  # as the gateway does; otherwise the floor would be too high
            runner.run(relay(options.relay) if options.relay else bench(options))


if __name__ == "__main__":
    main()
