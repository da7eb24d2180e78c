"""Nodes of one gateway, each with links of its own to the shared engines, so that a test cuts one node from one engine."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from qa.cluster.network import Network, can_make_networks
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.process import Child
from tests.support.upstream import Upstream
from tests.support.valkey import Valkey

KEY = "tg-key-of-the-callers-of-the-cluster-0123456789"
ADMIN = "key-of-the-administrator-of-the-cluster"
ENGINES = ("postgres", "valkey")
CONF = """
server: {{metrics_token: {metrics}, drain_delay: {drain}}}
database: {postgres}
tasks: {{store: database}}
plugins: {{openai: true}}
providers:
  o: {{plugin: openai, base_url: "{upstream}/v1", api_key: key-of-the-upstream}}
models:
  chat: {{provider: o, model: gpt-a}}
  sora: {{provider: o, model: sora-2}}
limits: {{store: "{valkey}"}}
videos: {{concurrency: 4, poll_seconds: 0.05, keep_seconds: 600}}
fetch: {{allow_networks: [127.0.0.0/8, 10.213.0.0/16]}}
circuits: {{failures: 1000, open_seconds: 0.001}}
keys:
  - {{name: root, key: {admin}, role: administrator}}
"""
METRICS = "token-of-the-metrics-of-the-cluster"
DRAIN_SECONDS = 3.0
"""The time in which a load balancer stops using a node that will close its port."""
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}

_CLIENT = httpx.Client(trust_env=False, verify=False, limits=httpx.Limits(max_keepalive_connections=0))


class EngineLink:
    """The link of a node to an engine: see `qa.cluster.link`."""

    def __init__(self, address: str, host: str) -> None:
        self._child = Child([sys.executable, "-m", "qa.cluster.link", address, host])
        match = self._child.wait_for_line(r"link: data (\d+) control (\d+)")
        self.address, self._control = f"{host}:{match[1]}", int(match[2])

    def set_mode(self, command: str) -> dict[str, int]:
        """Pass, delay, stall or refuse; return the counts so far."""
        with socket.create_connection(("127.0.0.1", self._control), 10) as connection:
            connection.sendall(command.encode() + b"\n")
            return dict(json.loads(connection.makefile().readline()))

    def close(self) -> None:
        self._child.kill()


class Cluster:
    """Nodes by name. A node that starts again keeps its folder and its links."""

    def __init__(
        self,
        folder: Path,
        postgres: PostgresServer,
        database: str,
        valkey: Valkey,
        upstream: Upstream,
        conf: str = CONF,
    ) -> None:
        self.folder, self.upstream, self.conf = folder, upstream, conf
        self.database = database
        self._password = postgres.password
        self._addresses = {
            "postgres": str(postgres.folder / ".s.PGSQL.5432"),
            "valkey": urlsplit(valkey.url).netloc,
            "upstream": urlsplit(upstream.url).netloc,
        }
        self.links: dict[tuple[str, str], EngineLink] = {}
        self.networks: dict[str, Network] = {}
        self.nodes: dict[str, Gateway] = {}

    def isolate(self, name: str) -> None:
        """Let a node, which starts later, have a network of its own, if this machine can make one."""
        if can_make_networks():
            self.networks[name] = Network()

    def start(
        self, name: str, *arguments: str, drain: float = 0.0, environment: Mapping[str, str] | None = None
    ) -> Gateway:
        """Start a node, whose `server.drain_delay` is `drain`.

        `environment`: it is a process of the installed command, with these variables.
        """
        network = self.networks.get(name)
        for number, engine in enumerate(self._addresses):
            if (name, engine) not in self.links and (network or engine != "upstream"):
                host = network.engines[number] if network else "127.0.0.1"
                self.links[name, engine] = EngineLink(self._addresses[engine], host)
        (self.folder / name).mkdir(exist_ok=True)
        conf = self.conf.format(
            postgres=f"postgresql://gate:{self._password}@{self.links[name, 'postgres'].address}/{self.database}",
            valkey=f"valkey://{self.links[name, 'valkey'].address}",
            upstream=f"http://{self.links[name, 'upstream'].address}" if network else self.upstream.url,
            admin=ADMIN,
            metrics=METRICS,
            drain=drain,
        )
        if network:
            arguments = ("--host", network.node, *arguments)
        self.nodes[name] = Gateway.start(
            conf,
            self.folder / name,
            *arguments,
            environment=environment,
            installed=environment is not None or network is not None,
            prefix=network.prefix if network else (),
        )
        return self.nodes[name]

    def cut(self, name: str, engine: str, command: str) -> None:
        """Change the link of a node: ``drop``, ``stall``, ``refuse``, ``delay SECONDS``, ``pass``.

        ``drop`` discards the packets between an isolated node and the engine. Without a network of its own, the link stalls.
        """
        network = self.networks.get(name)
        engine_address = self.links[name, engine].address.partition(":")[0]
        if network and command == "drop":
            network.drop(engine_address)
            return
        if network and command == "pass":
            network.let_pass(engine_address)
        self.links[name, engine].set_mode("stall" if command == "drop" else command)

    def close(self) -> None:
        for link in self.links.values():
            link.set_mode("pass")
        for node in self.nodes.values():
            if node.child.process.poll() is None:
                node.child.kill()
        for link in self.links.values():
            link.close()
        for network in self.networks.values():
            network.close()


def send(
    node: Gateway, method: str, path: str, key: str = KEY, *, timeout: float = 60.0, **options: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", **options.pop("headers", {})}
    return _CLIENT.request(method, node.url + path, headers=headers, timeout=timeout, **options)


def ask(node: Gateway, key: str = KEY) -> int:
    """Send a chat; return the status."""
    return send(node, "POST", "/v1/chat/completions", key, json=CHAT).status_code


def create_key(node: Gateway, name: str = "caller", **members: Any) -> str:
    """Create a key by /admin/v1; return its text."""
    response = send(node, "POST", "/admin/v1/keys", ADMIN, json={"name": name, **members})
    assert response.status_code == 200, response.text
    return str(response.json()["text"])


def read_metric(node: Gateway, name: str) -> float:
    """Return a series of /metrics; 0 if it does not exist."""
    text = send(node, "GET", "/metrics", METRICS).text
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), 0.0)


def shift_clock(folder: Path, seconds: float) -> dict[str, str]:
    """Return an environment in which Python's `time.time` is wrong by `seconds`, as on a machine with a wrong clock."""
    folder.mkdir(exist_ok=True)
    code = (
        "import time as _time\n_real, _real_ns = _time.time, _time.time_ns\n"
        f"_time.time = lambda: _real() + {seconds}\n"
        f"_time.time_ns = lambda: _real_ns() + int({seconds} * 1e9)\n"
    )
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))}
