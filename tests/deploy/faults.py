"""Real faults of a gateway, one for each alert rule of deploy/prometheus, and what /metrics shows before and during each."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.gateway import Gateway
from tests.support.scripts import chunk, completion, usage_chunk
from tests.support.upstream import DONE, Answer, Close, Pause, Upstream, Wait, answer, sse
from tests.support.valkey import Valkey

KEY = "key-of-ann-0123456789"
CONF = """
plugins: {{openai: true}}
providers:
  plain: {{plugin: openai, base_url: "{url}/plain/v1", api_key: scripted-key}}
  failing: {{plugin: openai, base_url: "{url}/failing/v1", api_key: scripted-key}}
  keyed: {{plugin: openai, base_url: "{url}/keyed/v1", api_keys: [scripted-key-one, scripted-key-two]}}
  checked: {{plugin: openai, base_url: "{url}/checked/v1", api_key: scripted-key,
             health_check: {{path: /models, interval: 0.2, failures: 3}}}}
models:
  of-plain: {{provider: plain, model: gpt-4o}}
  of-failing: {{provider: failing, model: gpt-4o}}
  of-keyed: {{provider: keyed, model: gpt-4o}}
  of-checked: {{provider: checked, model: gpt-4o}}
circuits: {{failures: 3, open_seconds: 600}}
limits: {{open_requests: 2, store: "{store}"}}
server: {{processes: {processes}}}
keys:
  - {{name: ann, key: {key}, account: a}}
  - {{name: limited, key: key-of-limited-0123456789, account: a, requests_per_minute: 1000}}
"""
OK = answer(completion("Hi"), path="/plain", repeat=True)
HEALTHY = answer('{"data": []}', path="/checked", repeat=True)
BEGIN, END = sse(chunk(content="Hello")), sse(chunk(reason="stop"), usage_chunk(), DONE)


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with its upstream and the store of its limits. `slow_seconds` is the time to the first token of a slow stream."""

    gateway: Gateway
    upstream: Upstream
    store: Valkey
    slow_seconds: float

    def ask(self, model: str = "of-plain", key: str = KEY, **body: Any) -> httpx.Response:
        """Send a chat, and return the whole response. Its status may be any."""
        message = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **body}
        headers = {"authorization": f"Bearer {key}"}
        url = self.gateway.url + "/v1/chat/completions"
        return httpx.post(url, json=message, headers=headers, timeout=60, trust_env=False)

    def read_metrics(self) -> str:
        return httpx.get(self.gateway.url + "/metrics", timeout=30, trust_env=False).text

    def wait_for_requests(self, path: str, count: int) -> None:
        """Wait until the upstream has received `count` requests below a path. Health checks are other requests."""
        requests = self.upstream.requests
        while sum(request.path.startswith(path) for request in requests) < count:
            requests = self.upstream.wait_for_requests(len(requests) + 1)

    def script(self, *answers: Answer) -> None:
        """Replace the script of the upstream. The health checks and the model `of-plain` work."""
        self.upstream.reset()
        self.upstream.script(*answers, OK, HEALTHY)


@contextmanager
def start_site(upstream: Upstream, folder: Path, *, processes: int = 1, slow_seconds: float = 0.0) -> Iterator[Site]:
    """A gateway whose upstream and store work."""
    upstream.script(OK, HEALTHY)
    store = Valkey()
    try:
        conf = CONF.format(url=upstream.url, store=store.url, processes=processes, key=KEY)
        gateway = Gateway.start(conf, folder)
        try:
            yield Site(gateway, upstream, store, slow_seconds)
        finally:
            gateway.stop()
    finally:
        store.kill()


@dataclass(frozen=True, slots=True)
class Seen:
    """What /metrics showed before a fault and during it. "" without a gateway."""

    before: str
    during: str


def fail_requests(site: Site) -> None:
    site.script(answer('{"error": {"message": "broken"}}', status=500, path="/failing", repeat=True))
    assert site.ask("of-failing").status_code >= 500


def open_circuit(site: Site) -> None:
    site.script(answer('{"error": {"message": "broken"}}', status=500, path="/failing", repeat=True))
    for _ in range(3):
        site.ask("of-failing")
    site.gateway.wait_for_log("circuit opened")


