"""Folders for files that live no longer than their process, below the system's folder for temporary files.

A process holds a lock on its folder, which the kernel lets go of however the process dies: so the next one that needs a
folder knows which others nobody uses any more, and removes them. Numbers of processes would not do, since two containers
that share a folder may both have a process 7.
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
TRIES: Final = 50  # to remove a folder in which a process that is being killed may still make a file
PAUSE_SECONDS: Final = 0.01


class ScratchFolder:
    """One folder, of mode 0700, made when it is first needed. Everything here touches the disk: call it from threads."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._lock = threading.Lock()
        self._held: int | None = None
        self._closed = False
        _all.add(self)

    def make_folder(self, name: str) -> Path:
        """A new folder in it. Raises OSError, also after `close`."""
        with self._lock:
            if self.path is None:
                remove_leftovers()
                self._make()
            try:
                return self._make_subfolder(name)
            except FileNotFoundError:  # a cleaner of temporary files was here
                self._release()
                self._make()
                return self._make_subfolder(name)

    def _make_subfolder(self, name: str) -> Path:
        if self.path is None:
            raise OSError("this folder for temporary files was closed")
        folder = self.path / name
        folder.mkdir(mode=0o700)
        return folder

    def _make(self) -> None:
        """Under another name until it is locked, so that nobody takes it for a leftover."""
        if self._closed:
            return
        made = tempfile.mkdtemp(prefix=f".{PREFIX}")
        path = Path(made).with_name(f"{PREFIX}{os.getpid()}-{made.rpartition('-')[2]}")
        self._held = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks: then nobody else can lock it, and remove it, either
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(made, path)
        self.path = path

    def close(self) -> None:
        """Remove it with all that is in it. Nothing can be made in it afterwards."""
        with self._lock:
            self._closed = True
            if self.path is not None:
                remove_folder(self.path)
            self._release()

    def forget(self) -> None:
        """In the child of a fork: the folder is the parent's. Takes no lock, which a thread of the parent's may hold."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        self.path = None
        if self._held is not None:
            os.close(self._held)
            self._held = None


def remove_folder(folder: Path) -> None:
    """With all that is in it, also when a process that is being killed still puts something there."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(PAUSE_SECONDS)


def remove_leftovers() -> None:
    """Remove the folders of processes that are dead. Those of other users stay."""
    with suppress(OSError):
        for folder in list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
            with suppress(OSError), _lock_abandoned(folder):
                remove_folder(folder)


@contextmanager
def _lock_abandoned(folder: Path) -> Iterator[None]:
    """Raises OSError when it is somebody's, or no folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{folder} is another user's")
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
