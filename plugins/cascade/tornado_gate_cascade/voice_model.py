"""Combine three models into one voice model: transcribed audio goes to a chat model, whose text is spoken by sentence.

::

    audio -> transcription -> chat ──text──────────────────────────> caller
                                └─ sentence 1 -> speech ─audio─┐
                                └─ sentence 2 -> speech ─audio─┴───> caller, in order

The speech model starts the first sentence while the chat model still writes the second.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

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
from tornado_gate_openai.voice import (
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

MAX_WAITING_PIECES: Final = 256
"""Limit of queued chat pieces that are not sent yet; then the chat stream pauses (back-pressure)."""
LONG_AUDIO_BYTES: Final = 512 * 1024
"""Longer audio is encoded as base64 in a thread: on the event loop it would take more than 1 ms."""
INAUDIBLE_TEXT: Final = "[The speaker said something that could not be understood.]"
_MARKUP = re.compile(r"[*#`]+")


class CascadeModels(Value, frozen=True, kw_only=True):
    """Names of models of the gateway. `voice` is the speech model's default voice."""

    chat: str
    transcription: str | None = None
    speech: str | None = None
    voice: str = ""


class CascadeVoiceModel:
    """The voice model of one session."""

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
        """Yield the text and the function calls of the chat model."""
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
        """Yield the same with audio. The audio of a sentence follows its last text."""
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
        """Read the chat and start the speech of each complete sentence. Ends with None or FailedStage."""
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
    """Return the part of a caller's audio for the chat model."""
    return Text(text=sound.transcript or INAUDIBLE_TEXT)


class _ChatReader(State):
    """A converter of chat events to pieces. A call becomes a piece when it is complete. Thinking is ignored."""

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
