"""Sentences to sound, a few at a time, each heard in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.realtime.voice import Spoke, Turn
from tornado_gate.streams.events import close as close_events
from tornado_gate.types import Inner, SpeechChunk, SpeechRequest, SpeechStart, StreamError
from tornado_gate.types.value import Value

AT_ONCE: Final = 2
"""Sentences that are spoken at a time: the one that is heard, and the next."""
MOST_CHUNKS: Final = 64
"""Of one sentence that wait to be heard; then its model is read no further."""
SPEED: Final = 1.0
_PCM: Final = ("audio/pcm", "audio/l16")


class Failed(Value, frozen=True):
    """What stopped one of the stages."""

    error: Exception


class Speaking:
    """One sentence on its way to sound. `sound` is read once."""

    def __init__(self, speaker: Speaker, request: SpeechRequest) -> None:
        self._speaker = speaker
        self._request = request
        self._chunks: asyncio.Queue[Spoke | Failed | None] = asyncio.Queue(MOST_CHUNKS)
        self.task = asyncio.create_task(self._make())

    async def _make(self) -> None:
        last: Failed | None = None
        try:
            await self._fill()
        except Exception as error:
            last = Failed(error)
        await self._chunks.put(last)

    async def _fill(self) -> None:
        """Whole samples, however the model cuts them."""
        odd = b""
        events = self._speaker.inner.ask(self._speaker.model, "speech", self._request)
        try:
            async for event in events:
                match event:
                    case SpeechStart(media_type=media_type):
                        self._check(media_type)
                    case SpeechChunk(data=data):
                        data = odd + data
                        whole = len(data) - len(data) % 2
                        odd = data[whole:]
                        if whole:
                            await self._chunks.put(Spoke(data[:whole]))
                    case StreamError(error=error):
                        raise error
        finally:
            await close_events(events)

    def _check(self, media_type: str) -> None:
        if not media_type.lower().startswith(_PCM):
            raise UpstreamError(
                f"The model '{self._speaker.model}' was asked for PCM and gave {media_type[:60]}, which this voice cannot use."
            )

    async def sound(self) -> AsyncGenerator[Spoke, None]:
        """Raises what the speech model raised."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Failed):
                raise chunk.error
            yield chunk
        self._speaker.ended(self)


class Speaker:
    """The voice of one answer."""

    def __init__(self, inner: Inner, model: str, turn: Turn) -> None:
        self.inner = inner
        self.model = model
        self._turn = turn
        self._free = asyncio.Semaphore(AT_ONCE)
        self._speaking: set[Speaking] = set()

    async def begin(self, words: str) -> Speaking:
        """Speak, when there is a voice free: so a chat model is no more than a few sentences ahead."""
        await self._free.acquire()
        request = SpeechRequest(
            model=self.model,
            text=words,
            voice=self._turn.voice or None,
            speed=None if self._turn.speed == SPEED else self._turn.speed,
            format="pcm",
            stream=True,
        )
        speaking = Speaking(self, request)
        self._speaking.add(speaking)
        return speaking

    def ended(self, speaking: Speaking) -> None:
        self._speaking.discard(speaking)
        self._free.release()

    async def close(self) -> None:
        """Stop speaking: what is not heard yet never will be."""
        tasks = [speaking.task for speaking in self._speaking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
