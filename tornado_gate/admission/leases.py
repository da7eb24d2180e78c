"""The leases of a machine's processes. Each process locks a file. The kernel releases the lock when the process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tornado_gate.storage.private import make_folder, open_private


class Leases:
    """The files of a folder, each named by the number of a process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, int] = {}

    def hold(self, lease: int) -> None:
        """Hold a lease until `close`, or until the end of the process. Raises OSError."""
        make_folder(self._folder)
        descriptor = open_private(self._folder / str(lease), os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._held[lease] = descriptor

    def is_alive(self, lease: int) -> bool:
        """Return whether the process with this lease lives. Remove the file of a dead process."""
        if lease in self._held:
            return True
        path = self._folder / str(lease)
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            with suppress(FileNotFoundError):
                path.unlink()
            return False
        finally:
            os.close(descriptor)

    def close(self) -> None:
        for lease, descriptor in self._held.items():
            with suppress(OSError):
                (self._folder / str(lease)).unlink()
            os.close(descriptor)
        self._held.clear()
