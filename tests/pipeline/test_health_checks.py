"""Active health checks: one process checks for all, what it finds feeds the circuits, and a key says nothing of a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.support.gates import make_config, make_gate
from tests.targets.test_candidates import Upstream, make_entry, targets
from tornado_gate import errors
from tornado_gate.config.routing import HealthCheck
from tornado_gate.pipeline.gate import Gate
from tornado_gate.pipeline.health_checks import CheckState, HealthChecks, list_checks
from tornado_gate.types import replace

DOWN = errors.UpstreamUnreachable("down")
BY_MODEL = HealthCheck(model="tiny", interval=0.001, failures=2, successes=2)


def make(folder: Path, rules: HealthCheck, base_url: str = "") -> tuple[Gate, Upstream]:
    """A gate with the model "m" at "up", which is checked, and at "other"."""
    up, other = Upstream(), Upstream()
    config = make_config(folder, {"m": make_entry(*targets("up", "other"))}, providers=("up", "other"))
    checked = replace(config.providers["up"], health_check=rules, base_url=base_url)
    config = replace(config, providers={**config.providers, "up": checked})
    return make_gate(folder, config, up=up, other=other), up


async def check(checks: HealthChecks, gate: Gate, times: int = 1) -> bool:
    """Whether "up" counts as down after so many checks."""
    for _ in range(times):
        rules = list_checks(gate.snapshot)
        for name in rules:
            checks._states.setdefault(name, CheckState()).due = 0.0
        await checks.run_once(gate.snapshot, rules)
    return "up" in gate.health.circuits.down


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


def test_failures_in_a_row_take_a_provider_out_and_successes_bring_it_back(tmp_path: Path) -> None:
    async def main() -> None:
        gate, up = make(tmp_path, BY_MODEL)
        checks = HealthChecks(gate, tmp_path)
        target = gate.snapshot.targets.make_task_target("m", "up", "m")
        assert not await check(checks, gate, 2)
        up.raises = DOWN
        assert not await check(checks, gate)
        assert await check(checks, gate)
        assert not gate.health.circuits.allows(target, "a")
        assert 'tornado_gate_providers_down{provider="up"} 1.0' in gate.metrics.render()[0].decode()
        up.raises = None
        assert await check(checks, gate)
        assert not await check(checks, gate)
        assert gate.health.circuits.allows(target, "a")
        await checks.close()

    run(main)


@pytest.mark.parametrize(
    "error", [errors.UpstreamKeyRefused("key"), errors.UpstreamRateLimited("slow")], ids=["refused", "limited"]
)
def test_a_refused_or_limited_key_is_an_answer(tmp_path: Path, error: errors.GateError) -> None:
    async def main() -> None:
        gate, up = make(tmp_path, BY_MODEL)
        checks = HealthChecks(gate, tmp_path)
        up.raises = error
        assert not await check(checks, gate, 5)
        await checks.close()

    run(main)


def test_one_process_checks_and_the_others_read_what_it_found(tmp_path: Path) -> None:
    async def main() -> None:
        (one, first), (two, second) = make(tmp_path / "1", BY_MODEL), make(tmp_path / "2", BY_MODEL)
        leader, follower = HealthChecks(one, tmp_path), HealthChecks(two, tmp_path)
        first.raises = second.raises = DOWN
        assert await check(leader, one, 3)
        assert await check(follower, two)
        assert (len(first.asked), len(second.asked)) == (3, 0)
        await leader.close()
        second.raises = None
        assert not await check(follower, two, 3)  # it has taken over
        assert len(second.asked) == 3
        await follower.close()

    run(main)


def test_a_check_by_path_is_a_get_with_the_configured_timeout(tmp_path: Path) -> None:
    requests: list[bytes] = []
    statuses = [b"200 OK", b"503 Service Unavailable", b""]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        status = statuses[len(requests) - 1]
        if not status:
            await reader.read()  # never answers
        else:
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        rules = HealthCheck(path="/models", interval=0.001, timeout=0.2, failures=1, successes=1)
        gate, _ = make(tmp_path, rules, f"http://127.0.0.1:{port}/v1")
        checks = HealthChecks(gate, tmp_path)
        assert not await check(checks, gate)
        assert await check(checks, gate)
        assert await check(checks, gate)
        assert requests == [b"GET /v1/models HTTP/1.1"] * 3
        await checks.close()
        server.close()

    run(main)


def test_recovery_lets_open_circuits_be_probed_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        gate, up = make(tmp_path, BY_MODEL)
        checks = HealthChecks(gate, tmp_path)
        target = gate.snapshot.targets.make_task_target("m", "up", "m")
        circuit = gate.health.circuits.find_or_create(target, "a")
        assert circuit is not None
        for account in ("a", "b", "a", "b", "a"):
            circuit.record_failure(account, gate.health.circuits.clock(), gate.snapshot.config.circuits)
        up.raises = DOWN
        assert await check(checks, gate, 2)
        up.raises = None
        assert not await check(checks, gate, 2)
        assert gate.health.circuits.would_allow(target, "a")
        await checks.close()

    run(main)
