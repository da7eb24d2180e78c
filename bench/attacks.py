"""Attacks a gateway and measures what they cost: its memory, and how long its event loop is blocked.

Usage: python -m bench.attacks [--gateway FOLDER] [--json FILE] [ATTACK ...]. FOLDER is a checkout with a .venv (default: this
one), so that two versions can be compared. Each attack runs against a gateway that was just started. Columns:

- `rss before`, `peak`: MiB of the gateway's process before the attack, and its maximum during the attack.
- `blocked`: the longest time in ms that a request for /healthz took during the attack: an upper bound of how long the event loop
  was blocked, because the attacker and the gateway share the machine.
- the outcome for the attacker or for another caller.

This is a benchmark, not a test: the tests of the same faults assert behaviour, not figures.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.side import ROOT, end, find_free_port

MIB = 1024 * 1024
ATTACKER, VICTIM = "attacker-key-0123456789", "victim-key-0123456789ab"
CONF = """
server: {{access_log: false, data_dir: {data}}}
plugins: {{openai: true, gemini: true, local: true}}
providers:
  local: {{plugin: local}}
  hostile:
    {{plugin: openai, base_url: "http://127.0.0.1:{upstream}/v1", api_key: upstream-key-0123456789, timeouts: {{total: 20}}}}
  pictures: {{plugin: gemini, base_url: "http://127.0.0.1:{upstream}", api_key: upstream-key-0123456789}}
models:
  local-chat: {{provider: local}}
  local-video: {{provider: local}}
  bomb: {{provider: hostile}}
  large: {{provider: hostile}}
  endless-event: {{provider: hostile}}
  endless-stream: {{provider: hostile}}
  fine: {{provider: hostile}}
  "any/*": {{provider: hostile}}
  pictures: {{provider: pictures, model: gemini-2.5-flash}}
keys:
  - {{name: attacker, key: {attacker}}}
  - {{name: victim, key: {victim}}}
fetch: {{allow_private: true}}
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway under attack."""

    port: int
    upstream: int
    process: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def send_head(self, path: str, *headers: str, key: str = ATTACKER) -> socket.socket:
        """A connection on which the head of a POST has been sent."""
        sock = self.connect()
        lines = (f"POST {path} HTTP/1.1", "Host: gate", f"Authorization: Bearer {key}", *headers, "", "")
        sock.sendall("\r\n".join(lines).encode())
        return sock

    def post(self, path: str, body: bytes, key: str = ATTACKER, kind: str = "application/json") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", path, body, {"Authorization": f"Bearer {key}", "Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, type(error).__name__.encode()
        finally:
            connection.close()

    def rss(self, field: str = "VmRSS") -> int:
        """Resident memory in MiB; `VmHWM`: its maximum."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1]) // 1024


def read_status(sock: socket.socket) -> str:
    """The status of a response on `sock`, or how the connection ended."""
    try:
        return sock.recv(100).split(b" ")[1].decode() if sock else ""
    except (OSError, IndexError) as error:
        return "closed" if isinstance(error, IndexError) else type(error).__name__


def send_quietly(sock: socket.socket, data: bytes) -> bool:
    """Send data; False if the gateway closed the connection."""
    try:
        sock.sendall(data)
    except OSError:
        return False
    return True


def chat(gateway: Gateway, model: str, key: str = ATTACKER, **more: object) -> tuple[int, bytes]:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], **more}
    return gateway.post("/v1/chat/completions", json.dumps(body).encode(), key)


# The attacks; each returns what came of it


def unknown_path(gateway: Gateway) -> str:
    """A1: six bodies of 95 MiB at a path that does not exist, without a key"""
    size = 95 * MIB
    with contextlib.ExitStack() as open_sockets:
        ends = []
        for _ in range(6):
            sock = gateway.connect()
            open_sockets.callback(sock.close)
            sock.sendall(f"POST /nope HTTP/1.1\r\nHost: gate\r\nContent-Length: {size + 1}\r\n\r\n".encode())
            send_quietly(sock, bytes(size))
            ends.append(sock)
        time.sleep(1)
        return f"{gateway.rss()} MiB held while the connections are open"


def unknown_path_form(gateway: Gateway) -> str:
    """A1: a form body of 95 MiB at such a path"""
    body = b"a=b&" * (24 * MIB)
    status, _ = gateway.post("/nope", body[: 95 * MIB], kind="application/x-www-form-urlencoded")
    return f"status {status}"


def reset_chunked(gateway: Gateway) -> str:
    """A2: forty chunked requests that are reset at once"""
    for _ in range(40):
        sock = gateway.send_head("/v1/chat/completions", "Transfer-Encoding: chunked")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.sendall(b"2\r\n{}\r\n0\r\n\r\n")
        sock.close()
    body = {"model": "fine", "messages": [{"role": "user", "content": "a" * 2 * MIB}]}
    started = time.monotonic()
    status, _ = gateway.post("/v1/chat/completions", json.dumps(body).encode(), VICTIM)
    return f"another caller's 2 MiB: {status} after {time.monotonic() - started:.1f} s"


