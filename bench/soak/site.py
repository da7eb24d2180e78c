"""The gateway of the soak test, its conf, and its upstreams, as processes that can be killed and restarted."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.meter import list_process_tree
from bench.side import find_free_port
from tests.support.gateway import Gateway
from tests.support.people import sign_up_first
from tests.support.process import Child
from tornado_gate.accounts.accounts import Accounts
from tornado_gate.database.opening import open_database

KEY, REVOCABLE_KEY, ADMIN_KEY = "soak-key-0123456789", "soak-key-revocable-0123", "soak-key-administrator-1"
PACED_KEY, NARROW_KEY = "soak-key-paced-012345678", "soak-key-narrow-01234567"
RATE_LIMIT, OPEN_LIMIT = 20, 3
MOST_TAPES = 50
STEADY, SHAKY, SMART, BARE = "steady", "shaky", "smart", "bare"
FORMATS = "oag"
_PLUGINS = {"o": ("openai", "/v1"), "a": ("anthropic", ""), "g": ("gemini", "")}
# The vendor has no model that has all operations: one that the gateway does not know may have them.
_UPSTREAM_MODELS = {"o": "soak-model", "a": "claude-sonnet-4-5", "g": "gemini-2.5-flash"}
_CONF = """# changed {changes} times
server: {{processes: {processes}, access_log: false, drain_seconds: 20}}
plugins: {{local: true, openai: true, anthropic: true, gemini: true}}
{database}providers:
  local: {{plugin: local}}
  voice: {{plugin: openai, base_url: "http://127.0.0.1:{voice}/v1", api_key: upstream-key-0123456789}}
{providers}
models:
  local-chat: {{provider: local}}
  voice: {{provider: voice, model: gpt-realtime}}
  film: {{provider: shaky1-o, model: sora-2}}
{models}
keys:
  - {{name: soak, key: {key}}}
  - {{name: administrator, key: {admin}, role: administrator}}
  - {{name: paced, key: {paced}, requests_per_minute: {rate_limit}}}
  - {{name: narrow, key: {narrow}, concurrent_requests: {open_limit}}}
{more_keys}
limits: {{stream_bytes: 4000000, answer_bytes: 4000000{store}}}
realtime: {{sessions_per_key: 100}}
videos: {{poll_seconds: 0.3, concurrency: 50, queued_per_account: 1000, keep_seconds: 60}}
tapes: {{rules: [{{share: 0.2}}], most: {most_tapes}}}
"""


@dataclass(slots=True)
class Upstream:
    """One of the upstreams; it keeps its ports over a restart."""

    share: float
    seed: int
    told: Path
    port: int = field(default_factory=find_free_port)
    voice: int = field(default_factory=find_free_port)
    child: Child | None = None

    def start(self) -> None:
        arguments = [str(self.port), str(self.voice), str(self.share), str(self.seed), str(self.told)]
        self.child = Child([sys.executable, "-m", "bench.soak.upstream", *arguments])
        self.child.wait_for_line("^upstream: serving")
        self.seed += 1

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()


@dataclass(slots=True)
class Site:
    """A running gateway with its upstreams. Methods block: call them in a thread."""

    folder: Path
    processes: int = 2
    share: float = 0.25
    seed: int = 1
    database: str = ""
    store: str = ""
    cookie: str = ""
    port: int = field(default_factory=find_free_port)
    closed_port: int = field(default_factory=find_free_port)
    changes: int = 0
    has_revocable_key: bool = True
    output: str = ""
    steady: Upstream = field(init=False)
    shaky: Upstream = field(init=False)
    gateway: Gateway = field(init=False)
    process: int = field(init=False)

    def __post_init__(self) -> None:
        told = self.folder / "faults.txt"
        told.touch()
        self.steady = Upstream(0.0, self.seed, told)
        self.shaky = Upstream(self.share, self.seed + 1000, told)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data_dir(self) -> Path:
        return self.folder / "var"

    def start(self) -> None:
        self.steady.start()
        self.shaky.start()
        self.cookie = self._sign_up()
        self.start_gateway()

    def _sign_up(self) -> str:
        """The session cookie of the first account."""
        database = open_database(self.data_dir, self.database)
        try:
            return sign_up_first(Accounts(database, session_seconds=7 * 86400))[0]
        finally:
            database.close()

    def start_gateway(self) -> None:
        self.gateway = Gateway.start(self.make_conf(), self.folder, "--port", str(self.port), installed=True)
        self.process = self.gateway.child.process.pid

    def replace_gateway(self) -> None:
        """SIGUSR2: a new gateway takes over the sockets, and the old one ends. Raises AssertionError if that takes too long."""
        old, child = self.process, self.gateway.child
        os.kill(old, signal.SIGUSR2)
        new = int(child.wait_for_line(r"process (\d+) was started to replace this one")[1])
        child.wait_for_line("tornado-gate: serving ")
        self.process = new
        wait_for_end(old)

    def stop_gateway(self) -> None:
        """SIGTERM, then wait for the end: requests in flight are answered."""
        child = self.gateway.child
        if self.process == child.process.pid:
            self.output += child.stop()
            return
        os.kill(self.process, signal.SIGTERM)
        wait_for_end(self.process)
        self.output += child.stop()  # it has ended, and its successor has closed the output now

    def close(self) -> None:
        with suppress(Exception):
            if self.gateway.child.process.poll() is None:
                self.gateway.child.kill()
        self.steady.kill()
        self.shaky.kill()

    def make_conf(self) -> str:
        return _CONF.format(
            changes=self.changes,
            processes=self.processes,
            database=f'database: "{self.database}"\n' if self.database else "",
            voice=self.steady.voice,
            providers="\n".join(self._list_providers()),
            models="\n".join(self._list_models()),
            key=KEY,
            admin=ADMIN_KEY,
            paced=PACED_KEY,
            rate_limit=RATE_LIMIT,
            narrow=NARROW_KEY,
            open_limit=OPEN_LIMIT,
            most_tapes=MOST_TAPES,
            store=f', store: "{self.store}"' if self.store else "",
            more_keys=f"  - {{name: revocable, key: {REVOCABLE_KEY}}}" if self.has_revocable_key else "",
        )

    def _list_providers(self) -> list[str]:
        ports = {"steady": self.steady.port, "shaky1": self.shaky.port, "shaky2": self.shaky.port}
        ports["closed"] = self.closed_port
        settings = "api_key: upstream-key-0123456789, timeouts: {connect: 10, first_event: 3, gap: 3, total: 30}"
        return [
            f'  {name}-{kind}: {{plugin: {plugin}, base_url: "http://127.0.0.1:{port}/{name}{version}", {settings}}}'
            for name, port in ports.items()
            for kind, (plugin, version) in _PLUGINS.items()
        ]

    def _list_models(self) -> list[str]:
        lines = []
        for kind in FORMATS:
            model = _UPSTREAM_MODELS[kind]
            targets = ", ".join(
                f"{{provider: {name}-{kind}, model: {model}, weight: {weight}}}"
                for name, weight in (("closed", 1), ("shaky1", 4), ("shaky2", 4))
            )
            lines += [
                f"  {STEADY}-{kind}: {{provider: steady-{kind}, model: {model}}}",
                f"  {BARE}-{kind}: {{provider: shaky1-{kind}, model: {model}}}",
                f"  {SMART}-{kind}: {{targets: [{targets}], fallback: [{STEADY}-{kind}]}}",
            ]
        return lines

    def write_conf(self, text: str) -> None:
        """Replace the conf file at once, as an editor does."""
        new = self.folder / "gate.yaml.new"
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / "gate.yaml")

    def list_workers(self) -> list[int]:
        """The serving processes, without the supervisor and without helpers that they started."""
        parent = self.process
        if self.processes == 1:
            return [parent]
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        return [int(one) for one in children]

    def kill_worker(self, number: int) -> int:
        workers = self.list_workers()
        victim = workers[number % len(workers)]
        os.kill(victim, signal.SIGKILL)
        return victim

    def wait_for_workers(self, gone: int, seconds: float = 30.0) -> None:
        """Wait until a killed worker has been replaced."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            workers = self.list_workers()
            if gone not in workers and len(workers) == self.processes:
                return
            time.sleep(0.05)
        raise AssertionError(f"the supervisor has not replaced worker {gone} in {seconds} s")


def wait_for_end(process: int, seconds: float = 60.0) -> None:
    """Wait until a process has ended, also if nobody has read its exit code."""
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{process}").exists() and "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text():
        if time.monotonic() > deadline:
            raise AssertionError(f"process {process} has not ended in {seconds} s")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Usage:
    """What the processes of a gateway hold, all together. `stored`: files in the data folder."""

    rss_mb: float
    files: int
    threads: int
    stored: int = 0


def measure(parent: int, data_dir: Path) -> Usage:
    """The resources of a process and its descendants. The supervisor's memory is counted too."""
    rss = files = threads = 0
    for one in list_process_tree(parent):
        with suppress(OSError):
            rss += int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
            files += len(os.listdir(f"/proc/{one}/fd"))
            threads += len(os.listdir(f"/proc/{one}/task"))
    stored = sum(len(names) for _, _, names in os.walk(data_dir))
    return Usage(rss / 1e6, files, threads, stored)
