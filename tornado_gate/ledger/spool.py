"""Rows on the disk while the database is away. Any process of the gateway writes these files to the database later.

Each process has an owner name and locks its own lock file; it appends to segments ``OWNER-NUMBER.rows``: a line with
the names of the columns, then one JSON list for each row. Every append ends with fsync. A segment is deleted after its
rows are committed. A process that dies before the deletion leaves rows that are written again, which changes nothing.
If the lock of an owner is free, its process has ended, and the process that gets the lock writes the owner's segments.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson

from tornado_gate.ledger.writing import COLUMNS, StoredRow
from tornado_gate.storage.private import make_folder, open_private

log = logging.getLogger(__name__)

FOLDER: Final = "ledger-spool"
FULL_SHARE: Final = 0.8
"""The share of ledger.spool_bytes from which people are told that the spool is nearly full."""
SEGMENT_BYTES: Final = 4 * 1024 * 1024
_MISSING: Final = {"details": "{}"}
"""The values of these columns in rows of a version that did not have them."""
_HEAD: Final = orjson.dumps(COLUMNS) + b"\n"


def measure_spool(data_dir: Path) -> int:
    """Return the size of the spool of a machine in bytes. Reads the sizes of files."""
    try:
        with os.scandir(data_dir / FOLDER) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".rows"))
    except OSError:
        return 0


class Spool:
    """The spool of one process. Used by the writer's thread only. Methods raise OSError."""

    def __init__(self, data_dir: Path, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._folder = data_dir / FOLDER
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._number = 0
        self._current: Path | None = None
        self._lock: int | None = None

    def append(self, rows: Sequence[StoredRow]) -> int:
        """Append rows, durably. Returns how many rows were dropped for lack of space, oldest first."""
        data = b"".join([orjson.dumps(row) + b"\n" for row in rows])
        if len(data) + len(_HEAD) > self.max_bytes:
            return len(rows)
        self._take_lock()
        dropped = self._make_room(len(data) + len(_HEAD))
        if dropped is None:
            return len(rows)
        _append_bytes(self._find_segment(len(data)), data)
        return dropped

    def list_segments(self) -> list[Path]:
        """Return the segments that this process may write to the database, oldest first: its own, and those left by
        ended processes.
        """
        self._current = None  # later rows go into a new segment
        self._adopt_segments()
        return [path for path in self._list_all() if self._is_own_segment(path)]

    def remove(self, segment: Path) -> None:
        """Delete a segment whose rows are in the database."""
        segment.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock. Another process, or the next start, writes the remaining rows."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            if not any(self._is_own_segment(path) for path in self._list_all()):
                self._get_lock_path(self._owner).unlink(missing_ok=True)

    def _take_lock(self) -> None:
        if self._lock is None:
            make_folder(self._folder)
            self._lock = open_private(self._get_lock_path(self._owner), os.O_CREAT | os.O_RDWR)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def _get_lock_path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"

    def _list_all(self) -> list[Path]:
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".rows")]
        except FileNotFoundError:
            return []
        return sorted((self._folder / name for name in names), key=_get_order)

    def _is_own_segment(self, path: Path) -> bool:
        return path.name.startswith(f"{self._owner}-")

    def _adopt_segments(self) -> None:
        """Rename the segments of processes that have ended, so that they belong to this one."""
        for path in self._list_all():
            owner = path.name.rpartition("-")[0]
            if owner == self._owner:
                continue
            lock_path = self._get_lock_path(owner)
            with _try_lock(lock_path) as is_free:
                if is_free:
                    self._take_lock()
                    path.rename(self._make_path())
                    if not any(segment.name.startswith(f"{owner}-") for segment in self._list_all()):
                        lock_path.unlink(missing_ok=True)

    def _make_path(self) -> Path:
        self._number += 1
        return self._folder / f"{self._owner}-{self._number:08d}.rows"

    def _find_segment(self, size: int) -> Path:
        path = self._current
        if path is None or not path.exists() or path.stat().st_size + size > SEGMENT_BYTES:
            path = self._current = self._make_path()
        return path

    def _make_room(self, size: int) -> int | None:
        """Delete own segments until `size` bytes fit. Returns the number of deleted rows, or None if the bytes do not
        fit even then.
        """
        segments = self._list_all()
        sizes = {path: _measure_file(path) for path in segments}
        total, dropped = sum(sizes.values()), 0
        for path in segments:
            if total + size <= self.max_bytes:
                break
            if self._is_own_segment(path):
                dropped += sum(1 for _ in read_segment(path))
                self.remove(path)
                total -= sizes[path]
        return dropped if total + size <= self.max_bytes else None


def _append_bytes(path: Path, data: bytes) -> None:
    """Append to a segment, durably. If the append fails, the segment is unchanged. Raises OSError."""
    with open(path, "ab", buffering=0, opener=open_private) as file:
        size = file.tell()
        data = data if size else _HEAD + data
        try:
            if file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)  # rows that follow half a line would be lost with it
            raise


def read_segment(path: Path) -> Iterator[StoredRow]:
    """Return the rows of a segment, in order. Columns that this version does not define are dropped. A damaged line is
    skipped.
    """
    with open(path, "rb", opener=open_private) as file:
        try:
            names = orjson.loads(file.readline())
        except orjson.JSONDecodeError:
            return
        for line in file:
            try:
                values = dict(zip(names, orjson.loads(line), strict=True))
            except (orjson.JSONDecodeError, ValueError, TypeError):
                log.warning("a damaged row in %s was skipped: the process that wrote it was killed", path.name)
                continue
            yield tuple([values.get(name, _MISSING.get(name)) for name in COLUMNS])


def _get_order(path: Path) -> tuple[str, str]:
    owner, _, number = path.stem.rpartition("-")
    return (number, owner)


def _measure_file(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Yield whether the lock file could be locked; the lock lasts until the block ends. The file may be missing."""
    try:
        file = open_private(path, os.O_CREAT | os.O_RDWR)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_same = os.fstat(file).st_ino == os.stat(path).st_ino
        except OSError:
            is_same = False
        yield is_same
    finally:
        with contextlib.suppress(OSError):
            os.close(file)
