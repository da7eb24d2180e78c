"""The image of a task in the rows of a `DatabaseTaskStore`, in chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tornado_gate.database.calls import DatabaseCalls
from tornado_gate.storage.files import MediaUnavailable
from tornado_gate.tasks import database_rows as rows
from tornado_gate.types.value import Value

CHUNK_BYTES = 256 * 1024


class DatabaseImage(Value, frozen=True):
    """`size` bytes of the image of a task. Reads raise MediaUnavailable when it is gone, such as after its task was deleted."""

    calls: DatabaseCalls
    task_id: str
    media_type: str
    filename: str
    size: int
    field: str = "image"

    hidden_fields = frozenset({"calls"})

    async def read(self, size: int = -1) -> bytes:
        """Return the first `size` bytes, or all."""
        count = self.size if size < 0 else min(size, self.size)
        chunks: list[bytes] = []
        async for chunk in self._read(count):
            chunks.append(chunk)
        return b"".join(chunks)[:count]

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the whole image, in chunks; may be called again."""
        return self._read(self.size)

    async def _read(self, size: int) -> AsyncIterator[bytes]:
        """Yield chunks until they have `size` bytes."""
        number = 0
        while size > 0:
            chunk = await self.calls.read(rows.read_image_chunk, self.task_id, number)
            if not chunk:
                raise MediaUnavailable("The image of this task is no longer in the database.")
            size, number = size - len(chunk), number + 1
            yield chunk


async def store_image(calls: DatabaseCalls, task_id: str, image: AsyncIterator[bytes]) -> int:
    """Store an image in chunks, each in a transaction. Return its size."""
    size, number, waiting = 0, 0, bytearray()
    async for piece in image:
        waiting += piece
        while len(waiting) >= CHUNK_BYTES:
            await calls.write(rows.insert_image_chunk, task_id, number, bytes(waiting[:CHUNK_BYTES]))
            del waiting[:CHUNK_BYTES]
            size, number = size + CHUNK_BYTES, number + 1
    if waiting:
        await calls.write(rows.insert_image_chunk, task_id, number, bytes(waiting))
    return size + len(waiting)
