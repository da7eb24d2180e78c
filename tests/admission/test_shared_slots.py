"""The slots of a provider entry while another process has the store, also one that does not run any more."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tornado_gate.admission import shared_slots
from tornado_gate.admission.embedded import LOCK_SECONDS, EmbeddedStore
from tornado_gate.admission.shared_slots import SharedSlots

HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def slots(tmp_path: Path) -> SharedSlots:
    return SharedSlots("p", EmbeddedStore(tmp_path))


@pytest.fixture
def other(tmp_path: Path) -> SharedSlots:
    """Those of another process."""
    return SharedSlots("p", EmbeddedStore(tmp_path))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the slots see."""
    now = [100.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    monkeypatch.setattr(shared_slots, "time", Clock)
    return now


class Holder:
    """A process that has the lock of the store from `stop` on, and does not run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[str] | None = None

    def stop(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(self._path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "locked\n"
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    holder = Holder(tmp_path / "counters")
    yield holder
    holder.kill()


def test_processes_together_run_and_wait_up_to_the_limit(slots: SharedSlots, other: SharedSlots) -> None:
    assert slots.take_slot(2, 0)
    assert other.take_slot(2, 0)
    assert not slots.take_slot(2, 1)
    assert (slots.running, other.running) == (1, 1)
    assert slots.add_waiting(2, 0) == 1
    assert other.add_waiting(2, 0) == 2
    assert slots.add_waiting(2, 1) == 0
    assert (slots.waiting, other.waiting) == (1, 1)
    assert slots.count_waiting() == other.count_waiting() == 2


def test_what_a_process_no_longer_uses_is_free_for_others(slots: SharedSlots, other: SharedSlots) -> None:
    for _ in range(3):
        assert slots.take_slot(3, 0)
        assert slots.add_waiting(3, 0)
    slots.correct(3, 3)
    assert not other.take_slot(3, 0)
    slots.correct(1, 2)
    assert (slots.running, slots.waiting) == (1, 2)
    assert [other.take_slot(3, 0) for _ in range(3)] == [True, True, False]
    assert [other.add_waiting(3, 0) for _ in range(2)] == [3, 0]
    slots.correct(9, 9)
    assert (slots.running, slots.waiting) == (1, 2), "more than the store counts is not its matter"


def test_while_another_process_has_the_store_nobody_runs_and_nobody_is_refused_to_wait(
    slots: SharedSlots, other: SharedSlots, holder: Holder, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert slots.add_waiting(5, 0) == 1
    holder.stop()
    for _ in range(2):
        assert not slots.take_slot(5, 0)
        assert slots.add_waiting(1, 7) == 8
        assert slots.count_waiting() == 0
        clock[0] += LOCK_SECONDS
    assert (slots.running, slots.waiting) == (0, 1)
    assert not caplog.records
    holder.kill()
    assert slots.take_slot(5, 0)
    assert slots.count_waiting() == other.count_waiting() == 1


def test_when_the_store_stays_locked_a_process_counts_its_own_requests_and_says_so_once_a_minute(
    slots: SharedSlots, other: SharedSlots, holder: Holder, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    assert other.take_slot(1, 0)
    holder.stop()
    assert not slots.take_slot(1, 0)
    clock[0] += LOCK_SECONDS + 0.001
    assert slots.take_slot(1, 0)
    assert not slots.take_slot(1, 1)
    assert slots.add_waiting(2, 1) == 2
    assert slots.add_waiting(2, 2) == 0
    assert slots.count_waiting() == 0
    assert (slots.running, slots.waiting) == (0, 0), "the store counts none of them"
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "requests of 'p' are counted in each process on its own"
    ]
    for seconds, warnings in [(shared_slots.WARNING_SECONDS, 1), (0.001, 2)]:
        clock[0] += seconds
        assert slots.take_slot(1, 0)
        assert len(caplog.records) == warnings
    holder.kill()
    assert not slots.take_slot(1, 0), "the other process has the slot"
    holder.stop()
    assert not slots.take_slot(1, 0), "the store was usable in between: its time begins again"
    assert len(caplog.records) == 2


@pytest.mark.parametrize("name", ["take_slot", "add_waiting", "count_waiting"])
def test_whatever_finds_the_store_unusable_says_so(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    slots = SharedSlots("p", EmbeddedStore(tmp_path / "file"))
    calls = {
        "take_slot": lambda: slots.take_slot(1, 0),
        "add_waiting": lambda: slots.add_waiting(1, 0),
        "count_waiting": slots.count_waiting,
    }
    calls[name]()
    assert len(caplog.records) == 1


def test_the_lock_is_free_after_every_call(slots: SharedSlots, tmp_path: Path) -> None:
    calls = (
        lambda: slots.take_slot(1, 0),
        lambda: slots.take_slot(1, 0),
        lambda: slots.add_waiting(1, 0),
        lambda: slots.add_waiting(1, 0),
        slots.count_waiting,
        lambda: slots.correct(0, 0),
    )
    for call in calls:
        call()
        descriptor = os.open(tmp_path / "counters", os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
