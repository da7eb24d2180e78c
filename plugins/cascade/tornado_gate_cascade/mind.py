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
    AudioPart,
    CallPiece,
    CutShortPiece,
    Piece,
    SentenceSplitter,
    TextPiece,
    Transcript,
    Turn,
    UsagePiece,
    make_chat_request,
    to_wav,
)
from tornado_gate.streams.events import close, read_single_event
from tornado_gate.types import (
    ChatRequest,
    Data,
    Finish,
    InnerModelCaller,
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
from tornado_gate_cascade.speaking import FailedStage, SentenceSpeech, SpeechQueue

MAX_WAITING_PIECES: Final = 256
"""Pieces that the chat model may be ahead of what is spoken; then it is read no further."""
LONG_AUDIO_BYTES: Final = 512 * 1024
"""Bytes that are not put into base64 on the event loop: more than 1 ms."""
INAUDIBLE_TEXT: Final = "[The speaker said something that could not be understood.]"
_MARKUP = re.compile(r"[*#`]+")


class CascadeModels(Value, frozen=True, kw_only=True):
    """Names of the gateway's own models. `voice` is the speech model's, where the caller names none."""

    chat: str
    transcription: str | None = None
    speech: str | None = None
    voice: str = ""


class CascadeVoiceModel:
    """One for each session."""

    def __init__(self, inner: InnerModelCaller, models: CascadeModels) -> None:
        self._inner = inner
        self._models = models

    @property
    def accepts_audio(self) -> bool:
        return self._models.transcription is not None

    @property
    def produces_audio(self) -> bool:
        return self._models.speech is not None

    async def transcribe(self, sound: AudioPart, language: str | None, prompt: str | None) -> Transcript | None:
        if self._models.transcription is None or sound.pcm is None:
            return None
        pcm = bytes(sound.pcm)
        wav = await asyncio.to_thread(_encode_wav, pcm) if len(pcm) > LONG_AUDIO_BYTES else _encode_wav(pcm)
        request = TranscriptionRequest(
            model=self._models.transcription,
            audio=Data(media_type="audio/wav", base64=wav),
            language=language or None,
            prompt=prompt or None,
        )
        events = self._inner.ask(self._models.transcription, "transcription", request)
        try:
            result = await read_single_event(events, TranscriptionResult)
        finally:
            await close(events)
        return Transcript(text=result.text, usage=result.usage)

    def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        if turn.spoken and self._models.speech is not None:
            return self._stream_speech(turn, SpeechQueue(self._inner, self._models.speech, turn))
        return self._stream_text(turn)

    async def _stream_text(self, turn: Turn) -> AsyncGenerator[Piece, None]:
        """What the chat model writes and calls."""
        request = make_chat_request(turn, self._models.chat, _render_audio_part)
        events = self._inner.ask(self._models.chat, "chat", request)
        reader = _ChatReader(request)
        try:
            async for event in events:
                piece = reader.read(event)
                if piece is not None:
                    yield piece
        finally:
            await close(events)

    async def _stream_speech(self, turn: Turn, speaker: SpeechQueue) -> AsyncIterator[Piece]:
        """The same with its sound: that of a sentence comes behind its last word."""
        pieces: asyncio.Queue[Piece | SentenceSpeech | FailedStage | None] = asyncio.Queue(MAX_WAITING_PIECES)
        writer = asyncio.create_task(self._queue_pieces(turn, speaker, pieces))
        try:
            while (piece := await pieces.get()) is not None:
                match piece:
                    case FailedStage(error=error):
                        raise error
                    case SentenceSpeech():
                        async with aclosing(piece.iterate_audio()) as sound:
                            async for spoke in sound:
                                yield spoke
                    case _:
                        yield piece
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await speaker.close()

    async def _queue_pieces(
        self, turn: Turn, speaker: SpeechQueue, pieces: asyncio.Queue[Piece | SentenceSpeech | FailedStage | None]
    ) -> None:
        """Read the chat and begin to speak each sentence as soon as it is whole. Ends with None or a failure."""
        sentences = SentenceSplitter()
        last: FailedStage | None = None
        try:
            async with aclosing(self._stream_text(turn)) as written:
                async for piece in written:
                    if isinstance(piece, CallPiece):
                        await _queue_sentences(sentences.flush(), speaker, pieces)
                    await pieces.put(piece)
                    if isinstance(piece, TextPiece):
                        await _queue_sentences(sentences.feed(piece.text), speaker, pieces)
            await _queue_sentences(sentences.flush(), speaker, pieces)
        except Exception as error:
            last = FailedStage(error)
        await pieces.put(last)


async def _queue_sentences(
    sentences: list[str], speaker: SpeechQueue, pieces: asyncio.Queue[Piece | SentenceSpeech | FailedStage | None]
) -> None:
    for sentence in sentences:
        words = _MARKUP.sub("", sentence).strip()
        if words:
            await pieces.put(await speaker.start_sentence(words))


def _encode_wav(pcm: bytes) -> str:
    return base64.b64encode(to_wav(pcm)).decode()


def _render_audio_part(sound: AudioPart) -> Part:
    """What the chat model is to see of a caller's sound."""
    return Text(text=sound.transcript or INAUDIBLE_TEXT)


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
                    return TextPiece(text)
                if index in self._calls:
                    self._calls[index][1].append(text)
            case PartEnd(index=index) if index in self._calls:
                start, arguments = self._calls.pop(index)
                return CallPiece(start.id, start.name, "".join(arguments))
            case UsageReport(usage=usage):
                return UsagePiece(usage=usage)
            case Finish(reason="length"):
                return CutShortPiece("max_output_tokens")
            case Finish(reason="content_filter"):
                return CutShortPiece("content_filter")
            case StreamError(error=error):
                raise error
        return None