def refuse_key(site: Site) -> None:
    refused = answer('{"error": {"message": "wrong key"}}', status=401, path="/keyed")
    site.script(refused, answer(completion("Hi"), path="/keyed", repeat=True))
    assert site.ask("of-keyed").status_code == 200


def fail_health_checks(site: Site) -> None:
    site.upstream.reset()
    site.upstream.script(answer("{}", status=500, path="/checked", repeat=True), OK)
    site.gateway.wait_for_log("fails its health checks")


def delay_first_token(site: Site) -> None:
    slow = (Pause(site.slow_seconds),) if site.slow_seconds else ()
    site.script(answer(*slow, BEGIN, END, headers={"content-type": "text/event-stream"}, path="/keyed", repeat=True))
    assert site.ask("of-keyed", stream=True).status_code == 200


def break_stream(site: Site) -> None:
    site.script(answer(BEGIN, Close(), path="/keyed", repeat=True))
    assert "error" in site.ask("of-keyed", stream=True).text


def overload(site: Site) -> None:
    """Hold one request open: an account may have half of `limits.open_requests`."""
    held = answer(Wait("go on"), completion("Hi"), headers={"content-type": "application/json"}, path="/keyed")
    site.script(held)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.ask, "of-keyed")
        site.wait_for_requests("/keyed", 1)
        assert site.ask().status_code == 503
        site.upstream.tell("go on")
        assert waiting.result().status_code == 200


def block_event_loop(site: Site) -> None:
    """Stop the process until the period ends after which the gateway shows its largest delay."""
    process = site.gateway.child.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        signal.sigtimedwait([], 5.5)
    finally:
        os.kill(process, signal.SIGCONT)
    site.ask()


def break_configuration(site: Site) -> None:
    file = site.gateway.folder / "gate.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "nonsense: true\n", encoding="utf-8")
    site.gateway.wait_for_log("nonsense")
    file.write_text(text, encoding="utf-8")


def lose_limit_store(site: Site) -> None:
    site.store.kill()
    site.ask(key="key-of-limited-0123456789")
    site.gateway.wait_for_log("the store of limits is away")


def lock_database(site: Site) -> None:
    connection = sqlite3.connect(site.gateway.folder / "var" / "gate.db", isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        site.ask()
        while (
            'rows_total{result="spooled"}' not in site.read_metrics()
        ):  # the ledger waits for the lock for half a second
            pass
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def kill_process(site: Site) -> None:
    """Kill a serving process; the first process replaces it."""
    parent = site.gateway.child.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    os.kill(int(children[-1]), signal.SIGKILL)
    site.gateway.wait_for_log("all 2 processes run")


Fault = Callable[[Site], None]
FAULTS: Final[dict[str, Fault]] = {
    "GateErrors": fail_requests,
    "GateProviderErrors": fail_requests,
    "GateProviderDown": fail_health_checks,
    "GateCircuitOpen": open_circuit,
    "GateProviderKeyRefused": refuse_key,
    "GateSlowFirstToken": delay_first_token,
    "GateBrokenResponses": break_stream,
    "GateOverloaded": overload,
    "GateEventLoopLag": block_event_loop,
    "GateReloadFailed": break_configuration,
    "GateLimitStoreAway": lose_limit_store,
    "GateLedgerAway": lock_database,
}
"""The faults of a gateway with one process, in an order in which none hides another one."""
FAULTS_OF_PROCESSES: Final[dict[str, Fault]] = {"GateProcessRestarted": kill_process}


def see_faults(upstream: Upstream, folder: Path, slow_seconds: float = 0.0) -> dict[str, Seen]:
    """Make every fault, and return what /metrics showed, by the alert that it must fire."""
    seen: dict[str, Seen] = {}
    for faults, processes in ((FAULTS, 1), (FAULTS_OF_PROCESSES, 2)):
        place = folder / str(processes)
        place.mkdir(parents=True)
        upstream.reset()
        with start_site(upstream, place, processes=processes, slow_seconds=slow_seconds) as site:
            site.ask()
            for name, fail in faults.items():
                before = site.read_metrics()
                fail(site)
                seen[name] = Seen(before, site.read_metrics())
    seen["GateAbsent"] = Seen(next(iter(seen.values())).before, "")
    return seen
