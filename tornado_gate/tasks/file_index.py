"""The tasks of each account in the order of their creation: one file of lines per account, accounts/<sha256>.log.

A line is ``<created_ns, 20 digits> <task id>`` and a line feed, 60 bytes. So the file can be read from either end, and a torn
write is overwritten. A line without a record is ignored: it may be written before its task exists and removed long after. Blocks
on the disk: call it in threads.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tornado_gate.tasks.file_disk import Disk

LINE_BYTES = 60
BLOCK_LINES = 1000
FEWEST_DEAD = 64
"""The number of dead lines below which the file is not rewritten."""

_LINE = re.compile(rb"[0-9]{20} (video_[0-9a-f]{32})\n")


class AccountIndex:
    """The lines of every account in `disk`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def path(self, account: str) -> Path:
        name = hashlib.sha256(account.encode("utf-8", "surrogatepass")).hexdigest()
        return self._disk.root / "accounts" / f"{name}.log"

    def append(self, account: str, created_ns: int, task_id: str) -> None:
        """Add a line; durable."""
        line = f"{created_ns:020d} {task_id}\n".encode()
        path = self.path(account)
        with self._disk.hold_lock(path) as descriptor:
            end = _find_end(descriptor)
            if os.pwrite(descriptor, line, end) != LINE_BYTES:
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(descriptor)
        if end == 0:
            self._disk.sync(path.parent)

    def ids(self, account: str, after: str, *, newest_first: bool) -> Iterator[str]:
        """Return the ids of an account that follow `after`, "" for all. Raises LookupError for an `after` without a line."""
        try:
            descriptor = os.open(self.path(account), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            if after:
                raise LookupError(after) from None
            return
        try:
            lines = _find_end(descriptor) // LINE_BYTES
            first, last = 0, lines
            if after:
                line = _find_line(descriptor, lines, after)
                first, last = (0, line) if newest_first else (line + 1, lines)
            for block in _blocks(first, last, newest_first=newest_first):
                found_ids = [match[1].decode() for match in _LINE.finditer(_read(descriptor, *block))]
                yield from reversed(found_ids) if newest_first else found_ids
        finally:
            os.close(descriptor)

    def list_newest(self) -> list[str]:
        """Return the ids of all accounts, newest first. Reads every line: 6 MB for 100,000 tasks."""
        lines: list[bytes] = []
        for path in (self._disk.root / "accounts").glob("*.log"):
            with suppress(FileNotFoundError):
                lines += [line[0] for line in _LINE.finditer(self._disk.read_blocking(path))]
        lines.sort(reverse=True)  # a line begins with the time of creation
        return [line[21:-1].decode() for line in lines]

    def compact(self, account: str, active: Callable[[], set[str]]) -> None:
        """Remove the dead lines if they are most or all. A task that is being created is active before it has a line."""
        path = self.path(account)
        with suppress(FileNotFoundError):
            if self._select_living(self._disk.read_blocking(path), active) is None:
                return  # checked without the lock, because others would wait for it
        with self._disk.hold_lock(path) as descriptor:
            shorter = self._select_living(_read(descriptor, 0, _find_end(descriptor) // LINE_BYTES), active)
            if shorter:
                self._disk.write_blocking(path, shorter)
            elif shorter is not None:
                os.unlink(path)

    def _select_living(self, data: bytes, active: Callable[[], set[str]]) -> bytes | None:
        """Return the lines to keep, if the others are to be removed."""
        lines = list(_LINE.finditer(data))
        making = active()  # listed after the lines, before the records: a task in neither list was deleted
        live = [line[0] for line in lines if self._is_living(line[1].decode(), making)]
        dead = len(lines) - len(live)
        return b"".join(live) if not live or dead >= max(FEWEST_DEAD, len(lines) // 2) else None

    def _is_living(self, task_id: str, making: set[str]) -> bool:
        return task_id in making or os.path.lexists(record_path(self._disk, task_id))


def record_path(disk: Disk, task_id: str) -> Path:
    """Return the path of a task's record."""
    return disk.root / "records" / task_id[6:8] / f"{task_id}.json"


def _find_end(descriptor: int) -> int:
    """Return the end of the last complete line."""
    return os.fstat(descriptor).st_size // LINE_BYTES * LINE_BYTES


def _read(descriptor: int, first: int, last: int) -> bytes:
    """Return the lines from number `first` to before `last`."""
    return os.pread(descriptor, (last - first) * LINE_BYTES, first * LINE_BYTES)


def _blocks(first: int, last: int, *, newest_first: bool) -> Iterator[tuple[int, int]]:
    starts = range(first, last, BLOCK_LINES)
    for start in reversed(starts) if newest_first else starts:
        yield start, min(last, start + BLOCK_LINES)


def _find_line(descriptor: int, lines: int, task_id: str) -> int:
    """Return the line number of a task. Raises LookupError."""
    ending = f" {task_id}\n".encode()
    for first, last in _blocks(0, lines, newest_first=True):
        if (offset := _read(descriptor, first, last).rfind(ending)) >= 0:
            return first + offset // LINE_BYTES
    raise LookupError(task_id)
