"""The folder of the files through which the processes of a gateway count together (PROMETHEUS_MULTIPROC_DIR).

The files are mapped into memory: if the disk is full, a process that writes to a new page is killed (SIGBUS). So they
are in /dev/shm, which is no disk, wherever it has room, and else in the data directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from tornado_gate.telemetry.metrics.series import DIRECTORY_VARIABLE
from tornado_gate.types.value import Value

SHARED_MEMORY = Path("/dev/shm")
LEAST_FREE_BYTES = 32 * 1024 * 1024


class MetricsFolder(Value, frozen=True):
    """The folder of one run. The lock on `descriptor` is held until the last of its processes has ended."""

    path: Path
    descriptor: int

    def remove(self) -> None:
        """Delete the folder at the end of the run."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.descriptor)
        if self.path.parent.parent == SHARED_MEMORY:
            _remove_parent(self.path.parent)


def choose_parent(data_dir: Path) -> Path:
    """Return the folder of the folders of all runs with this data directory."""
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:24]
    parent = SHARED_MEMORY / f"tornado-gate-{name}"
    try:
        room = os.statvfs(SHARED_MEMORY)
        if room.f_bavail * room.f_frsize >= LEAST_FREE_BYTES:
            parent.mkdir(mode=0o700, exist_ok=True)
            status = parent.lstat()  # another user may have created it
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return parent
    except OSError:
        pass  # it does not exist, or is not writable
    return data_dir / "metrics"


def prepare_folder(parent: Path) -> MetricsFolder:
    """Create the folder of this run, and name it in the environment. Call before the first `Metrics`.

    Folders of ended runs are deleted, even with other data directories, because their gateway was killed. If this
    gateway replaces another one, the other's folder stays.
    """
    if parent.parent == SHARED_MEMORY:
        for other in parent.parent.glob("tornado-gate-*"):
            _remove_parent(other)
    lock = _lock_parent(parent)
    try:
        _remove_left_overs(parent)
        path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(lock)
    os.environ[DIRECTORY_VARIABLE] = str(path)
    return MetricsFolder(path, descriptor)


def _lock_parent(parent: Path) -> int:
    """Return the descriptor of the folder, locked. Otherwise another start could delete the new folder in it before
    that is locked.
    """
    while True:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(parent, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return lock
        os.close(lock)  # it was deleted in the same moment


def _remove_parent(parent: Path) -> None:
    """Delete the folder of a data directory in shared memory if none of its runs continues."""
    with suppress(OSError):
        status = parent.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        lock = os.open(parent, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove_left_overs(parent)
            parent.rmdir()  # an OSError if it is not empty
        finally:
            os.close(lock)


def _remove_left_overs(parent: Path) -> None:
    for left_over in [*parent.glob("*.db"), *parent.glob("run-*")]:
        _remove_left_over(left_over)


def _remove_left_over(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)
