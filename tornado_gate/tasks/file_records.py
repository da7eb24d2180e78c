"""The records in the folder of a `FileTaskStore`: read, replaced, deleted, and set aside when they are damaged.

`read` is for the event loop; everything else blocks on the disk and belongs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tornado_gate.errors import NotFound
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks.file_disk import Disk, Held
from tornado_gate.tasks.file_index import record_path
from tornado_gate.tasks.file_sweep import list_markers, marker_name
from tornado_gate.tasks.record import ID, RecordDamaged, RecordNewer, TaskRecord, decode_record
from tornado_gate.tasks.store import newer_record_error, task_not_found_error

log = logging.getLogger(__name__)

SMALL_BYTES = 64 * 1024
"""Records up to this size, which nearly all are, are parsed in the event loop: that takes less than a millisecond."""

_SHARD = re.compile(r"[0-9a-f]{2}", re.ASCII)


def lock_path(disk: Disk, kind: str, digest: str) -> Path:
    """Return the lock file for `digest`, which shares it with others. It is held for a few writes."""
    return disk.root / "locks" / f"{kind}-{digest[:2]}"


class Records:
    """The records of all tasks in `disk`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def read(self, task_id: str) -> TaskRecord:
        """Return a record. Raises NotFound for a missing or damaged one, MediaUnavailable for one of a newer gateway."""
        try:
            with self._handle_newer(task_id):
                data = await self._disk.read(self._find_path(task_id))
                is_small = len(data) <= SMALL_BYTES
                return _parse(task_id, data) if is_small else await asyncio.to_thread(_parse, task_id, data)
        except FileNotFoundError:
            raise task_not_found_error() from None
        except RecordDamaged as error:
            await asyncio.to_thread(self._set_aside, task_id, error)
            raise task_not_found_error() from None

    def read_blocking(self, task_id: str) -> TaskRecord:
        """Return a record like `read`, for threads."""
        try:
            with self._handle_newer(task_id):
                return _parse(task_id, self._disk.read_blocking(self._find_path(task_id)))
        except FileNotFoundError:
            raise task_not_found_error() from None
        except RecordDamaged as error:
            self._set_aside(task_id, error)
            raise task_not_found_error() from None

    async def scan(self) -> AsyncIterator[TaskRecord]:
        """Yield every readable record, in no order."""
        for shard in filter(_SHARD.fullmatch, await asyncio.to_thread(self._list_names, "records")):
            for name in await asyncio.to_thread(self._list_names, f"records/{shard}"):
                record = await self._read_unless_newer(name.removesuffix(".json"))
                if record is not None:
                    yield record

    def _list_names(self, folder: str) -> list[str]:
        with self._disk.map_errors():
            try:
                return self._disk.names(folder)
            except NotADirectoryError:
                return []

    async def _read_unless_newer(self, task_id: str) -> TaskRecord | None:
        """Return a record; None if it was just deleted, is damaged (which is logged), or is of a newer gateway."""
        try:
            with self._disk.map_errors():
                return await self.read(task_id)
        except NotFound:
            return None
        except MediaUnavailable as error:
            if isinstance(error.__cause__, RecordNewer):
                return None
            raise

    def _find_path(self, task_id: str) -> Path:
        if not ID.fullmatch(task_id):
            raise task_not_found_error()
        return record_path(self._disk, task_id)

    @contextmanager
    def _handle_newer(self, task_id: str) -> Iterator[None]:
        try:
            yield
        except RecordNewer as error:
            log.error("%s cannot be used: %s. Upgrade this gateway.", record_path(self._disk, task_id), error)
            raise newer_record_error() from error

    def _set_aside(self, task_id: str, fault: RecordDamaged) -> None:
        """Move a damaged record to damaged/, where an operator can inspect it, and remove its marker: the task is not run."""
        path = record_path(self._disk, task_id)
        aside = self._disk.root / "damaged" / path.name
        with self._disk.hold_lock(self._lock(task_id)):
            try:
                _parse(task_id, self._disk.read_blocking(path))
                return  # an intact record has replaced it since
            except FileNotFoundError:
                return
            except RecordDamaged:
                self._disk.make("damaged")
                os.rename(path, aside)
        log.error("%s was damaged, %s; it is now %s. Its task is lost.", path, fault, aside)
        for marker in list_markers(self._disk):
            if marker.id == task_id:
                self._disk.remove(self._disk.root / "active" / marker_name(marker))

    def replace(self, record: TaskRecord, part: Held) -> None:
        """Replace a record by `part`, which holds its encoding; durable. Raises NotFound when the record does not exist."""
        path = record_path(self._disk, record.id)
        part.sync()
        with self._disk.hold_lock(self._lock(record.id)):
            if not os.path.lexists(path):
                raise task_not_found_error()
            self._disk.place(part, path)
        self._disk.sync(path.parent)

    def remove(self, task_id: str) -> bool:
        """Delete a record. Return whether it existed. A later `replace` does not create it again."""
        with self._disk.hold_lock(self._lock(task_id)):
            return self._disk.remove(record_path(self._disk, task_id))

    def _lock(self, task_id: str) -> Path:
        return lock_path(self._disk, "record", task_id[6:])


def _parse(task_id: str, data: bytes) -> TaskRecord:
    record = decode_record(data)
    if record.id != task_id:
        raise RecordDamaged(f"it is the record of {record.id[:50]}")
    return record
