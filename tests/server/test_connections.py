"""A gateway process with few descriptors, and callers that take more than their part."""

from __future__ import annotations

import re
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import COMMAND
from tests.support.process import Child
from tests.support.variants import vary

KEY = "test-key-of-connections"
CONF = f"""
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
keys:
  - {{name: test, key: {KEY}}}
"""
BODY = {"model": "local-chat", "messages": [{"role": "user", "content": "hi"}]}


class Started:
    """A gateway below ``ulimit -n``."""

    def __init__(self, folder: Path, limits: str, *, server: str = "{}") -> None:
        (folder / "gate.yaml").write_text(f"{CONF}server: {server}\n", encoding="utf-8")
        serve = [str(COMMAND), "serve", "--conf", "gate.yaml", "--port", "0", "--data-dir", str(folder / "var")]
        self.child = Child(["sh", "-c", f'{limits}; exec "$@"', "sh", *serve], folder=folder)
        self.url = self.child.wait_for_line(r"^tornado-gate: serving (http://\S+)")[1]
        self.address = ("127.0.0.1", int(self.url.rpartition(":")[2]))

    def chat(self) -> httpx.Response:
        headers = {"Authorization": f"Bearer {KEY}"}
        url = self.url + "/v1/chat/completions"
        return httpx.post(url, json=BODY, headers=headers, trust_env=False, timeout=30)

    def count_limit(self, limit: str) -> float:
        text = httpx.get(self.url + "/metrics", trust_env=False, timeout=30).text
        found = re.search(rf'^tornado_gate_connection_limits_total\{{limit="{limit}"\}} ([\d.]+)$', text, re.M)
        return float(found[1]) if found else 0.0


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Started] = []

    def start(limits: str, *, server: str = "{}") -> Started:
        started.append(Started(tmp_path, limits, server=server))
        return started[-1]

    yield start
    for one in started:
        one.child.stop()


@pytest.mark.parametrize("server", vary("httptools", "tornado"))
def test_idle_connections_beyond_the_descriptors_harm_no_caller_and_no_store(start: Start, server: str) -> None:
    gateway = start("ulimit -n 256", server=f"{{http: {server}}}")
    idle = [socket.create_connection(gateway.address) for _ in range(300)]
    for _ in range(5):
        assert gateway.chat().status_code == 200
    assert gateway.count_limit("connections") > 0
    assert len(list(Path(f"/proc/{gateway.child.process.pid}/fd").iterdir())) < 250
    for one in idle:
        one.close()
    output = gateway.child.wait_for_output("connection closed: the limit server.max_connections")
    assert output.count("connection closed: the limit server.max_connections") == 1
    assert "Too many open files" not in output
    assert "at most 64 connections of callers are accepted" in output


@pytest.mark.qa
def test_the_soft_limit_of_open_files_is_raised_to_the_hard_limit(start: Start) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gateway = start("ulimit -Sn 100")
    assert gateway.chat().status_code == 200
    limits = Path(f"/proc/{gateway.child.process.pid}/limits").read_text()
    soft = int(re.findall(r"^Max open files +(\d+)", limits, re.M)[0])
    assert soft == min(hard, 1_048_576) if hard != resource.RLIM_INFINITY else soft == 1_048_576
    gateway.child.wait_for_output(f"limit of open files raised from 100 to {soft}")
