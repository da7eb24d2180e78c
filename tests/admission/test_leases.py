"""The leases of a machine's processes: who lives, and what remains of those that have died."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tornado_gate.admission.leases import Leases

HOLDER = """
import sys
from pathlib import Path
from tornado_gate.admission.leases import Leases
leases = Leases(Path(sys.argv[1]))
leases.hold(7)
print("held", flush=True)
if sys.stdin.readline() == "close\\n":
    leases.close()
    print("closed", flush=True)
    sys.stdin.readline()
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds lease 7."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_process_lives_until_it_is_killed_and_its_file_is_removed_by_the_next_look(tmp_path: Path) -> None:
    leases, before = Leases(tmp_path), len(os.listdir("/proc/self/fd"))
    with start_holder(tmp_path) as holder:
        try:
            assert [leases.is_alive(7) for _ in range(3)] == [True] * 3
            assert (tmp_path / "7").exists()
            assert not leases.is_alive(8), "there never was one"
        finally:
            holder.kill()
    assert (tmp_path / "7").exists(), "it was killed, so it removed nothing"
    assert not leases.is_alive(7)
    assert list(tmp_path.iterdir()) == []
    assert not leases.is_alive(7)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_lease_is_dead_although_its_process_lives(tmp_path: Path) -> None:
    with start_holder(tmp_path) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdin.write("close\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "closed\n"
        assert list(tmp_path.iterdir()) == []
        assert not Leases(tmp_path).is_alive(7)


def test_a_process_knows_its_own_leases_and_gives_them_all_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    own, other = Leases(tmp_path), Leases(tmp_path)
    own.hold(1)
    own.hold(2)
    assert own.is_alive(1)
    assert own.is_alive(2)
    assert other.is_alive(2)
    (tmp_path / "1").unlink()
    own.close()
    assert not own.is_alive(2)
    assert not other.is_alive(2)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before
