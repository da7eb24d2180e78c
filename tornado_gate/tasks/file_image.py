"""The stored image of a task, as the `Upload` that providers read."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiofiles

from tornado_gate.tasks.file_disk import Disk
from tornado_gate.types.value import Value

READ_BYTES = 256 * 1024


class StoredImage(Value, frozen=True):
    """`size` bytes at `path`. Reads raise MediaUnavailable when the file is gone, such as after its task was deleted."""

    disk: Disk
    path: Path
    media_type: str
    filename: str
    size: int
    field: str = "image"

    hidden_fields = frozenset({"disk"})

    async def read(self, size: int = -1) -> bytes:
        """Return the first `size` bytes, or all."""
        count = self.size if size < 0 else min(size, self.size)
        return b"".join([chunk async for chunk in self._read(count, count)])

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the whole file, in chunks; may be called again."""
        return self._read(self.size, READ_BYTES)

    async def _read(self, size: int, chunk_bytes: int) -> AsyncIterator[bytes]:
        if not size:
            return
        with self.disk.map_errors():
            file = await aiofiles.open(self.path, "rb", opener=_open)
        try:
            while size:
                with self.disk.map_errors():
                    chunk = await file.read(min(chunk_bytes, size))
                    if not chunk:
                        raise OSError(f"{self.path} is shorter than it was")
                size -= len(chunk)
                yield chunk
        finally:
            file.raw.close()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
