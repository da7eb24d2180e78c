"""An image that is kept with its task, as the `Upload` that providers know."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from tornado_gate.tasks.filedisk import Disk
from tornado_gate.types.value import Value

READ_BYTES = 256 * 1024


class KeptImage(Value, frozen=True):
    """`size` bytes at `path`. Reads raise MediaUnavailable when it is gone, as when its task was deleted meanwhile."""

    disk: Disk
    path: Path
    media_type: str
    filename: str
    size: int
    field: str = "image"

    unshown = frozenset({"disk"})

    async def read(self, size: int = -1) -> bytes:
        """The first `size` bytes, or all."""
        return await asyncio.to_thread(self._read, 0, self.size if size < 0 else min(size, self.size))

    async def chunks(self) -> AsyncIterator[bytes]:
        """The whole file, in pieces; may be called again."""
        for position in range(0, self.size, READ_BYTES):
            yield await asyncio.to_thread(self._read, position, min(READ_BYTES, self.size - position))

    def _read(self, position: int, size: int) -> bytes:
        with self.disk.explained():
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = os.pread(descriptor, size, position)
            finally:
                os.close(descriptor)
            if len(data) != size:
                raise OSError(f"{self.path} is shorter than it was")
            return data
