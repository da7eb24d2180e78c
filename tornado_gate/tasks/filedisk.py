"""The folder of a `FileTaskStore`: files that appear whole, locks that die with their process, faults in words.

Everything here waits for the disk: call it in threads. A lock is a flock: it belongs to an open file, so it ends with the
process at once, and no clock has a say in it. What is forked closes its copies of them.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tornado_gate.storage.files import MediaFull, MediaUnavailable

log = logging.getLogger(__name__)

LEFT_SECONDS = 60.0
"""How old something unfinished must be to count as left behind: its writer may not have locked it yet."""
LOCK_SECONDS = 10.0
"""How long a lock that is held for a few writes is waited for: who has it may have been stopped."""
MOST_REPORTED = 1000

T = TypeVar("T")

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Held:
    """An open file, locked. `release` may be called again, and in any thread."""

    __slots__ = ("__weakref__", "_descriptor", "_mutex", "path", "task_id")

    def __init__(self, path: Path, descriptor: int, task_id: str = "") -> None:
        self.path = path
        self.task_id = task_id
        self._descriptor = descriptor
        self._mutex = threading.Lock()
        _all_held.add(self)

    @property
    def held(self) -> bool:
        return self._descriptor >= 0

    def write(self, data: bytes) -> None:
        """Append. Raises OSError, also when it was released meanwhile."""
        view = memoryview(data)
        with self._mutex:
            while view:
                view = view[os.write(self._descriptor, view) :]

    def sync(self) -> None:
        with self._mutex:
            os.fsync(self._descriptor)

    def release(self) -> None:
        with self._mutex:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)  # a fork may have a copy that is not closed yet
                os.close(descriptor)

    def discard(self) -> None:
        """Release it, and remove it if it still has its first name."""
        with suppress(OSError):
            os.unlink(self.path)
        self.release()

    def forget(self) -> None:
        """Close this process's copy without unlocking that of the process it was forked from."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_all_held: weakref.WeakSet[Held] = weakref.WeakSet()


def _forget_all() -> None:
    for held in list(_all_held):
        held.forget()


os.register_at_fork(after_in_child=_forget_all)


class Disk:
    """The folder `root`. Folders in it are made when they are first needed, and again when they are gone."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._reported: set[Path] = set()

    def make(self, *names: str) -> None:
        """Make the folder and those in it."""
        for name in names:
            self._make_folder(self.root / name)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self.root and self.root in folder.parents:
            self._make_folder(folder.parent)
            with suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        else:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sync(folder.parent)

    def _in_folder(self, folder: Path, work: Callable[[], T]) -> T:
        """What `work` gives, after a second try when the folder it needs was not there; a sweep may remove it again."""
        for _ in range(3):
            with suppress(FileNotFoundError):
                return work()
            self._make_folder(folder)
        return work()

    def sync(self, folder: Path) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # Files

    def part(self) -> Held:
        """A new file under a name of its own in tmp/, locked while it is written."""
        path = self.root / "tmp" / secrets.token_hex(16)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | _FLAGS
        descriptor = self._in_folder(path.parent, lambda: os.open(path, flags, 0o600))
        part = Held(path, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return part

    def whole(self, data: bytes) -> Held:
        """A part that holds `data`, which is on the disk."""
        part = self.part()
        try:
            part.write(data)
            part.sync()
        except BaseException:
            part.discard()
            raise
        return part

    def place(self, part: Held, path: Path) -> None:
        """Give a part the name `path`, in the place of what has it. It stays locked."""
        self._in_folder(path.parent, lambda: os.rename(part.path, path))

    def write(self, path: Path, data: bytes) -> None:
        """A file that is there whole, or as it was before; durable."""
        part = self.whole(data)
        try:
            self.place(part, path)
        finally:
            part.discard()
        self.sync(path.parent)

    def touch(self, path: Path) -> None:
        """An empty file; durable."""
        flags = os.O_CREAT | os.O_WRONLY | _FLAGS
        os.close(self._in_folder(path.parent, lambda: os.open(path, flags, 0o600)))
        self.sync(path.parent)

    def read(self, path: Path) -> bytes:
        """Raises FileNotFoundError also for what is no file: a link or a folder that somebody put here."""
        try:
            descriptor = os.open(path, os.O_RDONLY | _FLAGS)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR):
                raise
            self.report(path)
            raise FileNotFoundError(errno.ENOENT, "is no file", str(path)) from None

    def names(self, folder: str) -> list[str]:
        """What is in a folder below the root; nothing where it is not there."""
        try:
            return os.listdir(self.root / folder)
        except FileNotFoundError:
            return []

    def remove(self, path: Path) -> bool:
        """Whether it was there."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except IsADirectoryError:
            self.report(path)
            return False
        return True

    def is_left(self, path: Path) -> bool:
        """Whether a file is old enough to have been left behind, and nobody has locked it."""
        try:
            if time.time() - os.lstat(path).st_ctime < LEFT_SECONDS:
                return False
            held = self.try_lock(path)
        except OSError:
            return False
        if held is not None:
            held.release()
        return held is not None

    # Locks

    def try_lock(self, path: Path, *, make: bool = False, task_id: str = "") -> Held | None:
        """The lock of a file; None when another has it, or the file is gone, perhaps this moment."""
        flags = os.O_RDWR | _FLAGS | (os.O_CREAT if make else 0)
        try:
            opened = self._in_folder(path.parent, lambda: os.open(path, flags, 0o600)) if make else os.open(path, flags)
        except FileNotFoundError:
            return None
        held = Held(path, opened, task_id)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(opened), os.lstat(path)):
                return held
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            held.release()
            raise
        held.release()
        return None

    @contextmanager
    def locked(self, path: Path) -> Iterator[int]:
        """The descriptor of a locked file, which is made where it is not there. Raises OSError when nobody lets go of it."""
        ends = time.monotonic() + LOCK_SECONDS
        while (held := self.try_lock(path, make=True)) is None:
            if time.monotonic() > ends:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", str(path))
            time.sleep(0.002)
        try:
            yield held._descriptor
        finally:
            held.release()

    # Words

    def report(self, path: Path) -> None:
        """Say once that something here is not ours."""
        if path not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(path)
            log.warning("%s is nothing that the gateway made; it is left alone", path)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Faults of the disk, as the caller may see them; the operator's words go to the log."""
        try:
            yield
        except OSError as error:
            log.error("tasks cannot be kept in %s: %s. Check server.data_dir and its disk.", self.root, error)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise MediaFull("The gateway's disk is full. Try again later.") from error
            raise MediaUnavailable("The gateway cannot use its storage for tasks. Try again later.") from error
