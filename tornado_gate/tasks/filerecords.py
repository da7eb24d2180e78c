"""The records in the folder of a `FileTaskStore`: read, put in each other's place, set aside when nobody can read them.

Waits for the disk: call it in threads.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.filedisk import Disk
from tornado_gate.tasks.fileindex import ID, record_path
from tornado_gate.tasks.filesweep import marker_name, markers
from tornado_gate.tasks.record import RecordDamaged, RecordNewer, TaskRecord, as_bytes, from_bytes
from tornado_gate.tasks.store import no_such_task

log = logging.getLogger(__name__)


def lock_path(disk: Disk, kind: str, digest: str) -> Path:
    """The lock that is held for a few writes to what `digest` names, and to some others."""
    return disk.root / "locks" / f"{kind}-{digest[:2]}"


class Records:
    """The records of all tasks in `disk`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def read(self, task_id: str) -> TaskRecord:
        """Raises NotFound for a task that is not there or was damaged, MediaUnavailable for one of a newer gateway."""
        if not ID.fullmatch(task_id):
            raise no_such_task()
        try:
            return self._parsed(task_id)
        except FileNotFoundError:
            raise no_such_task() from None
        except RecordNewer as error:
            log.error("%s cannot be used: %s. Upgrade this gateway.", record_path(self._disk, task_id), error)
            message = "This task was taken by a newer version of the gateway. Try again later."
            raise MediaUnavailable(message) from error
        except RecordDamaged as error:
            self._set_aside(task_id, error)
            raise no_such_task() from None

    def _parsed(self, task_id: str) -> TaskRecord:
        record = from_bytes(self._disk.read(record_path(self._disk, task_id)))
        if record.id != task_id:
            raise RecordDamaged(f"it is the record of {record.id[:50]}")
        return record

    def _set_aside(self, task_id: str, fault: RecordDamaged) -> None:
        """Move a record that cannot be read to where an operator can look at it; nobody tries to run its task."""
        path = record_path(self._disk, task_id)
        aside = self._disk.root / "damaged" / path.name
        with self._disk.locked(self._lock(task_id)):
            try:
                self._parsed(task_id)
                return  # somebody has put a whole one in its place
            except FileNotFoundError:
                return
            except RecordDamaged:
                self._disk.make("damaged")
                os.rename(path, aside)
        log.error("%s was damaged, %s; it is now %s. Its task is lost.", path, fault, aside)
        for marker in markers(self._disk):
            if marker.id == task_id:
                self._disk.remove(self._disk.root / "active" / marker_name(marker))

    def replace(self, record: TaskRecord) -> None:
        """Put a record in the place of the one before; durable. Raises NotFound where there is none (any more)."""
        path = record_path(self._disk, record.id)
        part = self._disk.whole(as_bytes(record))
        try:
            with self._disk.locked(self._lock(record.id)):
                if not os.path.lexists(path):
                    raise no_such_task()
                self._disk.place(part, path)
        finally:
            part.discard()
        self._disk.sync(path.parent)

    def remove(self, task_id: str) -> bool:
        """Whether it was there. A `replace` that comes later does not bring it back."""
        with self._disk.locked(self._lock(task_id)):
            return self._disk.remove(record_path(self._disk, task_id))

    def _lock(self, task_id: str) -> Path:
        return lock_path(self._disk, "record", task_id[6:])
