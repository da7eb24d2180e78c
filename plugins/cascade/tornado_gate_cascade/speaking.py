"""Converts sentences to audio, a few concurrently, and plays them in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.streams.events import close as close_events
from tornado_gate.types import InnerModelCaller, SpeechChunk, SpeechRequest, SpeechStart, StreamError
from tornado_gate.types.value import Value
from tornado_gate_openai.voice import AudioPiece, Turn

MAX_CONCURRENT: Final = 2
"""Sentences generated at a time: the one that is playing, and the next."""
MAX_QUEUED_CHUNKS: Final = 64
"""Limit of queued chunks of one sentence; then its speech stream pauses (back-pressure)."""
DEFAULT_SPEED: Final = 1.0
_PCM_TYPES: Final = ("audio/pcm", "audio/l16")


class FailedStage(Value, frozen=True):
    """The error that ended a stage."""

    error: Exception


class SentenceSpeech:
    """Generates the audio of one sentence. `iterate_audio` may be called once."""

    def __init__(self, speaker: SpeechQueue, request: SpeechRequest) -> None:
        self._speaker = speaker
        self._request = request
        self._chunks: asyncio.Queue[AudioPiece | FailedStage | None] = asyncio.Queue(MAX_QUEUED_CHUNKS)
        self.task = asyncio.create_task(self._produce())

    async def _produce(self) -> None:
        last: FailedStage | None = None
        try:
            await self._queue_samples()
        except Exception as error:
            last = FailedStage(error)
        await self._chunks.put(last)

    async def _queue_samples(self) -> None:
        """Queue the audio in whole samples, whatever the chunk sizes."""
        odd = b""
        events = self._speaker.inner.ask(self._speaker.model, "speech", self._request)
        try:
            async for event in events:
                match event:
                    case SpeechStart(media_type=media_type):
                        self._check_media_type(media_type)
                    case SpeechChunk(data=data):
                        data = odd + data
                        whole = len(data) - len(data) % 2
                        odd = data[whole:]
                        if whole:
                            await self._chunks.put(AudioPiece(data[:whole]))
                    case StreamError(error=error):
                        raise error
        finally:
            await close_events(events)

    def _check_media_type(self, media_type: str) -> None:
        if not media_type.lower().startswith(_PCM_TYPES):
            raise UpstreamError(
                f"The speech model '{self._speaker.model}' returned {media_type[:60]} instead of PCM. Set one with PCM output."
            )

    async def iterate_audio(self) -> AsyncGenerator[AudioPiece, None]:
        """The audio of the sentence. Raises the error of the speech model."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, FailedStage):
                raise chunk.error
            yield chunk
        self._speaker.on_sentence_end(self)


class SpeechQueue:
    """Speech of one response."""

    def __init__(self, inner: InnerModelCaller, model: str, turn: Turn) -> None:
        self.inner = inner
        self.model = model
        self._turn = turn
        self._free = asyncio.Semaphore(MAX_CONCURRENT)
        self._speaking: set[SentenceSpeech] = set()

    async def start_sentence(self, words: str) -> SentenceSpeech:
        """Start a sentence. Waits while MAX_CONCURRENT sentences are active (back-pressure for the chat model)."""
        await self._free.acquire()
        request = SpeechRequest(
            model=self.model,
            text=words,
            voice=self._turn.voice or None,
            speed=None if self._turn.speed == DEFAULT_SPEED else self._turn.speed,
            format="pcm",
            stream=True,
        )
        speaking = SentenceSpeech(self, request)
        self._speaking.add(speaking)
        return speaking

    def on_sentence_end(self, speaking: SentenceSpeech) -> None:
        self._speaking.discard(speaking)
        self._free.release()

    async def close(self) -> None:
        """Cancel all sentences and discard their audio."""
        tasks = [speaking.task for speaking in self._speaking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
