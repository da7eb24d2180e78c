"""The audio input of a session: it buffers audio, detects turns, turns utterances into items and has them transcribed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, Literal, Protocol

from tornado_gate.errors import GateError, InternalError, RequestError
from tornado_gate_openai.voice import audio, vad
from tornado_gate_openai.voice.answering import Event, EventSink, StopReason
from tornado_gate_openai.voice.buffers import InputBuffer
from tornado_gate_openai.voice.items import AudioPart, Conversation, Item
from tornado_gate_openai.voice.settings import SessionSettings
from tornado_gate_openai.voice.voice_model import Transcript, VoiceModel
from tornado_gate_openai.wire.realtime import make_id, read_audio

SHORTEST_MS: Final = 100
"""The shortest audio that can be committed, in milliseconds; the vendor has the same limit."""
MAX_SILENCE_MS: Final = 30_000
"""Milliseconds of audio without speech that are kept while turns are detected."""
BYTES_PER_TURN: Final = audio.BYTES_PER_SECOND
"""Bytes that are processed before the event loop gets control: 1 ms of work for a second of audio."""
MAX_PARALLEL_TRANSCRIPTIONS: Final = 2
"""Transcriptions of one session that run at the same time; others wait."""

log = logging.getLogger("tornado_gate_openai.voice")


class SessionHost(EventSink, Protocol):
    """The interface of the session that `AudioInput` uses."""

    @property
    def settings(self) -> SessionSettings: ...
    @property
    def conversation(self) -> Conversation: ...

    def start_response(self) -> None:
        """Start a response with the settings of the session. Raises RequestError."""

    async def interrupt(self, why: StopReason) -> None:
        """Stop the response in progress, if there is one."""

    def hold_task(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to a task until it ends; closing the session cancels it."""


class AudioInput:
    """The audio input of one session."""

    def __init__(self, mind: VoiceModel, host: SessionHost, most_bytes: int) -> None:
        self._mind = mind
        self._host = host
        self._buffer = InputBuffer(most_bytes)
        self._detector: vad.SpeechDetector | None = None
        self._frame = bytearray()  # an incomplete frame
        self._utterance: str | None = None  # the id of its future item
        self._told_deaf = False
        self._turns = asyncio.Semaphore(MAX_PARALLEL_TRANSCRIPTIONS)
        self.configure()

    def configure(self) -> None:
        """Apply the current settings of the session."""
        detection = self._host.settings.detection
        if detection is None:
            self._detector = None
        elif self._detector is None or self._detector.settings != detection:
            self._detector = vad.SpeechDetector(detection)
            self._frame.clear()

    # The buffer

    async def append(self, event: Event) -> None:
        """Append the base64 audio of an event. Raises RequestError; then no part of it is kept."""
        if not self._mind.accepts_audio:
            self._report_unsupported_audio_once()
            return
        kind = self._host.settings.input_format
        pcm = await decode_audio(read_audio(event, kind), kind)
        if not self._buffer.has_room(len(pcm)):
            seconds = self._buffer.most_bytes // audio.BYTES_PER_SECOND
            raise RequestError(
                f"The input audio buffer is full (limit: {seconds} seconds). Commit or clear it.",
                param="audio",
                code="input_audio_buffer_full",
            )
        if self._detector is None:
            self._buffer.append(pcm)
        else:
            await self._process_audio(pcm)

    def _report_unsupported_audio_once(self) -> None:
        """Raise the error once until the caller clears the buffer: audio arrives up to fifty times per second."""
        if not self._told_deaf:
            self._told_deaf = True
            raise audio_not_supported_error("audio")

    async def _process_audio(self, pcm: bytes) -> None:
        """Process PCM frame by frame, because a turn may end in the middle."""
        view, start = memoryview(pcm), 0
        pause = BYTES_PER_TURN
        while start < len(view):
            piece = view[start : start + vad.FRAME_BYTES - len(self._frame)]
            start += len(piece)
            self._buffer.append(piece)
            self._frame += piece
            if len(self._frame) == vad.FRAME_BYTES:
                frame = bytes(self._frame)
                self._frame.clear()
                await self._process_frame(frame)
            if start >= pause:
                pause += BYTES_PER_TURN
                await asyncio.sleep(0)

    async def _process_frame(self, frame: bytes) -> None:
        assert self._detector is not None
        match self._detector.process_frame(frame, self._buffer.end_ms):
            case vad.SpeechStarted(ms=ms):
                await self._begin_utterance(ms)
            case vad.SpeechStopped(ms=ms):
                self._end_utterance(ms)
            case None:
                if not self._detector.speaking:
                    self._buffer.keep_last(MAX_SILENCE_MS)

    async def _begin_utterance(self, ms: int) -> None:
        self._buffer.forget_before(ms)
        self._utterance = make_id("item")
        start = max(ms, self._buffer.start_ms)
        self._host.emit(_make_buffer_event("speech_started", audio_start_ms=start, item_id=self._utterance))
        if self._host.settings.interrupt_response:
            await self._host.interrupt("turn_detected")

    def _end_utterance(self, ms: int) -> None:
        self._host.emit(_make_buffer_event("speech_stopped", audio_end_ms=ms, item_id=self._utterance))
        answers = self._host.settings.create_response
        try:
            self._commit(transcribe=answers)
            if answers:
                self._host.start_response()
        except RequestError as error:
            self._host.report(error)

    def commit(self) -> None:
        """Turn the buffered audio into an item. Raises RequestError for less than SHORTEST_MS."""
        if not self._mind.accepts_audio:
            raise audio_not_supported_error("")
        milliseconds = audio.compute_milliseconds(len(self._buffer))
        if milliseconds < SHORTEST_MS:
            raise RequestError(
                f"The input audio buffer has {milliseconds} ms of audio. Append at least {SHORTEST_MS} ms before a commit.",
                code="input_audio_buffer_commit_empty",
            )
        self._commit(transcribe=False)

    def _commit(self, *, transcribe: bool) -> None:
        conversation = self._host.conversation
        conversation.check_room()
        pcm = self._buffer.take_all()
        item = Item(id=self._utterance or make_id("item"), parts=[AudioPart(bytearray(pcm), len(pcm))])
        self._forget_utterance()
        before = conversation.get_last_id()
        conversation.insert(item)
        shown = {"previous_item_id": before, "item": item.render()}
        self._host.emit(
            _make_buffer_event("committed", previous_item_id=before, item_id=item.id),
            {"type": "conversation.item.added", **shown},
            {"type": "conversation.item.done", **shown},
        )
        if transcribe or self._host.settings.transcribes:
            self._start_transcription(item)

    def clear(self) -> None:
        self._buffer.clear()
        self._forget_utterance()
        self._told_deaf = False
        self._host.emit(_make_buffer_event("cleared"))

    def _forget_utterance(self) -> None:
        self._utterance = None
        self._frame.clear()
        if self._detector is not None:
            self._detector.reset()

    # Transcription

    async def wait_for_transcripts(self, items: Iterable[Item]) -> None:
        """Wait until all audio of callers in `items` is transcribed. Raises the error of a transcription, once for each audio."""
        sounds = []
        for item in items:
            self._start_transcription(item)
            sounds += [sound for _, sound in item.iterate_audio_parts() if sound.transcription_task is not None]
        tasks = [sound.transcription_task for sound in sounds if sound.transcription_task is not None]
        if tasks:
            await asyncio.wait(tasks)
        for sound in sounds:
            sound.transcription_task = None
            trouble, sound.transcription_error = sound.transcription_error, None
            if trouble is not None:
                raise trouble

    def _start_transcription(self, item: Item) -> None:
        for index, sound in item.iterate_audio_parts():
            if not sound.done and sound.transcription_task is None and not sound.output:
                sound.transcription_task = asyncio.create_task(self._transcribe(item, index, sound))
                self._host.hold_task(sound.transcription_task)

    async def _transcribe(self, item: Item, index: int, sound: AudioPart) -> None:
        settings = self._host.settings
        transcript: Transcript | None = None
        try:
            async with self._turns:
                if sound.pcm is not None:  # the audio may have been dropped while the transcription waited
                    transcript = await self._mind.transcribe(sound, settings.language, settings.prompt)
        except GateError as error:
            sound.transcription_error = error
        except Exception:
            log.exception("transcription failed")
            sound.transcription_error = InternalError()
        sound.done = True
        if transcript is not None:
            sound.transcript = transcript.text
        if settings.transcribes:
            self._host.emit(_make_transcription_event(item, index, sound, transcript))

    def forget(self, item: Item) -> None:
        """Cancel the transcription of a deleted item."""
        for _, sound in item.iterate_audio_parts():
            if sound.transcription_task is not None:
                sound.transcription_task.cancel()


