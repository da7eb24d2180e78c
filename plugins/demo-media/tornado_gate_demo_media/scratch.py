"""Folders for files that live no longer than their process, below the system's folder for temporary files.

A process holds a lock on its folder; the kernel releases it however the process ends. The next process that needs a
folder therefore recognises unused folders and removes them. Process ids would not be enough: two containers that
share a folder may both have a process 7.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

PREFIX: Final = "tornado-gate-local-video-"
TRIES: Final = 50  # attempts to remove a folder while a killed process may still create a file in it
PAUSE_SECONDS: Final = 0.01


class ScratchFolder:
    """One folder, of mode 0700, created when it is first needed. Its methods block on disk access: call them from threads."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._lock = threading.Lock()
        self._held: int | None = None
        self._closed = False
        _all.add(self)

    def make_folder(self, name: str) -> Path:
        """Create a folder in it and return its path. Raises OSError, also after `close`."""
        with self._lock:
            if self.path is None:
                remove_leftovers()
                self._make()
            try:
                return self._make_subfolder(name)
            except FileNotFoundError:  # a cleaner of temporary files removed the folder
                self._release()
                self._make()
                return self._make_subfolder(name)

    def _make_subfolder(self, name: str) -> Path:
        if self.path is None:
            raise OSError("the folder for temporary files is closed; no file can be created in it")
        folder = self.path / name
        folder.mkdir(mode=0o700)
        return folder

    def _make(self) -> None:
        """Create the folder under a hidden name and rename it once it is locked, so that no process removes it as unused."""
        if self._closed:
            return
        made = tempfile.mkdtemp(prefix=f".{PREFIX}")
        path = Path(made).with_name(f"{PREFIX}{os.getpid()}-{made.rpartition('-')[2]}")
        self._held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(
            OSError
        ):  # a file system without locks: then no other process can lock and remove the folder either
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(made, path)
        self.path = path

    def close(self) -> None:
        """Remove the folder and everything in it. `make_folder` raises afterwards."""
        with self._lock:
            self._closed = True
            if self.path is not None:
                remove_folder(self.path)
            self._release()

    def forget(self) -> None:
        """For the child of a fork: the folder belongs to the parent. Takes no lock, which a thread of the parent may hold."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        self.path = None
        if self._held is not None:
            os.close(self._held)
            self._held = None


def remove_folder(folder: Path) -> None:
    """Remove a folder and everything in it, also while a killed process still creates files in it."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(PAUSE_SECONDS)


def remove_leftovers() -> None:
    """Remove the folders of dead processes. Folders of other users stay."""
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            with suppress(OSError), _lock_abandoned(folder):
                remove_folder(folder)


@contextmanager
def _lock_abandoned(folder: Path) -> Iterator[None]:
    """Lock a folder that no process uses. Raises OSError when it is in use, belongs to another user or is not a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


_all: WeakSet[ScratchFolder] = WeakSet()


def _close_all() -> None:
    for scratch in list(_all):
        scratch.close()


def _forget_all() -> None:
    for scratch in list(_all):
        scratch.forget()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
