"""Small records of a machine's processes: what happens while another process holds the lock, and the exact bounds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tornado_gate.targets.shared_records import MAX_BYTES, SharedRecords

NAME = ("circuit", "p", "m")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[SharedRecords, SharedRecords]]:
    """The records of two processes."""
    first, second = SharedRecords(tmp_path / "shared"), SharedRecords(tmp_path / "shared")
    first.open()
    second.open()
    yield first, second
    first.close()
    second.close()


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock as a third process does. Raises BlockingIOError if it is not free."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def test_a_record_is_written_by_the_next_flush_if_the_file_is_locked(
    tmp_path: Path, pair: tuple[SharedRecords, SharedRecords]
) -> None:
    first, second = pair
    with hold_lock(tmp_path / "shared"):
        first.write(NAME, b"open", 20.0)
        assert first.has_changes
        assert not second.has_changes
        first.flush()
        assert not second.has_changes
    first.flush()
    assert not first.has_changes
    assert second.read_changes(10.0) == [b"open"]


def test_changes_that_cannot_be_read_now_are_read_later(
    tmp_path: Path, pair: tuple[SharedRecords, SharedRecords]
) -> None:
    first, second = pair
    first.write(NAME, b"open", 20.0)
    with hold_lock(tmp_path / "shared"):
        assert second.read_changes(10.0) == []
        assert second.has_changes
    assert second.read_changes(10.0) == [b"open"]
    assert second.read_changes(10.0) == []


def test_a_turn_is_granted_while_the_file_is_locked_and_not_recorded(
    tmp_path: Path, pair: tuple[SharedRecords, SharedRecords]
) -> None:
    """A probe too many is better than a target that nobody probes."""
    first, second = pair
    with hold_lock(tmp_path / "shared"):
        assert first.take_turn(NAME, 10.0, 20.0)
    assert second.take_turn(NAME, 10.0, 20.0)
    with hold_lock(tmp_path / "shared"):
        second.give_turn(NAME)
    assert not first.take_turn(NAME, 10.0, 20.0), "the turn was not given back while the file was locked"


def test_a_failed_write_releases_the_lock(tmp_path: Path, pair: tuple[SharedRecords, SharedRecords]) -> None:
    first, second = pair
    with pytest.raises(ValueError, match="NaN"):
        first.write(NAME, b"open", float("nan"))
    with hold_lock(tmp_path / "shared"):
        pass
    second.write(("other",), b"closed", 20.0)
    assert first.read_changes(10.0) == [b"closed"]


def test_every_operation_leaves_the_file_unlocked(tmp_path: Path, pair: tuple[SharedRecords, SharedRecords]) -> None:
    first, second = pair
    operations = (
        lambda: first.write(NAME, b"open", 20.0),
        lambda: second.read_changes(10.0),
        lambda: first.take_turn(NAME, 10.0, 20.0),
        lambda: second.take_turn(NAME, 10.0, 20.0),
        lambda: first.give_turn(NAME),
    )
    for operation in operations:
        operation()
        with hold_lock(tmp_path / "shared"):
            assert not first.has_changes


def test_a_record_and_a_turn_end_exactly_at_their_time(pair: tuple[SharedRecords, SharedRecords]) -> None:
    first, second = pair
    first.write(NAME, b"open", 20.0)
    assert second.read_changes(20.0) == []
    first.write(NAME, b"open", 20.0)
    assert second.read_changes(19.999) == [b"open"]
    assert first.take_turn(NAME, 10.0, 30.0)
    assert not second.take_turn(NAME, 29.999, 40.0)
    assert second.take_turn(NAME, 30.0, 40.0)


def test_a_record_as_long_as_a_slot_is_shared_and_a_longer_one_is_not(
    pair: tuple[SharedRecords, SharedRecords],
) -> None:
    first, second = pair
    first.write(NAME, b"x" * MAX_BYTES, 20.0)
    first.write(("after",), b"next slot", 20.0)
    assert second.read_changes(10.0) == [b"x" * MAX_BYTES, b"next slot"]
    first.write(NAME, b"x" * (MAX_BYTES + 1), 20.0)
    assert not first.has_changes
    assert not second.has_changes
