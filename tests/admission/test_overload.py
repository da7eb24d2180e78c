"""When new requests are refused: open requests by account, a loop that lags, memory that is short."""

from __future__ import annotations

from pathlib import Path

import pytest

from tornado_gate.admission.overload import LAGGING_TICKS, REQUESTS_WITHOUT_MEMORY, TICKS_PER_MEMORY, Overload
from tornado_gate.config.model import LimitsConfig
from tornado_gate.errors import Unavailable
from tornado_gate.telemetry.memory import ContainerMemory, read_resident_bytes


class Memory:
    used = 0

    def read(self) -> int:
        return self.used


def make_overload(memory: Memory | None = None, **limits: float | None) -> tuple[Overload, list[str]]:
    reasons: list[str] = []
    container = ContainerMemory(Path("/nonexistent"), Path("/nonexistent"))
    config = LimitsConfig(**limits)  # type: ignore[arg-type]  # a test's own mixture
    return Overload(config, reasons.append, container, (memory or Memory()).read), reasons


def fill(overload: Overload, account: str) -> int:
    """Open requests until one is refused; returns how many were let in."""
    count = 0
    with pytest.raises(Unavailable) as caught:
        while True:
            overload.enter(account)
            count += 1
    error = caught.value
    assert (error.status, error.code, error.retry_after) == (503, "overloaded", 2)
    return count


def test_one_account_alone_gets_half_of_the_requests_and_the_next_a_quarter() -> None:
    overload, reasons = make_overload(open_requests=99)
    assert [fill(overload, name) for name in "abc"] == [50, 25, 12]
    assert reasons == ["open_requests"] * 3
    overload.enter("d")
    assert overload.open == 88


def test_a_request_may_start_after_another_has_ended() -> None:
    overload, _ = make_overload(open_requests=9)
    most = fill(overload, "a")
    overload.leave("a")
    overload.enter("a")
    for _ in range(most):
        overload.leave("a")
    assert (overload.open, overload._held) == (0, {})


def test_a_lower_limit_of_a_reload_applies_to_the_next_request() -> None:
    overload, _ = make_overload()
    for _ in range(10):
        overload.enter("a")
    overload.apply(LimitsConfig(open_requests=10))
    with pytest.raises(Unavailable):
        overload.enter("a")


def test_a_loop_that_lags_for_a_second_admits_one_request_of_each_account() -> None:
    overload, reasons = make_overload(loop_lag_seconds=0.5)
    overload.enter("a")
    for _ in range(LAGGING_TICKS - 1):
        overload.note_delay(0.6)
    overload.enter("a")  # a single long block is no overload
    overload.note_delay(0.6)
    with pytest.raises(Unavailable, match="answers with delay"):
        overload.enter("a")
    overload.enter("b")
    assert reasons == ["loop_lag"]
    assert overload.explain_overload() == "the event loop is late by more than 0.5 s"
    overload.note_delay(0.1)
    overload.enter("a")
    assert overload.explain_overload() == ""


def test_the_limit_of_the_lag_can_be_off() -> None:
    overload, _ = make_overload(loop_lag_seconds=0.0)
    for _ in range(LAGGING_TICKS * 2):
        overload.note_delay(60)
    overload.enter("a")
    overload.enter("a")


def test_while_memory_is_short_a_few_requests_of_all_accounts_are_admitted() -> None:
    memory = Memory()
    overload, reasons = make_overload(memory, memory_bytes=1000)
    memory.used = 1001
    for _ in range(TICKS_PER_MEMORY):
        overload.note_delay(0.0)
    for number in range(REQUESTS_WITHOUT_MEMORY):
        overload.enter(str(number))
    with pytest.raises(Unavailable, match="memory is nearly used up"):
        overload.enter("other")
    assert (reasons, overload.explain_overload()) == (["memory"], "memory is nearly used up")
    memory.used = 999
    for _ in range(TICKS_PER_MEMORY):
        overload.note_delay(0.0)
    overload.enter("other")


# The container


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="ascii")


def test_the_lowest_limit_of_the_groups_applies_and_inactive_files_do_not_count(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("0::/outer/inner\n", encoding="ascii")
    write(tmp_path / "outer", memory__max="1000\n", memory__current="700\n", memory__stat="anon 5\ninactive_file 300\n")
    write(tmp_path / "outer" / "inner", memory__max="max\n", memory__current="600\n", memory__stat="")
    memory = ContainerMemory(tmp_path, groups)
    assert (memory.limit, memory.read_used()) == (1000, 400)
    container = ContainerMemory(tmp_path, groups)
    overload = Overload(LimitsConfig(), lambda _reason: None, container)
    write(tmp_path / "outer", memory__stat="inactive_file 0\n", memory__current="901\n")
    for _ in range(TICKS_PER_MEMORY):
        overload.note_delay(0.0)
    assert overload.pressure == "memory"


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    groups = tmp_path / "groups"
    groups.write_text("8:pids:/\n7:memory:/job\n", encoding="ascii")
    stat = "cache 9\ntotal_inactive_file 10\n"
    files = {"memory__limit_in_bytes": "2000\n", "memory__usage_in_bytes": "50\n", "memory__stat": stat}
    write(tmp_path / "memory" / "job", **files)
    memory = ContainerMemory(tmp_path, groups)
    assert (memory.limit, memory.read_used()) == (2000, 40)


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert ContainerMemory(tmp_path, tmp_path / "groups").limit is None


def test_the_memory_of_this_process_is_known() -> None:
    assert read_resident_bytes() > 1024 * 1024
