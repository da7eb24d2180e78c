"""What a process remembers about a configuration file that it does not use."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tornado_gate import config as conf
from tornado_gate.server.process.configuration_state import MAX_FAULTS, ConfigurationState, RejectedConfiguration
from tornado_gate.server.process.reloader import Reloader, get_file_state
from tornado_gate.telemetry.redaction import Scrubber

SECRET = "a-secret-of-the-running-gateway"


def test_a_rejected_file_is_remembered_since_the_first_one_until_a_file_is_applied() -> None:
    times = iter([1.0, 2.0, 4.0, 5.0])
    state = ConfigurationState(lambda: next(times))
    assert (state.applied_at, state.rejected) == (1.0, None)
    state.reject(["one"])
    state.reject(["two"])
    assert state.rejected == RejectedConfiguration(faults=("two",), since=2.0)
    state.apply()
    assert (state.applied_at, state.rejected) == (4.0, None)
    state.reject(["three"])
    assert state.rejected == RejectedConfiguration(faults=("three",), since=5.0)


def test_the_number_of_faults_is_bounded() -> None:
    state = ConfigurationState()
    state.reject([f"fault {number}" for number in range(MAX_FAULTS + 3)])
    assert state.rejected is not None
    assert state.rejected.faults[-2:] == (
        f"fault {MAX_FAULTS - 1}",
        "… and 3 more. The log of the gateway has all.",
    )


def test_a_reload_records_all_faults_with_their_lines_and_without_known_secrets(tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(f"sever: {{}}\n{SECRET}: {{}}\n", encoding="utf-8")
    state = ConfigurationState()
    process = SimpleNamespace(count_reload=lambda yes: None)
    gate = SimpleNamespace(metrics=SimpleNamespace(process=process))
    services = cast(Any, SimpleNamespace(gate=gate, configuration=state))
    scrubber = cast(Any, Scrubber([SECRET]))
    reloader = Reloader(services, lambda _path: conf.load(path, {}), scrubber, path, get_file_state(path))
    assert asyncio.run(reloader.reload()) is False
    assert state.rejected is not None
    first, second = state.rejected.faults
    assert first.startswith(f"{path}:1: sever: unknown key")
    assert second.startswith(f"{path}:2: ***: unknown key")
