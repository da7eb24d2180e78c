"""Open circuits, keys at rest and the turn to probe are those of the machine, not of a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import Gateway
from tests.support.upstream import Upstream, answer
from tornado_gate.config.routing import CircuitsConfig
from tornado_gate.errors import UpstreamKeyRefused, UpstreamRateLimited
from tornado_gate.targets.circuits import CircuitBreakers
from tornado_gate.targets.key_health import KeyHealth
from tornado_gate.targets.shared_health import SharedHealth
from tornado_gate.targets.shared_records import MOST_BYTES, SLOTS, SharedRecords
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Target

RULES = CircuitsConfig(failures=2, open_seconds=10)
PATIENCE_SECONDS = 20.0
CONF = """
plugins: {{local: true, openai: true}}
providers:
  local: {{plugin: local}}
  broken: {{plugin: openai, base_url: "{upstream}/v1", api_key: upstream-key-0123456789}}
models:
  local-chat: {{provider: local}}
  chat: {{provider: broken, model: gpt-4o, fallback: [local-chat]}}
circuits: {{failures: 5, open_seconds: 300}}
keys: [{{name: one, key: client-key-0123456789}}]
"""


class Process:
    """The circuits and keys of a process; its time is `now`."""

    now = 1000.0

    def __init__(self, folder: Path) -> None:
        self.circuits = CircuitBreakers(lambda: Process.now)
        self.circuits.rules = RULES
        self.keys = KeyHealth()
        self.shared = SharedHealth(self.circuits, self.keys, Metrics(), folder / "shared")

    def fail(self, target: Target, account: str = "a") -> None:
        circuit = self.circuits.find_or_create(target, account)
        assert circuit is not None
        circuit.record_failure(account, Process.now, RULES, "upstream_error")
        if circuit.blocked is not None:
            self.shared.share_circuit(target, circuit)

    def succeed(self, target: Target, account: str = "a") -> None:
        circuit = self.circuits.find(target)
        assert circuit is not None
        circuit.record_success(account)
        self.shared.share_circuit(target, circuit)


def make_target(model: str = "m", provider: str = "p", key: str = "") -> Target:
    return Target(provider=provider, plugin="x", model="entry", upstream_model=model, key=key)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    async def start() -> tuple[Process, Process]:
        one, two = Process(tmp_path), Process(tmp_path)
        await one.shared.start()
        await two.shared.start()
        return one, two

    Process.now = 1000.0
    with asyncio.Runner() as runner:
        processes = runner.run(start())
        yield processes
        for process in processes:
            process.shared.close()


def test_a_circuit_is_open_in_all_processes_and_one_of_them_probes(pair: tuple[Process, Process]) -> None:
    one, two = pair
    target = make_target()
    one.fail(target)
    one.fail(target)
    assert two.circuits.allows(target, "a"), "it has not been read yet"
    two.shared.read()
    assert not two.circuits.allows(target, "a")
    assert two.circuits.allows(target, "b"), "it is open for the account whose requests failed"
    Process.now += 10
    assert two.circuits.allows(target, "a")
    assert not one.circuits.allows(target, "a"), "the other process probes"
    assert not one.circuits.take_last_resort(target)
    two.circuits.release_probe(target)
    assert one.circuits.allows(target, "a"), "the probe ended without an outcome"
    one.fail(target)
    two.shared.read()
    assert not two.circuits.allows(target, "a"), "it is open again"
    Process.now += 10
    assert two.circuits.allows(target, "a")
    two.succeed(target)
    one.shared.read()
    assert one.circuits.allows(target, "a")
    assert one.circuits.allows(target, "a")


def test_failures_of_two_accounts_in_two_processes_open_it_for_everybody(pair: tuple[Process, Process]) -> None:
    one, two = pair
    target = make_target()
    for process, account in ((one, "a"), (two, "b")):
        process.fail(target, account)
        process.fail(target, account)
    for process in pair:
        process.shared.read()
        assert not process.circuits.allows(target, "c")


def test_a_probe_of_a_process_that_was_killed_is_over_in_time(pair: tuple[Process, Process]) -> None:
    one, two = pair
    target = make_target()
    one.fail(target)
    one.fail(target)
    two.shared.read()
    Process.now += 10
    assert one.circuits.allows(target, "a")
    one.shared.close()
    assert not two.circuits.allows(target, "a")
    Process.now += RULES.probe_seconds
    assert two.circuits.allows(target, "a")


def test_keys_rest_in_all_processes_until_one_works(pair: tuple[Process, Process]) -> None:
    one, two = pair
    target = make_target(key="k1")
    one.keys.note_failure(target, UpstreamKeyRefused("no"), Process.now, RULES)
    one.keys.note_failure(target, UpstreamRateLimited("slowly", headers={"Retry-After": "90"}), Process.now, RULES)
    two.shared.read()
    assert two.keys.get_wait(target, "k1", Process.now) == one.keys.get_wait(target, "k1", Process.now) > 0
    two.keys.note_success(target)
    one.shared.read()
    assert one.keys.rests == two.keys.rests == {}


def test_a_process_that_starts_later_knows_what_is_open_and_a_new_gateway_knows_nothing(tmp_path: Path) -> None:
    async def start() -> Process:
        process = Process(tmp_path)
        await process.shared.start()
        return process

    with asyncio.Runner() as runner:
        one = runner.run(start())
        one.fail(make_target())
        one.fail(make_target())
        two = runner.run(start())
        assert not two.circuits.allows(make_target(), "a")
        one.shared.close()
        two.shared.close()
        three = runner.run(start())
        assert three.circuits.allows(make_target(), "a")
        three.shared.close()


def test_records_are_bounded_and_damage_is_skipped(tmp_path: Path, pair: tuple[Process, Process]) -> None:
    one, two = pair
    records = SharedRecords(tmp_path / "shared")
    records.open()
    records.write(("damaged",), b'{"type": "circuit", "name": [', Process.now + 100)
    records.write(("long",), b"x" * (MOST_BYTES + 1), Process.now + 100)
    for number in range(SLOTS * 2):
        records.write((f"n{number}",), b"{}", Process.now + number)
    two.shared.read()
    assert len(SharedRecords.read_changes(records, 0.0)) <= SLOTS
    one.fail(make_target())
    one.fail(make_target())
    two.shared.read()
    assert not two.circuits.allows(make_target(), "a"), "a full file still takes new records"
    records.close()


def test_without_the_file_each_process_has_its_own_circuits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "shared").mkdir()
    process, target = Process(tmp_path), make_target()
    asyncio.run(process.shared.start())
    assert "are not shared between processes" in caplog.text
    process.fail(target)
    process.fail(target)
    assert not process.circuits.allows(target, "a")
    process.shared.close()


# Several processes of a gateway


def send_request(gateway: Gateway) -> httpx.Response:
    """A request on a connection of its own, which any process may get."""
    headers = {"authorization": "Bearer client-key-0123456789"}
    body = {"model": "chat", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(gateway.url + "/v1/chat/completions", json=body, headers=headers)


def test_four_processes_open_one_circuit(tmp_path: Path) -> None:
    upstream = Upstream.start()
    gateway = Gateway.start(CONF.format(upstream=upstream.url), tmp_path, "--processes", "4")
    try:
        upstream.script(answer('{"error": {"message": "no"}}', status=500, repeat=True))
        ends = time.monotonic() + PATIENCE_SECONDS
        while (
            'tornado_gate_open_circuits{model="chat"' not in httpx.get(gateway.url + "/metrics", trust_env=False).text
        ):
            assert time.monotonic() < ends
            assert send_request(gateway).status_code == 200
        time.sleep(1.0)  # what is promised: all processes know it within a second
        upstream.reset()
        with ThreadPoolExecutor(24) as threads:
            found = list(threads.map(send_request, [gateway] * 12))
        assert upstream.requests == [], "no process calls the target while its circuit is open"
        assert {response.status_code for response in found} == {200}
    finally:
        gateway.stop()
        upstream.stop()
