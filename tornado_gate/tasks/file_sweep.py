"""The sweep of a `FileTaskStore`'s folder: it deletes expired tasks, and files that dead processes have left there.

The date of a task is in the name of its entry in due/, in a folder per hour, so only due tasks are read. Blocks on the disk, even
to read records, of which up to BATCH are read at a time: call it in threads.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.file_disk import Disk
from tornado_gate.tasks.file_index import record_path
from tornado_gate.tasks.record import ID, TaskRecord
from tornado_gate.tasks.store import ActiveTask, compute_digest

BATCH = 200
LATEST_DATE = 253_402_300_000.0
"""The year 9999: names of dates have as many digits as this."""

_MARKER = re.compile(r"([0-9]{20})\.([0-9a-f]{8})\.([0-9a-f]{8})\.(video_[0-9a-f]{32})", re.ASCII)
_HOUR = re.compile(r"[0-9]{10}", re.ASCII)
_DATE = re.compile(r"([0-9]{18})\.(video_[0-9a-f]{32})", re.ASCII)
_PART = re.compile(r"[0-9a-f]{32}", re.ASCII)
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)


def marker_name(task: ActiveTask) -> str:
    return f"{task.created:020d}.{task.provider}.{task.account}.{task.id}"


def find_marker_name(record: TaskRecord) -> str:
    """Return the name of the marker of a task."""
    return marker_name(
        ActiveTask(record.created_ns, compute_digest(record.provider), compute_digest(record.account), record.id)
    )


def list_markers(disk: Disk) -> Iterator[ActiveTask]:
    """Return the tasks that have not ended, and some that were not created completely, in no order. Lists one folder."""
    for name in disk.names("active"):
        if match := _MARKER.fullmatch(name):
            yield ActiveTask(int(match[1]), match[2], match[3], match[4])
        else:
            disk.report(disk.root / "active" / name)


def due_path(disk: Disk, expires_at: float, task_id: str) -> Path:
    """Return the entry of a task that expires at `expires_at`."""
    seconds = min(max(0.0, expires_at), LATEST_DATE)
    return disk.root / "due" / _format_hour(seconds) / f"{_to_microseconds(seconds):018d}.{task_id}"


def _format_hour(seconds: float) -> str:
    return time.strftime("%Y%m%d%H", time.gmtime(min(max(0.0, seconds), LATEST_DATE)))


def _to_microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


class Sweep:
    """One sweep. `read` returns a record or raises NotFound; `remove` deletes a task except for its date."""

    def __init__(self, disk: Disk, *, read: Callable[[str], TaskRecord], remove: Callable[[TaskRecord], bool]) -> None:
        self._disk = disk
        self._read = read
        self._remove = remove
        self.key_shard = secrets.token_hex(1)
        """The keys that this sweep checks; other sweeps check the others."""

    def find_due(self, now: float) -> list[list[Path]]:
        """Yield the entries that are due, in batches."""
        due: list[Path] = []
        for hour in sorted(self._disk.names("due")):
            folder = self._disk.root / "due" / hour
            if not _HOUR.fullmatch(hour):
                self._disk.report(folder)
            elif hour <= _format_hour(now):
                due += self._find_due_in(folder, now)
        return [due[start : start + BATCH] for start in range(0, len(due), BATCH)]

    def _find_due_in(self, folder: Path, now: float) -> Iterator[Path]:
        try:
            names = self._disk.names(f"due/{folder.name}")
        except NotADirectoryError:
            self._disk.report(folder)
            return
        if not names and folder.name < _format_hour(now):
            with suppress(OSError):  # another process has just added an entry
                os.rmdir(folder)
        for name in names:
            if not (entry := _DATE.fullmatch(name)):
                self._disk.report(folder / name)
            elif int(entry[1]) <= _to_microseconds(now):
                yield folder / name

    def expire(self, entries: list[Path], now: float) -> list[str]:
        """Delete the tasks of these entries, then the entries: after a crash in between they are found again."""
        gone: list[str] = []
        done: list[Path] = []
        for entry in entries:
            task_id = entry.name.partition(".")[2]
            try:
                record = self._read(task_id)
                expires = record.expires_at
                if record.has_ended and expires is not None and _to_microseconds(expires) <= _to_microseconds(now):
                    gone += [task_id] if self._remove(record) else []
            except NotFound:
                pass
            except MediaUnavailable:
                continue  # a record of a newer gateway, which will delete it
            done.append(entry)
        for folder in {record_path(self._disk, task_id).parent for task_id in gone}:
            self._disk.sync(folder)
        for entry in done:
            self._disk.remove(entry)
        return gone

    def delete_leftovers(self) -> None:
        """Delete files without a task that are old enough and that no process has locked."""
        images, cancels = self._disk.names("images"), self._disk.names("cancels")  # before the markers, which go last
        ids = {task.id for task in list(list_markers(self._disk)) if not self._drop_marker(task)}
        for name in self._disk.names("tmp"):
            self._drop("tmp", name, ours=bool(_PART.fullmatch(name)))
        for folder, names in (("images", images), ("cancels", cancels)):
            for name in names:
                if name not in ids:
                    self._drop(folder, name, ours=bool(ID.fullmatch(name)))

    def _drop_marker(self, task: ActiveTask) -> bool:
        """Delete a marker whose process died before it wrote the record."""
        path, record = self._disk.root / "active" / marker_name(task), record_path(self._disk, task.id)
        is_abandoned = not os.path.lexists(record) and self._disk.is_left(path)
        # the record may have been written since
        return is_abandoned and not os.path.lexists(record) and self._disk.remove(path)

    def _drop(self, folder: str, name: str, *, ours: bool) -> None:
        path = self._disk.root / folder / name
        if not ours:
            self._disk.report(path)
        elif self._disk.is_left(path):
            self._disk.remove(path)

    def delete_keys(self, lock: Path, id_under: Callable[[str], str]) -> None:
        """Delete the idempotency keys of this sweep whose task no longer exists."""
        folder = f"keys/{self.key_shard}"
        for name in self._disk.names(folder):
            path = self._disk.root / folder / name
            if not _KEY.fullmatch(name):
                self._disk.report(path)
                continue
            with self._disk.hold_lock(lock):
                task_id = id_under(name)
                if not ID.fullmatch(task_id) or not os.path.lexists(record_path(self._disk, task_id)):
                    self._disk.remove(path)