def dense_objects(gateway: Gateway) -> str:
    """A3: 31 MiB of objects with one escaped string"""
    body = b'{"model": "fine", "x": "\\u003a", "messages": [' + b'{"":0},' * (31 * MIB // 7) + b"{}]}"
    return f"status {gateway.post('/v1/chat/completions', body)[0]}"


def dense_arrays(gateway: Gateway) -> str:
    """A3: 31 MiB of empty arrays"""
    body = b'{"model": "fine", "messages": [' + b"[]," * (31 * MIB // 3) + b"[]]}"
    return f"status {gateway.post('/v1/chat/completions', body)[0]}"


def content_parts(gateway: Gateway) -> str:
    """A3: 1.2 million content parts"""
    parts = b",".join([b'{"type":"text","text":""}'] * 1_200_000)
    body = b'{"model": "local-chat", "messages": [{"role": "user", "content": [' + parts + b"]}]}"
    status, answer = gateway.post("/v1/chat/completions", body)
    return f"status {status}" + (", blames a plugin" if b"plugin" in answer else "")


def long_names(gateway: Gateway) -> str:
    """A4: eight model names of 25 MB"""
    statuses = {chat(gateway, "any/" + "m" * 25_000_000 + str(number))[0] for number in range(8)}
    time.sleep(1)
    return f"status {statuses}, {gateway.rss()} MiB afterwards"


def idle_bodies(gateway: Gateway) -> str:
    """A5: twenty bodies of 31 MiB that are declared and not sent"""
    with contextlib.ExitStack() as open_sockets:
        for _ in range(20):
            open_sockets.callback(gateway.send_head("/v1/chat/completions", f"Content-Length: {31 * MIB}").close)
        time.sleep(0.5)
        body = {"model": "fine", "messages": [{"role": "user", "content": "a" * 2 * MIB}]}
        started = time.monotonic()
        status, _ = gateway.post("/v1/chat/completions", json.dumps(body).encode(), VICTIM)
        return f"another caller's 2 MiB: {status} after {time.monotonic() - started:.1f} s"


def pictures(gateway: Gateway) -> str:
    """A6: twenty pictures of 19 MB by address"""
    parts = [
        {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{gateway.upstream}/picture?{number}"}}
        for number in range(20)
    ]
    body = {"model": "pictures", "messages": [{"role": "user", "content": parts}]}
    status, answer = gateway.post("/v1/chat/completions", json.dumps(body).encode())
    return f"status {status}" + (f": {json.loads(answer)['error']['message']}" if status >= 400 else "")


def bomb(gateway: Gateway) -> str:
    """A7: an upstream's 1 MB of gzip that is 1 GB"""
    return f"status {chat(gateway, 'bomb')[0]}"


def large_answer(gateway: Gateway) -> str:
    """A7: an upstream's 400 MB of JSON"""
    return f"status {chat(gateway, 'large')[0]}"


def endless_event(gateway: Gateway) -> str:
    """A7: an upstream's event of 400 MB, translated for the caller"""
    body = {"model": "endless-event", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "a"}]}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    headers = {"x-api-key": ATTACKER, "anthropic-version": "2023-06-01", "Content-Type": "application/json"}
    connection.request("POST", "/v1/messages", json.dumps(body), headers)
    answer = connection.getresponse()
    return f"status {answer.status}, {len(answer.read())} bytes"


def many_headers(gateway: Gateway) -> str:
    """A8: 10,829 header names of four bytes"""
    sock = gateway.connect()
    names = "".join(f"{number:x}:\r\n" for number in range(4096, 4096 + 8000))
    sock.sendall(f"GET /healthz HTTP/1.1\r\nHost: gate\r\n{names}\r\n".encode())
    return f"status {read_status(sock)}"


def kept_responses(gateway: Gateway) -> str:
    """A8: 30,000 kept responses"""
    body = json.dumps({"model": "local-chat", "input": "hi", "store": True})
    headers = {"Authorization": f"Bearer {ATTACKER}", "Content-Type": "application/json"}

    def create(times: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
        for _ in range(times):
            connection.request("POST", "/v1/responses", body, headers)
            connection.getresponse().read()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(create, [7500] * 4))
    return f"{gateway.rss()} MiB afterwards"


def near_borders(gateway: Gateway) -> str:
    """A8: a form of 32 MiB of borders with one byte too many"""
    body = b'--b\r\nContent-Disposition: form-data; name="input_reference"; filename="f"\r\n\r\n'
    body += b"\r\n--bx" * (32 * MIB // 6) + b"\r\n--b--\r\n"
    started = time.monotonic()
    status, _ = gateway.post("/v1/videos", body, kind="multipart/form-data; boundary=b")
    return f"status {status}, {32 / (time.monotonic() - started):.0f} MiB/s"


def idle_sockets(gateway: Gateway) -> str:
    """A8: 300 idle connections, with 256 file descriptors at first"""
    with contextlib.ExitStack() as open_sockets:
        for _ in range(300):
            with contextlib.suppress(OSError):
                open_sockets.callback(gateway.connect().close)
        time.sleep(1)
        done = [chat(gateway, "fine", VICTIM)[0] for _ in range(5)]
        return f"another caller's statuses: {done}"


def stalled_reader(gateway: Gateway) -> str:
    """A9: a reader who stops reading a stream, with a total of 20 s"""
    body = b'{"model": "endless-stream", "stream": true, "messages": [{"role": "user", "content": "a"}]}'
    sock = gateway.send_head("/v1/chat/completions", "Content-Type: application/json", f"Content-Length: {len(body)}")
    sock.sendall(body)
    sock.recv(1000)
    for _ in range(60):
        time.sleep(1)
        connection = http.client.HTTPConnection("127.0.0.1", gateway.upstream)
        connection.request("GET", "/closed")
        seconds = json.loads(connection.getresponse().read())["seconds"]
        if seconds >= 0:
            return f"upstream closed after {seconds:.0f} s"
    return "upstream still open after 60 s"


ATTACKS: tuple[Callable[[Gateway], str], ...] = (
    unknown_path,
    unknown_path_form,
    reset_chunked,
    dense_objects,
    dense_arrays,
    content_parts,
    long_names,
    idle_bodies,
    pictures,
    bomb,
    large_answer,
    endless_event,
    many_headers,
    near_borders,
    idle_sockets,
    kept_responses,
    stalled_reader,
)


# Measuring


@dataclass(frozen=True, slots=True)
class Figures:
    """What one attack did. Memory in MiB, `blocked` in ms."""

    attack: str
    before: int
    peak: int
    blocked: int
    outcome: str


def probe(port: int, control: multiprocessing.connection.Connection) -> None:
    """Ask for /healthz again and again until told to stop; sends the longest time in seconds."""
    longest, connection = 0.0, http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    control.send(0.0)
    while not control.poll(0.005):
        started = time.monotonic()
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
            time.sleep(0.05)
            continue
        longest = max(longest, time.monotonic() - started)
    control.send(longest)


def measure(attack: Callable[[Gateway], str], gateway: Gateway) -> Figures:
    chat(gateway, "fine")  # load what the first request loads
    before = gateway.rss()
    Path(f"/proc/{gateway.process}/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    ours, theirs = multiprocessing.Pipe()
    prober = multiprocessing.get_context("spawn").Process(target=probe, args=(gateway.port, theirs), daemon=True)
    prober.start()
    ours.recv()
    try:
        outcome = attack(gateway)
    except (OSError, http.client.HTTPException) as error:
        outcome = f"{type(error).__name__}: {error}"
    ours.send(None)
    longest = ours.recv()
    prober.join()
    return Figures(attack.__doc__ or "", before, gateway.rss("VmHWM"), round(longest * 1000), outcome)


@contextlib.contextmanager
def run_gateway(folder: Path, upstream: int, descriptors: int | None) -> Iterator[Gateway]:
    """Run the gateway of the checkout `folder`; `descriptors` limits its files (soft limit)."""
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data:
        conf = Path(data, "gate.yaml")
        conf.write_text(
            CONF.format(data=Path(data, "var"), upstream=upstream, attacker=ATTACKER, victim=VICTIM), encoding="utf-8"
        )
        child = subprocess.Popen(
            [folder / ".venv" / "bin" / "tornado-gate", "serve", "--conf", conf, "--port", str(port)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if not os.environ.get("SHOW") else None,
            start_new_session=True,
            preexec_fn=lambda: limit_descriptors(descriptors),  # noqa: PLW1509  this process has no threads here
        )
        try:
            wait_until_ready(port, child)
            yield Gateway(port, upstream, child.pid)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def limit_descriptors(count: int | None) -> None:
    if count is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def wait_until_ready(port: int, child: subprocess.Popen[bytes]) -> None:
    while child.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise SystemExit("the gateway does not start")


def main(options: argparse.Namespace) -> None:
    chosen = [attack for attack in ATTACKS if not options.attacks or attack.__name__ in options.attacks]
    upstream = find_free_port()
    hostile = subprocess.Popen([sys.executable, "-m", "bench.hostile", str(upstream)], cwd=ROOT, stdout=subprocess.PIPE)
    assert hostile.stdout
    hostile.stdout.readline()
    found = []
    print("| attack | RSS before | peak | blocked ms | outcome |\n|---|---|---|---|---|")
    try:
        for attack in chosen:
            descriptors = 256 if attack is idle_sockets else None
            with run_gateway(options.gateway.resolve(), upstream, descriptors) as gateway:
                one = measure(attack, gateway)
            found.append(one)
            print(f"| {one.attack} | {one.before} | {one.peak} | {one.blocked} | {one.outcome} |", flush=True)
    finally:
        end(hostile)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", help="names of attacks; default: all", metavar="ATTACK")
    parser.add_argument("--gateway", type=Path, default=ROOT, help="checkout of the gateway to attack")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    main(parser.parse_args())
