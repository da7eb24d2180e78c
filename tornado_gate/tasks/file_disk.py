"""The folder of a `FileTaskStore`: files that are replaced atomically, locks that end with their process, errors of the disk.

One file is read and written with aiofiles (`read`, `Held.open_writer`). Everything else blocks on the disk and belongs in a
thread. That includes reads and writes under a lock, which is never held across an await, and reads and writes of many files
(`read_blocking`, `write_blocking`). A lock is a flock on an open file. So it ends immediately with its process and does not
depend on the clock. A forked process closes its copies.
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

import aiofiles
from aiofiles.threadpool import wrap
from aiofiles.threadpool.binary import AsyncBufferedIOBase

from tornado_gate.storage.files import MediaFull, MediaUnavailable
from tornado_gate.storage.private import FOLDER_MODE, make_folder, open_private

log = logging.getLogger(__name__)

LEFT_SECONDS = 60.0
"""Age from which an unfinished file counts as abandoned: a younger one may not have been locked yet."""
LOCK_SECONDS = 10.0
"""The maximum wait for a lock that is held for a few writes: its process may have been stopped."""
MAX_REPORTED = 1000

T = TypeVar("T")

_FLAGS = os.O_NONBLOCK


class Held:
    """An open file, locked. `unlock` may be called again, and in any thread."""

    __slots__ = ("__weakref__", "_descriptor", "_mutex", "path", "task_id")

    def __init__(self, path: Path, descriptor: int, task_id: str = "") -> None:
        self.path = path
        self.task_id = task_id
        self._descriptor = descriptor
        self._mutex = threading.Lock()
        _all_held.add(self)

    @property
    def is_held(self) -> bool:
        return self._descriptor >= 0

    def write(self, data: bytes) -> None:
        """Append, blocking. Raises OSError, for example after `unlock`."""
        view = memoryview(data)
        with self._mutex:
            while view:
                view = view[os.write(self._descriptor, view) :]

    def open_writer(self) -> AsyncBufferedIOBase:
        """Open a writer with its own descriptor: data that it still writes after `unlock` goes only to this file."""
        with self._mutex:
            writer: AsyncBufferedIOBase = wrap(os.fdopen(os.dup(self._descriptor), "wb"))
        return writer

    def sync(self) -> None:
        with self._mutex:
            os.fsync(self._descriptor)

    async def release(self) -> None:
        self.unlock()

    def unlock(self) -> None:
        with self._mutex:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked process may not have closed its copy yet
                os.close(descriptor)

    def discard(self) -> None:
        """Release the file, and remove it if it still has its first name."""
        with suppress(OSError):
            os.unlink(self.path)
        self.unlock()

    def forget(self) -> None:
        """Close the copy of a forked process without releasing the lock of its parent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_all_held: weakref.WeakSet[Held] = weakref.WeakSet()


def _forget_all() -> None:
    for held in list(_all_held):
        held.forget()


os.register_at_fork(after_in_child=_forget_all)


