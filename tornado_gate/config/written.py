"""Detect whether another process is writing a file, and keep other processes from it while the file is read.

Linux grants a lease for reading (fcntl(2), F_SETLEASE) only if no process has the file open for writing. A process that
then opens it for writing waits until the lease is released. So content that is read under a lease comes from a writer
that has closed the file. The lease needs the file's owner, and a local file system; elsewhere only the times and sizes
of the file are a sign.
"""

from __future__ import annotations

import errno
import fcntl
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_SET_LEASE: Final[int | None] = getattr(fcntl, "F_SETLEASE", None)


@contextmanager
def hold_off_writers(descriptor: int) -> Iterator[bool | None]:
    """Keep other processes from opening a file for writing, inside the block, which must be short.

    Yields True if that succeeds, False if a process has the file open for writing, and None if it cannot be found out.
    """
    held = _take_lease(descriptor)
    try:
        yield held
    finally:
        if held:
            assert _SET_LEASE is not None
            with suppress(OSError):  # the kernel ends a lease for which a process has waited too long
                fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)


def _take_lease(descriptor: int) -> bool | None:
    if _SET_LEASE is None:
        return None
    try:
        # A process that waits for the end of the lease causes a signal, which is SIGIO by default and would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_RDLCK)
    except OSError as error:
        return False if error.errno == errno.EAGAIN else None
    return True


def is_unwritten(path: Path | None) -> bool | None:
    """Return whether no process has the file open for writing; None if that is unknown, or if there is no such file."""
    if path is None or not path.is_file():  # not a pipe, which would wait for a writer
        return None
    try:
        with path.open("rb") as file, hold_off_writers(file.fileno()) as held:
            return held
    except OSError:
        return None
