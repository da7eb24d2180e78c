"""Bounded buffers of a session: input audio that is not committed yet, and messages that are not sent yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from tornado_gate_openai.voice.audio import compute_bytes, compute_milliseconds


class InputBuffer:
    """A caller's audio that is not an item yet, as PCM. Times are milliseconds from the first audio of the session."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._sound = bytearray()
        self._gone = 0  # bytes removed before the buffered ones

    def __len__(self) -> int:
        return len(self._sound)

    @property
    def end_ms(self) -> int:
        """Return the time at which the buffered audio ends."""
        return compute_milliseconds(self._gone + len(self._sound))

    @property
    def start_ms(self) -> int:
        """Return the time at which the buffered audio begins."""
        return compute_milliseconds(self._gone)

    def has_room(self, size: int) -> bool:
        return len(self._sound) + size <= self.most_bytes

    def append(self, pcm: bytes | memoryview) -> None:
        self._sound += pcm

    def take_all(self) -> bytes:
        """Remove and return all buffered audio."""
        sound = bytes(self._sound)
        self.clear()
        return sound

    def clear(self) -> None:
        self._gone += len(self._sound)
        self._sound.clear()

    def forget_before(self, ms: int) -> None:
        """Drop the audio before the time `ms`."""
        size = min(len(self._sound), max(0, compute_bytes(ms) - self._gone))
        del self._sound[:size]
        self._gone += size

    def keep_last(self, ms: int) -> None:
        """Drop all audio except the last `ms` milliseconds."""
        self.forget_before(self.end_ms - ms)


class Outbox:
    """A queue of messages to the caller. `wait_for_room` waits while it has `most_bytes` or more."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def wait_for_room(self) -> None:
        """Wait until there is room for more. Always yields to the event loop once."""
        await asyncio.sleep(0)
        while not self._room.is_set():
            await self._room.wait()

    def add(self, messages: Iterable[str]) -> None:
        """Append messages, even beyond `most_bytes`: senders call `wait_for_room` first. A closed outbox drops them."""
        if self._closed:
            return
        for message in messages:
            self._waiting.append(message)
            self._bytes += len(message)
        self._update_room()

    async def get(self) -> str | None:
        """Return the next message; None when the outbox is closed and empty."""
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
        """Accept no more messages; `drop` also discards the messages in the queue."""
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
