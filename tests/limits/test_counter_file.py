"""The file of counters on a disk that is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tornado_gate.limits.counter_file import CounterFile


def test_a_full_disk_is_an_error_and_no_death_by_sigbus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page has its place on the disk before it is mapped."""
    file = CounterFile(tmp_path / "counters")

    def fail(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", fail)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                file.open()
    assert len(os.listdir("/proc/self/fd")) == before
    file.open()
    status = (tmp_path / "counters").stat()
    assert status.st_blocks * 512 >= status.st_size > 0
    file.close()
