"""Three models as one mind: the words of what was said go to a chat model, and what it writes is spoken sentence by sentence.

::

    sound -> transcription -> chat ──text──────────────────────────> caller
                                └─ sentence 1 -> speech ─sound─┐
                                └─ sentence 2 -> speech ─sound─┴───> caller, in order

The first sentence is spoken while the chat model still writes the second.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from tornado_gate.realtime.voice import (
    Called,
    CutShort,
    Piece,
    Said,
    Sentences,
    Sound,
    Spent,
    Transcript,
    Turn,
    chat_request,
    to_wav,
)
from tornado_gate.streams.events import close, single
from tornado_gate.types import (
    ChatRequest,
    Data,
    Finish,
    Inner,
    Part,
    PartDelta,
    PartEnd,
    PartStart,
    StreamError,
    StreamEvent,
    Text,
    TranscriptionRequest,
    TranscriptionResult,
    UsageReport,
)
from tornado_gate.types.value import State, Value, field
from tornado_gate_cascade.speaking import Failed, Speaker, Speaking

MOST_WAITING: Final = 256
"""Pieces that the chat model may be ahead of what is spoken; then it is read no further."""
LONG_SOUND: Final = 512 * 1024
"""Bytes that are not put into base64 on the event loop: more than 1 ms."""
INAUDIBLE: Final = "[The speaker said something that could not be understood.]"
_MARKUP = re.compile(r"[*#`]+")


class Models(Value, frozen=True, kw_only=True):
    """Names of the gateway's own models. `voice` is the speech model's, where the caller names none."""

    chat: str
    transcription: str | None = None
    speech: str | None = None
    voice: str = ""


class CascadeMind:
    """One for each session."""

    def __init__(self, inner: Inner, models: Models) -> None:
        self._inner = inner
        self._models = models

    @property
    def hears(self) -> bool:
        return self._models.transcription is not None

    @property
    def speaks(self) -> bool:
        return self._models.speech is not None

    async def transcribe(self, sound: Sound, language: str | None, prompt: str | None) -> Transcript | None:
        if self._models.transcription is None or sound.pcm is None:
            return None
        pcm = bytes(sound.pcm)
        wav = await asyncio.to_thread(_encoded, pcm) if len(pcm) > LONG_SOUND else _encoded(pcm)
        request = TranscriptionRequest(
            model=self._models.transcription,
            audio=Data(media_type="audio/wav", base64=wav),
            language=language or None,
            prompt=prompt or None,
        )
        events = self._inner.ask(self._models.transcription, "transcription", request)
        try:
            result = await single(events, TranscriptionResult)
        finally:
            await close(events)
        return Transcript(text=result.text, usage=result.usage)

    def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        if turn.spoken and self._models.speech is not None:
            return self._spoken(turn, Speaker(self._inner, self._models.speech, turn))
        return self._written(turn)

    async def _written(self, turn: Turn) -> AsyncGenerator[Piece, None]:
        """What the chat model writes and calls."""
        request = chat_request(turn, self._models.chat, _words)
        events = self._inner.ask(self._models.chat, "chat", request)
        reader = _ChatReader(request)
        try:
            async for event in events:
                piece = reader.read(event)
                if piece is not None:
                    yield piece
        finally:
            await close(events)

    async def _spoken(self, turn: Turn, speaker: Speaker) -> AsyncIterator[Piece]:
        """The same with its sound: that of a sentence comes behind its last word."""
        pieces: asyncio.Queue[Piece | Speaking | Failed | None] = asyncio.Queue(MOST_WAITING)
        writer = asyncio.create_task(self._write(turn, speaker, pieces))
        try:
            while (piece := await pieces.get()) is not None:
                match piece:
                    case Failed(error=error):
                        raise error
                    case Speaking():
                        async with aclosing(piece.sound()) as sound:
                            async for spoke in sound:
                                yield spoke
                    case _:
                        yield piece
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await speaker.close()

    async def _write(
        self, turn: Turn, speaker: Speaker, pieces: asyncio.Queue[Piece | Speaking | Failed | None]
    ) -> None:
        """Read the chat and begin to speak each sentence as soon as it is whole. Ends with None or a failure."""
        sentences = Sentences()
        last: Failed | None = None
        try:
            async with aclosing(self._written(turn)) as written:
                async for piece in written:
                    if isinstance(piece, Called):
                        await _speak(sentences.rest(), speaker, pieces)
                    await pieces.put(piece)
                    if isinstance(piece, Said):
                        await _speak(sentences.feed(piece.text), speaker, pieces)
            await _speak(sentences.rest(), speaker, pieces)
        except Exception as error:
            last = Failed(error)
        await pieces.put(last)


async def _speak(
    sentences: list[str], speaker: Speaker, pieces: asyncio.Queue[Piece | Speaking | Failed | None]
) -> None:
    for sentence in sentences:
        words = _MARKUP.sub("", sentence).strip()
        if words:
            await pieces.put(await speaker.begin(words))


def _encoded(pcm: bytes) -> str:
    return base64.b64encode(to_wav(pcm)).decode()


def _words(sound: Sound) -> Part:
    """What the chat model is to see of a caller's sound."""
    return Text(text=sound.transcript or INAUDIBLE)


class _ChatReader(State):
    """Events of a chat to pieces of an answer; a call is one when it is whole. Thinking is not said."""

    request: ChatRequest
    _texts: set[int] = field(default_factory=set)
    _calls: dict[int, tuple[PartStart, list[str]]] = field(default_factory=dict)

    def read(self, event: StreamEvent) -> Piece | None:
        match event:
            case PartStart(kind="text" | "refusal", index=index):
                self._texts.add(index)
            case PartStart(kind="tool_call", index=index):
                self._calls[index] = (event, [])
            case PartDelta(index=index, data=str(text)):
                if index in self._texts:
                    return Said(text)
                if index in self._calls:
                    self._calls[index][1].append(text)
            case PartEnd(index=index) if index in self._calls:
                start, arguments = self._calls.pop(index)
                return Called(start.id, start.name, "".join(arguments))
            case UsageReport(usage=usage):
                return Spent(usage=usage)
            case Finish(reason="length"):
                return CutShort("max_output_tokens")
            case Finish(reason="content_filter"):
                return CutShort("content_filter")
            case StreamError(error=error):
                raise error
        return None