def audio_not_supported_error(param: str) -> RequestError:
    """Return the error for audio at a model that does not accept audio."""
    message = "This model does not accept audio, because it has no transcription model configured. Send text."
    return RequestError(message, param=param, code="audio_input_not_supported")


async def decode_audio(data: bytes, kind: str) -> bytes:
    """Convert a caller's audio in the format `kind` to PCM; yields to the event loop in between."""
    if kind == audio.PCM:
        return data
    pieces = []
    for start in range(0, len(data), 4_000):  # half a second of a telephone: 1 ms of work
        pieces.append(audio.decode(data[start : start + 4_000], kind))
        await asyncio.sleep(0)
    return b"".join(pieces)


_Verb = Literal["speech_started", "speech_stopped", "committed", "cleared"]


def _make_buffer_event(verb: _Verb, **rest: Any) -> Event:
    return {"type": f"input_audio_buffer.{verb}", **rest}


def _make_transcription_event(item: Item, index: int, sound: AudioPart, transcript: Transcript | None) -> Event:
    position = {"item_id": item.id, "content_index": index}
    kind = "conversation.item.input_audio_transcription"
    if transcript is not None:
        return {
            "type": f"{kind}.completed",
            **position,
            "transcript": transcript.text,
            "usage": _render_usage(sound, transcript),
        }
    error = sound.transcription_error or RequestError(
        "This model accepts audio but does not transcribe it.", code="transcription_not_supported"
    )
    body = error.body()
    shown = {"type": body["type"], "code": body["code"], "message": body["message"], "param": body["param"] or None}
    return {"type": f"{kind}.failed", **position, "error": shown}


def _render_usage(sound: AudioPart, transcript: Transcript) -> Event:
    usage = transcript.usage
    if usage is None or usage.total_tokens is None:
        return {"type": "duration", "seconds": sound.seconds}
    input_tokens, made = usage.input_tokens or 0, usage.output_tokens or 0
    return {"type": "tokens", "input_tokens": input_tokens, "output_tokens": made, "total_tokens": input_tokens + made}
