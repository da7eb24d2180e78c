"""The files of tasks: locks between processes, what a failure leaves, and what is durable."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tornado_gate.storage.files import MediaFull, MediaUnavailable
from tornado_gate.tasks import file_disk
from tornado_gate.tasks.file_disk import LEFT_SECONDS, Disk

HOLDER = """
import sys
from pathlib import Path
from tornado_gate.tasks.file_disk import Disk
held = Disk(Path(sys.argv[1])).try_lock(Path(sys.argv[2]), make=True)
print(held is not None, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "tasks")


def count_descriptors(disk: Disk) -> int:
    """Return the number of open files and folders of the disk. Other descriptors of this process may close at any time."""
    links = (os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd"))
    return sum(link.startswith(str(disk.root)) for link in links)


def list_files(disk: Disk) -> list[str]:
    return sorted(str(path.relative_to(disk.root)) for path in disk.root.rglob("*") if path.is_file())


def start_holder(disk: Disk, path: Path) -> subprocess.Popen[bytes]:
    """Start a process that locks a file until it ends."""
    command = [sys.executable, "-c", HOLDER, str(disk.root), str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"True\n"
    return holder


def test_one_process_at_a_time_has_a_lock_and_a_killed_one_has_none(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_disk, "LOCK_SECONDS", 0.05)
    path, before = disk.root / "locks" / "one", count_descriptors(disk)
    with start_holder(disk, path) as holder:
        assert disk.try_lock(path) is None
        with pytest.raises(TimeoutError, match="another process keeps it locked"), disk.hold_lock(path):
            pass
        assert count_descriptors(disk) == before
        holder.kill()
    with disk.hold_lock(path):
        assert disk.try_lock(path) is None
    held = disk.try_lock(path)
    assert held is not None
    held.unlock()
    held.unlock()
    assert count_descriptors(disk) == before


def test_a_lock_is_free_after_a_failure_under_it(disk: Disk) -> None:
    path, before = disk.root / "locks" / "one", count_descriptors(disk)
    with pytest.raises(KeyError), disk.hold_lock(path):
        raise KeyError
    held = disk.try_lock(path)
    assert held is not None
    held.unlock()
    assert count_descriptors(disk) == before


def test_a_file_that_was_replaced_while_it_was_opened_is_not_locked(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has put a new file in its place. The lock of the old one protects nothing."""
    path, before = disk.root / "one", count_descriptors(disk)
    disk.write_blocking(path, b"old")
    flock = file_disk.fcntl.flock

    def replace_file(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(file_disk.fcntl, "flock", flock)
        disk.write_blocking(path, b"new")
        flock(descriptor, operation)

    monkeypatch.setattr(file_disk.fcntl, "flock", replace_file)
    assert disk.try_lock(path) is None
    assert count_descriptors(disk) == before
    held = disk.try_lock(path)
    assert held is not None
    held.unlock()


def test_a_missing_file_is_locked_only_if_it_may_be_made(disk: Disk) -> None:
    assert disk.try_lock(disk.root / "one") is None
    assert not disk.root.exists()
    held = disk.try_lock(disk.root / "locks" / "one", make=True)
    assert held is not None
    held.discard()
    assert list_files(disk) == []


@pytest.mark.parametrize("step", ["fsync", "rename", "write"])
def test_a_failed_write_leaves_the_old_file_and_no_part(disk: Disk, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = disk.root / "folder" / "one"
    disk.write_blocking(path, b"old")
    before = count_descriptors(disk)

    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full, pytest.raises(OSError, match="No space"):
        full.setattr(os, step, fail)
        disk.write_blocking(path, b"new")
    assert disk.read_blocking(path) == b"old"
    assert list_files(disk) == ["folder/one"]
    assert count_descriptors(disk) == before


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (lambda disk, path: disk.write_blocking(path, b"new"), b"new"),
        (lambda disk, path: disk.touch(path), b""),
    ],
)
def test_a_file_and_its_name_and_its_folder_are_durable(
    disk: Disk, change: Callable[[Disk, Path], None], content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = disk.root / "folder" / "one"
    synced: list[tuple[str, bool]] = []

    def sync(descriptor: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), path.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    change(disk, path)
    assert path.read_bytes() == content
    assert (str(disk.root), False) in synced, "the name of the folder"
    assert synced[-1] == (str(path.parent), True), "the name of the file, when the file has it"


def test_a_folder_that_was_removed_meanwhile_is_made_again(disk: Disk) -> None:
    disk.write_blocking(disk.root / "folder" / "one", b"1")
    for path in sorted(disk.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    disk.write_blocking(disk.root / "folder" / "one", b"2")
    assert disk.read_blocking(disk.root / "folder" / "one") == b"2"
    assert disk.names("folder") == ["one"]
    assert disk.names("none") == []


def test_only_an_old_file_that_nobody_has_locked_is_left(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    path = disk.root / "tmp" / "one"
    disk.touch(path)
    changed = path.stat().st_ctime
    now, before = [changed + LEFT_SECONDS], count_descriptors(disk)
    monkeypatch.setattr(time, "time", lambda: now[0])
    with start_holder(disk, path) as holder:
        assert not disk.is_left(path)
        holder.kill()
    assert disk.is_left(path)
    assert disk.is_left(path), "to ask locks nothing"
    now[0] -= 0.01
    assert not disk.is_left(path)
    assert not disk.is_left(disk.root / "none")
    assert count_descriptors(disk) == before


def test_removing_says_whether_there_was_a_file(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    path = disk.root / "one"
    disk.touch(path)
    assert disk.remove(path)
    assert not disk.remove(path)
    path.mkdir()
    for _ in range(3):
        assert not disk.remove(path)
    assert path.is_dir()
    assert caplog.text.count("was not created by the gateway") == 1, "it is reported once"


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, MediaFull), (errno.EDQUOT, MediaFull), (errno.EIO, MediaUnavailable)]
)
def test_callers_are_told_a_full_disk_from_another_failure(
    disk: Disk, number: int, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(kind) as caught, disk.map_errors():
        raise OSError(number, "secret detail")
    assert "secret detail" not in str(caught.value)
    assert f"tasks cannot be stored in {disk.root}" in caplog.text


@pytest.mark.gen_test
async def test_a_link_or_a_folder_is_no_file_and_is_reported_once(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.touch(disk.root / "file")
    link, folder, before = disk.root / "link", disk.root / "folder", count_descriptors(disk)
    link.symlink_to(disk.root / "file")
    folder.mkdir()
    for path in (link, folder, disk.root / "missing"):
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                await disk.read(path)
            with pytest.raises(FileNotFoundError):
                disk.read_blocking(path)
    assert await disk.read(disk.root / "file") == b""
    assert caplog.text.count("was not created by the gateway") == 2
    assert count_descriptors(disk) == before


def test_a_fork_lets_go_of_the_locks_of_its_parent_without_releasing_them(disk: Disk) -> None:
    path = disk.root / "locks" / "one"
    held = disk.try_lock(path, make=True)
    assert held is not None
    pid = os.fork()
    if not pid:
        status = 1
        try:
            held.unlock()
            status = 0 if disk.try_lock(path) is None else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert disk.try_lock(path) is None
    held.unlock()
