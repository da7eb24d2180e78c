"""All processes of a machine share open circuits, suspended keys and the turn to probe."""

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
from tornado_gate.targets.shared_records import MAX_BYTES, SLOTS, SharedRecords
from tornado_gate.telemetry.metrics import Metrics
from tornado_gate.types import Target

RULES = CircuitsConfig(failures=2, open_seconds=10)
PATIENCE_SECONDS = 60.0
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
        circuit = self.circuits.find_circuit(target)
        assert circuit is not None
        circuit.record_success(account)
        self.shared.share_circuit(target, circuit)


def make_target(model: str = "m", provider: str = "p", key: str = "") -> Target:
    return Target(provider=provider, plugin="x", model="entry", upstream_model=model, key=key)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    async def start() -> tuple[Process, Process]:
        first, second = Process(tmp_path), Process(tmp_path)
        await first.shared.start()
        await second.shared.start()
        return first, second

    Process.now = 1000.0
    with asyncio.Runner() as runner:
        processes = runner.run(start())
        yield processes
        for process in processes:
            process.shared.close()


def test_a_circuit_is_open_in_all_processes_and_only_one_process_probes(pair: tuple[Process, Process]) -> None:
    first, second = pair
    target = make_target()
    first.fail(target)
    first.fail(target)
    assert second.circuits.allows(target, "a"), "it has not been read yet"
    second.shared.read()
    assert not second.circuits.allows(target, "a")
    assert second.circuits.allows(target, "b"), "it is open for the account whose requests failed"
    Process.now += 10
    assert second.circuits.allows(target, "a")
    assert not first.circuits.allows(target, "a"), "the other process probes"
    assert not first.circuits.take_last_resort(target)
    second.circuits.release_probe(target)
    assert first.circuits.allows(target, "a"), "the probe ended without an outcome"
    first.fail(target)
    second.shared.read()
    assert not second.circuits.allows(target, "a"), "it is open again"
    Process.now += 10
    assert second.circuits.allows(target, "a")
    second.succeed(target)
    first.shared.read()
    assert first.circuits.allows(target, "a")
    assert first.circuits.allows(target, "a")


def test_failures_of_two_accounts_in_two_processes_open_it_for_all_accounts(pair: tuple[Process, Process]) -> None:
    first, second = pair
    target = make_target()
    for process, account in ((first, "a"), (second, "b")):
        process.fail(target, account)
        process.fail(target, account)
    for process in pair:
        process.shared.read()
        assert not process.circuits.allows(target, "c")


def test_a_probe_of_a_killed_process_ends_after_its_time(pair: tuple[Process, Process]) -> None:
    first, second = pair
    target = make_target()
    first.fail(target)
    first.fail(target)
    second.shared.read()
    Process.now += 10
    assert first.circuits.allows(target, "a")
    first.shared.close()
    assert not second.circuits.allows(target, "a")
    Process.now += RULES.probe_seconds
    assert second.circuits.allows(target, "a")


def test_a_key_is_suspended_in_all_processes_until_a_request_with_it_succeeds(pair: tuple[Process, Process]) -> None:
    first, second = pair
    target = make_target(key="k1")
    first.keys.note_failure(target, UpstreamKeyRefused("no"), Process.now, RULES)
    first.keys.note_failure(target, UpstreamRateLimited("slowly", headers={"Retry-After": "90"}), Process.now, RULES)
    second.shared.read()
    assert second.keys.get_wait(target, "k1", Process.now) == first.keys.get_wait(target, "k1", Process.now) > 0
    second.keys.note_success(target)
    first.shared.read()
    assert first.keys.suspensions == second.keys.suspensions == {}


def test_a_process_that_starts_later_reads_the_open_circuits_and_a_new_gateway_starts_without_any(
    tmp_path: Path,
) -> None:
    async def start() -> Process:
        process = Process(tmp_path)
        await process.shared.start()
        return process

    with asyncio.Runner() as runner:
        first = runner.run(start())
        first.fail(make_target())
        first.fail(make_target())
        second = runner.run(start())
        assert not second.circuits.allows(make_target(), "a")
        first.shared.close()
        second.shared.close()
        three = runner.run(start())
        assert three.circuits.allows(make_target(), "a")
        three.shared.close()


def test_the_number_of_records_is_limited_and_damaged_ones_are_skipped(
    tmp_path: Path, pair: tuple[Process, Process]
) -> None:
    first, second = pair
    records = SharedRecords(tmp_path / "shared")
    records.open()
    records.write(("damaged",), b'{"type": "circuit", "name": [', Process.now + 100)
    records.write(("long",), b"x" * (MAX_BYTES + 1), Process.now + 100)
    for number in range(SLOTS * 2):
        records.write((f"n{number}",), b"{}", Process.now + number)
    second.shared.read()
    assert len(SharedRecords.read_changes(records, 0.0)) <= SLOTS
    first.fail(make_target())
    first.fail(make_target())
    second.shared.read()
    assert not second.circuits.allows(make_target(), "a"), "a full file still takes new records"
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


@pytest.mark.qa
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
        with ThreadPoolExecutor(24) as threads:
            while True:  # until all processes know it
                before = len(upstream.requests)
                responses = list(threads.map(send_request, [gateway] * 12))
                assert {response.status_code for response in responses} == {200}
                if len(upstream.requests) == before:
                    break
                assert time.monotonic() < ends, "a process calls the target while its circuit is open"
    finally:
        gateway.stop()
        upstream.stop()
