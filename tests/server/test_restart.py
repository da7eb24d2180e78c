"""SIGUSR2: a new gateway takes the place of a running one, and no caller notices. The installed command."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import COMMAND, Gateway
from tests.support.process import Child
from tests.support.tls import CertificateFiles
from tests.support.variants import vary
from tornado_gate.server.process.handover import Successor
from tornado_gate.server.process.listeners import Listeners

KEY = "test-key-of-restarts"
CONF = f"""
server: {{metrics_port: 0, drain_seconds: 20}}
plugins: {{local: true}}
providers:
  local: {{plugin: local}}
models:
  local-chat: {{provider: local}}
keys: [{{name: test, key: {KEY}}}]
"""
HEADERS = {"Authorization": f"Bearer {KEY}"}
BODY = {"model": "local-chat", "messages": [{"role": "user", "content": "Say hello"}], "max_tokens": 5}
PATIENCE_SECONDS = 60.0

StartGateway = Callable[..., Gateway]


class Traffic:
    """Clients that ask without pause, each on one connection that it keeps, or on a new one for each request."""

    def __init__(self, url: str, trust: ssl.SSLContext | bool = True) -> None:
        self.url = url + "/v1/chat/completions"
        self.trust = trust
        self.failures: list[str] = []
        self.answered = 0
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(keeps, streams))
            for keeps in (True, False)
            for streams in (True, False)
        ]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, number: int) -> None:
        """Wait until `number` more requests were answered."""
        wanted, ends = self.answered + number, time.monotonic() + PATIENCE_SECONDS
        while self.answered < wanted:
            assert time.monotonic() < ends, self.failures
            time.sleep(0.01)

    def _ask(self, keeps: bool, streams: bool) -> None:
        limits = httpx.Limits(max_keepalive_connections=None if keeps else 0)
        with httpx.Client(
            trust_env=False, verify=self.trust, timeout=PATIENCE_SECONDS, headers=HEADERS, limits=limits
        ) as client:
            while not self._stop.is_set():
                try:
                    response = client.post(self.url, json={**BODY, "stream": streams})
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                whole = response.text.rstrip().endswith("data: [DONE]") if streams else '"choices"' in response.text
                if response.status_code != 200 or not whole:
                    self.failures.append(f"{response.status_code}: {response.text}")
                self.answered += 1


@pytest.fixture
def stop_successors() -> Iterator[list[int]]:
    """Process ids of gateways that no `Child` stands for. They are ended with the test."""
    found: list[int] = []
    yield found
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def replace_once(gateway: Gateway, running: int, successors: list[int]) -> int:
    """Let the gateway `running` be replaced. Returns the process id of the new one, which serves."""
    os.kill(running, signal.SIGUSR2)
    new = int(gateway.child.wait_for_line(r"process (\d+) was started to replace this one")[1])
    successors.append(new)
    gateway.child.wait_for_line("tornado-gate: serving ")
    return new


def wait_for_end(process: int) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while Path(f"/proc/{process}").exists() and "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text():
        assert time.monotonic() < ends, f"process {process} runs"
        time.sleep(0.02)


@pytest.mark.parametrize(("processes", "times"), vary((1, 1), (2, 1), (1, 3)))
def test_no_request_fails_while_the_gateway_is_replaced(
    start_gateway: StartGateway, stop_successors: list[int], processes: int, times: int
) -> None:
    gateway = start_gateway(CONF, "--processes", str(processes), installed=True)
    first = running = gateway.child.process.pid
    with Traffic(gateway.url) as traffic:
        for _ in range(times):
            traffic.wait_for_more(8)
            old, running = running, replace_once(gateway, running, stop_successors)
            for _ in range(processes):
                gateway.child.wait_for_line("handed over to another process")
            wait_for_end(old)
        traffic.wait_for_more(8)
    assert traffic.failures == []
    assert gateway.child.process.wait(PATIENCE_SECONDS) == 0
    assert gateway.wait_for_log(f"serving {gateway.url}\n", 1 + times).count("serving ") == 1 + times
    assert running != first
    os.kill(running, signal.SIGTERM)
    wait_for_end(running)
    assert len(re.findall('"level":"(?:warning|error|critical)"', gateway.logs)) == 0, gateway.logs


@pytest.mark.qa
def test_no_request_over_tls_fails_while_the_gateway_is_replaced(
    start_gateway: StartGateway, stop_successors: list[int], tmp_path: Path
) -> None:
    files = CertificateFiles.write(tmp_path)
    tls = f"server: {{tls: {{certificate: {files.certificate}, key: {files.key}}}, "
    gateway = start_gateway(CONF.replace("server: {", tls), installed=True)
    with Traffic(gateway.url, files.trust()) as traffic:
        traffic.wait_for_more(8)
        new = replace_once(gateway, gateway.child.process.pid, stop_successors)
        gateway.child.wait_for_line("handed over to another process")
        wait_for_end(gateway.child.process.pid)
        traffic.wait_for_more(8)
    assert traffic.failures == []
    os.kill(new, signal.SIGTERM)
    wait_for_end(new)


def test_a_new_gateway_that_cannot_start_changes_nothing(start_gateway: StartGateway) -> None:
    gateway = start_gateway(CONF, installed=True)
    (gateway.folder / "gate.yaml").write_text("models: [", encoding="utf-8")
    gateway.child.process.send_signal(signal.SIGUSR2)
    gateway.child.wait_for_line("does not replace this one, which continues: it ended before it served")
    response = httpx.get(gateway.url + "/readyz", trust_env=False, timeout=PATIENCE_SECONDS)
    assert response.status_code == 200
    (gateway.folder / "gate.yaml").write_text(CONF, encoding="utf-8")


def activate(sockets: list[socket.socket], names: str, *arguments: str, folder: Path, **environment: str) -> Child:
    """Run the gateway as systemd does, with listening sockets from descriptor 3 on."""
    program = (
        "import os, sys\n"
        "fds = [int(fd) for fd in sys.argv[1].split(',')]\n"
        "for at, fd in enumerate(fds): os.dup2(fd, 100 + at)\n"
        "for at, fd in enumerate(fds): os.dup2(100 + at, 3 + at)\n"
        "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': str(len(fds)), 'LISTEN_FDNAMES': sys.argv[2]}\n"
        "os.execv(sys.argv[3], sys.argv[3:])\n"
    )
    numbers = ",".join(str(bound.fileno()) for bound in sockets)
    command = [sys.executable, "-c", program, numbers, names, str(COMMAND), "serve", *arguments]
    return Child(command, folder=folder, environment=environment, inherited=[bound.fileno() for bound in sockets])


def test_systemd_keeps_the_sockets_over_a_restart_and_is_told_the_state(tmp_path: Path) -> None:
    """Connections that are opened while no gateway runs are served by the next one."""
    (tmp_path / "gate.yaml").write_text(CONF.replace("metrics_port: 0, ", ""), encoding="utf-8")
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        metrics = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(tmp_path / "gate.sock"))
        unix.listen()
        notices = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        notices.bind(str(tmp_path / "notify.sock"))
        notices.settimeout(PATIENCE_SECONDS)
        url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
        arguments = ("--conf", "gate.yaml", "--data-dir", "var")
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify.sock")}
        for _ in range(2):
            with socket.create_connection(tcp.getsockname(), timeout=PATIENCE_SECONDS) as early:
                early.sendall(b"GET /healthz HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n")
                child = activate([tcp, unix, metrics], "http:http:metrics", *arguments, folder=tmp_path, **environment)
                child.wait_for_line(f"tornado-gate: serving {url}$")
                assert early.makefile().readline() == "HTTP/1.1 200 OK\n"
            assert notices.recv(1000) == f"READY=1\nMAINPID={child.process.pid}".encode()
            with httpx.Client(
                transport=httpx.HTTPTransport(uds=str(tmp_path / "gate.sock")), trust_env=False
            ) as client:
                assert client.get("http://gate/readyz").status_code == 200
                assert client.get("http://gate/metrics").status_code == 404
            scraped = httpx.get(f"http://127.0.0.1:{metrics.getsockname()[1]}/metrics", trust_env=False)
            assert "tornado_gate_requests_total" in scraped.text
            child.stop()
            assert notices.recv(1000) == b"STOPPING=1"
        assert (tmp_path / "gate.sock").exists()


def test_a_socket_that_does_not_listen_is_said(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(CONF, encoding="utf-8")
    with socket.socket() as idle:
        child = activate([idle], "http", "--conf", "gate.yaml", folder=tmp_path)
        child.wait_for_line("the inherited descriptor 3 does not listen for streams")
        assert child.process.wait(PATIENCE_SECONDS) == 1


def test_the_first_process_of_a_container_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with socket.create_server(("127.0.0.1", 0)) as bound, pytest.raises(OSError, match="replace the container instead"):
        Successor(Listeners(http=(bound,)))
