"""What has not been taken yet, either way, and never more than a bound: sound that came in, messages that go out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from tornado_gate.realtime.voice.audio import compute_bytes, compute_milliseconds


class InputBuffer:
    """Sound that a caller has sent and that is no item yet. Times count from the beginning of all sound of the session."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._sound = bytearray()
        self._gone = 0  # bytes that came before what is here

    def __len__(self) -> int:
        return len(self._sound)

    @property
    def end_ms(self) -> int:
        """How much sound came in all."""
        return compute_milliseconds(self._gone + len(self._sound))

    @property
    def start_ms(self) -> int:
        """When the sound that is here begins."""
        return compute_milliseconds(self._gone)

    def has_room(self, size: int) -> bool:
        return len(self._sound) + size <= self.most_bytes

    def append(self, pcm: bytes | memoryview) -> None:
        self._sound += pcm

    def take_all(self) -> bytes:
        """All that is here, which is then no longer."""
        taken = bytes(self._sound)
        self.clear()
        return taken

    def clear(self) -> None:
        self._gone += len(self._sound)
        self._sound.clear()

    def forget_before(self, ms: int) -> None:
        """Drop what came before a time."""
        size = min(len(self._sound), max(0, compute_bytes(ms) - self._gone))
        del self._sound[:size]
        self._gone += size

    def keep_last(self, ms: int) -> None:
        """Drop all but the last `ms` milliseconds."""
        self.forget_before(self.end_ms - ms)


class Outbox:
    """Messages on their way to the caller: `room` waits while `most_bytes` or more are there."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def wait_for_room(self) -> None:
        """Wait until there is room for more; gives way to others in any case."""
        await asyncio.sleep(0)
        while not self._room.is_set():
            await self._room.wait()

    def add(self, messages: Iterable[str]) -> None:
        """All of them one after another, room or not; `room` is what bounds them. Dropped once the box is closed."""
        if self._closed:
            return
        for message in messages:
            self._waiting.append(message)
            self._bytes += len(message)
        self._update_room()

    async def get(self) -> str | None:
        """The next message; None when the box is closed and empty."""
        while not self._waiting:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        message = self._waiting.popleft()
        self._bytes -= len(message)
        self._update_room()
        return message

    def close(self, *, drop: bool) -> None:
        """Nothing comes any more; `drop` also forgets what is here."""
        self._closed = True
        if drop:
            self._waiting.clear()
            self._bytes = 0
        self._update_room()

    def _update_room(self) -> None:
        if self._closed or self._bytes < self._most_bytes:
            self._room.set()
        else:
            self._room.clear()
        self._changed.set()