class Disk:
    """The folder `root`. Folders in it are created when they are needed, even after something has removed them."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._reported: set[Path] = set()

    def make(self, *names: str) -> None:
        """Create these folders in the root."""
        for name in names:
            self._make_folder(self.root / name)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self.root and self.root in folder.parents:
            self._make_folder(folder.parent)
            with suppress(FileExistsError):
                os.mkdir(folder, FOLDER_MODE)
        else:
            make_folder(folder)
        self.sync(folder.parent)

    def _in_folder(self, folder: Path, work: Callable[[], T]) -> T:
        """Return the result of `work`, which is repeated when the folder was missing; a sweep may remove it again."""
        for _ in range(3):
            with suppress(FileNotFoundError):
                return work()
            self._make_folder(folder)
        return work()

    def sync(self, folder: Path) -> None:
        """Make the entries of a folder durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    # Files

    def part(self) -> Held:
        """Return a new file with a random name in tmp/, locked while it is written."""
        path = self.root / "tmp" / secrets.token_hex(16)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | _FLAGS
        descriptor = self._in_folder(path.parent, lambda: open_private(path, flags))
        part = Held(path, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return part

    def place(self, part: Held, path: Path) -> None:
        """Rename a part to `path`, replacing the file that has this name. It stays locked."""
        self._in_folder(path.parent, lambda: os.rename(part.path, path))

    def write_blocking(self, path: Path, data: bytes) -> None:
        """Replace a file atomically and durably."""
        part = self.part()
        try:
            part.write(data)
            part.sync()
            self.place(part, path)
        finally:
            part.discard()
        self.sync(path.parent)

    def touch(self, path: Path) -> None:
        """Create an empty file durably."""
        flags = os.O_CREAT | os.O_WRONLY | _FLAGS
        os.close(self._in_folder(path.parent, lambda: open_private(path, flags)))
        self.sync(path.parent)

    async def read(self, path: Path) -> bytes:
        """Return the content of a file, in two calls of a thread. Raises FileNotFoundError, also for a link or a folder."""
        with self._require_file(path):
            file = await aiofiles.open(path, "rb", opener=_open_plain)
            try:
                return await file.read()
            finally:
                file.raw.close()  # not in a thread: closing a file that was only read does not block

    def read_blocking(self, path: Path) -> bytes:
        """Return the content like `read`, for threads."""
        with self._require_file(path), open(path, "rb", opener=_open_plain) as file:
            return file.read()

    @contextmanager
    def _require_file(self, path: Path) -> Iterator[None]:
        """Raise FileNotFoundError for a link or a folder, which are reported."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EISDIR):
                raise
            self.report(path)
            raise FileNotFoundError(errno.ENOENT, "is not a file", str(path)) from None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder of the root, and none if it does not exist."""
        try:
            return os.listdir(self.root / folder)
        except FileNotFoundError:
            return []

    def remove(self, path: Path) -> bool:
        """Delete a file. Return whether it existed."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        except IsADirectoryError:
            self.report(path)
            return False
        return True

    def is_left(self, path: Path) -> bool:
        """Return whether a file is old enough to be abandoned, and no process has locked it."""
        try:
            if time.time() - os.lstat(path).st_ctime < LEFT_SECONDS:
                return False
            held = self.try_lock(path)
        except OSError:
            return False
        if held is not None:
            held.unlock()
        return held is not None

    # Locks

    def try_lock(self, path: Path, *, make: bool = False, task_id: str = "") -> Held | None:
        """Lock a file. Return None when another holder has the lock, or the file does not exist (any more)."""
        flags = os.O_RDWR | _FLAGS | (os.O_CREAT if make else 0)
        try:
            opened = (
                self._in_folder(path.parent, lambda: open_private(path, flags)) if make else open_private(path, flags)
            )
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
            held.unlock()
            raise
        held.unlock()
        return None

    @contextmanager
    def hold_lock(self, path: Path) -> Iterator[int]:
        """Return the descriptor of a locked file, which is created if needed. Raises TimeoutError after LOCK_SECONDS."""
        ends = time.monotonic() + LOCK_SECONDS
        while (held := self.try_lock(path, make=True)) is None:
            if time.monotonic() > ends:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", str(path))
            time.sleep(0.002)
        try:
            yield held._descriptor
        finally:
            held.unlock()

    # Errors

    def report(self, path: Path) -> None:
        """Log once that something in the folder was not created by the gateway."""
        if path not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(path)
            log.warning("%s was not created by the gateway and is ignored", path)

    @contextmanager
    def map_errors(self) -> Iterator[None]:
        """Raise errors of the disk as MediaFull or MediaUnavailable; the log has the path and the cause."""
        try:
            yield
        except OSError as error:
            log.error("tasks cannot be stored in %s: %s. Check server.data_dir and its disk.", self.root, error)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise MediaFull("The gateway's disk is full. Try again later.") from error
            raise MediaUnavailable("The gateway cannot use its storage for tasks. Try again later.") from error


def _open_plain(path: str, flags: int) -> int:
    """Open a file for reading. The opener follows no link and waits for no pipe."""
    return open_private(path, flags | _FLAGS)
