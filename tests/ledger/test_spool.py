"""Rows on the disk: order, bounds, files of processes that have ended, damaged lines."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.rows import make_stored_row
from tornado_gate.ledger.spool import Spool, read_segment
from tornado_gate.ledger.writing import COLUMNS, StoredRow

MEBIBYTE = 1024 * 1024
ROWS = [
    make_stored_row(1_700_000_000 + number, id=f"{number:024x}", request_id=f"r{number}", model="ü\n")
    for number in range(9)
]


def read(spool: Spool) -> list[StoredRow]:
    return [row for segment in spool.list_segments() for row in read_segment(segment)]


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEBIBYTE)
    assert spool.append(ROWS[:4]) == 0
    assert read(spool) == ROWS[:4]
    assert spool.append(ROWS[4:]) == 0
    assert read(spool) == ROWS
    for segment in spool.list_segments():
        spool.remove(segment)
    assert read(spool) == []
    spool.close()
    assert list((tmp_path / "ledger-spool").iterdir()) == []


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    Spool(tmp_path, MEBIBYTE).append(ROWS)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "ledger-spool").iterdir()} == {0o600}


def test_the_oldest_rows_are_dropped_when_the_spool_is_full(tmp_path: Path) -> None:
    spool, dropped = Spool(tmp_path, 12_000), 0
    for row in ROWS * 5:
        dropped += spool.append([row])
        spool.list_segments()  # begins a new segment
        assert sum(path.stat().st_size for path in (tmp_path / "ledger-spool").iterdir()) <= 12_000
    kept = read(spool)
    assert dropped > 0
    assert kept == (ROWS * 5)[dropped:]
    assert spool.append(ROWS * 100) == 900, "they do not fit into an empty spool either"
    assert read(spool) == kept


def test_a_full_disk_leaves_no_half_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, 1_000_000)
    spool.append(ROWS[:1])

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full, pytest.raises(OSError, match="No space"):
        full.setattr(os, "fsync", fail)
        spool.append(ROWS[1:])
    spool.append(ROWS[:1])
    assert read(spool) == [ROWS[0], ROWS[0]]


def test_a_partly_written_row_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel wrote a part, because the disk became full. Neither a new nor an old segment has a part of a row."""
    spool = Spool(tmp_path, MEBIBYTE)
    for _ in range(2):
        sizes = [path.stat().st_size for path in find_segments(tmp_path)] or [0]
        with monkeypatch.context() as full:
            full.setattr("tornado_gate.ledger.spool.open", open_half_full, raising=False)
            with pytest.raises(OSError, match="No space"):
                spool.append(ROWS[5:])
        assert [path.stat().st_size for path in find_segments(tmp_path)] == sizes
        spool.append(ROWS[:2])
    assert read(spool) == [*ROWS[:2], *ROWS[:2]]


class HalfFullFile(FileIO):
    """A file whose disk has room for half of what is written."""

    def write(self, data: Any) -> int:
        return super().write(data[: len(data) // 2])


def open_half_full(path: Path, mode: str, buffering: int, opener: Any) -> HalfFullFile:
    return HalfFullFile(path, mode, opener=opener)


def find_segments(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "ledger-spool").glob("*.rows"))


def test_rows_are_in_the_file_before_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[StoredRow]] = []

    def sync(descriptor: int) -> None:
        synced.append(list(read_segment(Path(os.readlink(f"/proc/self/fd/{descriptor}")))))

    monkeypatch.setattr(os, "fsync", sync)
    spool = Spool(tmp_path, MEBIBYTE)
    spool.append(ROWS[:2])
    spool.append(ROWS[2:3])
    assert synced == [ROWS[:2], ROWS[:3]]


def test_the_spool_may_be_filled_to_its_last_byte(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "measured", MEBIBYTE)
    spool.append(ROWS)
    (segment,) = find_segments(tmp_path / "measured")
    size = segment.stat().st_size
    exact, short = Spool(tmp_path / "exact", size), Spool(tmp_path / "short", size - 1)
    assert exact.append(ROWS) == 0
    assert read(exact) == ROWS
    assert short.append(ROWS) == len(ROWS)
    assert find_segments(tmp_path / "short") == []
    assert exact.append(ROWS) == len(ROWS), "the older rows leave"
    assert read(exact) == ROWS


def test_rows_of_other_processes_are_not_dropped_for_lack_of_space(tmp_path: Path) -> None:
    other = Spool(tmp_path, MEBIBYTE)
    other.append(ROWS)
    size = sum(path.stat().st_size for path in find_segments(tmp_path))
    spool = Spool(tmp_path, size + 10)
    assert spool.append(ROWS[:1]) == 1
    assert read(other) == ROWS
    assert read(spool) == []


def test_a_segment_that_is_full_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, MEBIBYTE)
    spool.append(ROWS[:1])
    first = find_segments(tmp_path)[0].stat().st_size
    spool.append(ROWS[:1])
    row = find_segments(tmp_path)[0].stat().st_size - first
    monkeypatch.setattr("tornado_gate.ledger.spool.SEGMENT_BYTES", first + 2 * row)
    spool.append(ROWS[:1])
    assert len(find_segments(tmp_path)) == 1, "exactly full"
    spool.append(ROWS[:1])
    assert len(find_segments(tmp_path)) == 2
    assert read(spool) == ROWS[:1] * 4


def test_a_running_process_keeps_its_rows(tmp_path: Path) -> None:
    one, other = Spool(tmp_path, MEBIBYTE), Spool(tmp_path, MEBIBYTE)
    one.append(ROWS[:3])
    other.append(ROWS[3:])
    assert read(other) == ROWS[3:]
    assert read(one) == ROWS[:3]


def test_rows_of_a_process_that_was_killed_are_taken_over_by_one_other(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path; from tests.ledger.test_spool import ROWS;"
        "from tornado_gate.ledger.spool import Spool; spool = Spool(Path(sys.argv[1]), 10**6);"
        "spool.append(ROWS); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2]) as process:
        assert process.wait() == -9
    ended_pid = process.pid
    one, other = Spool(tmp_path, MEBIBYTE), Spool(tmp_path, MEBIBYTE)
    before = len(os.listdir("/proc/self/fd"))
    assert read(one) == ROWS
    assert len(os.listdir("/proc/self/fd")) == before + 1, "its own lock, and not that of the process that has ended"
    assert [path.name.startswith(f"{ended_pid}-") for path in (tmp_path / "ledger-spool").iterdir()] == [False] * 2
    for _ in range(3):
        assert read(other) == []
    assert len(os.listdir("/proc/self/fd")) == before + 1
    one.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert read(other) == ROWS, "the first has ended without writing them"
    for segment in other.list_segments():
        other.remove(segment)
    other.close()
    assert list((tmp_path / "ledger-spool").iterdir()) == []


@pytest.mark.parametrize("damage", [b'["torn', b"{}\n", b"[1]\n", b"\xff\xff\n", b"\0" * 100 + b"\n"])
def test_a_damaged_line_is_skipped(tmp_path: Path, damage: bytes) -> None:
    spool = Spool(tmp_path, MEBIBYTE)
    spool.append(ROWS)
    (segment,) = spool.list_segments()
    segment.write_bytes(segment.read_bytes() + damage)
    assert list(read_segment(segment)) == ROWS


def test_rows_of_another_version_keep_the_columns_that_are_known(tmp_path: Path) -> None:
    spool = Spool(tmp_path, MEBIBYTE)
    spool.append(ROWS[:1])
    (segment,) = spool.list_segments()
    changed = segment.read_bytes().replace(b'"details"', b'"colour"', 1)
    segment.write_bytes(changed)
    assert list(read_segment(segment)) == [(*ROWS[0][: COLUMNS.index("details")], "{}")]
    segment.write_bytes(b"")
    assert list(read_segment(segment)) == []
