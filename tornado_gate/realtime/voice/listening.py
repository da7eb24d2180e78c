"""What a caller says: sound is gathered, turns are detected, utterances become items and are transcribed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, Literal, Protocol

from tornado_gate.errors import GateError, InternalError, RequestError
from tornado_gate.realtime.voice import audio, vad
from tornado_gate.realtime.voice.answering import Caller, Event, Stopped
from tornado_gate.realtime.voice.buffers import InputBuffer
from tornado_gate.realtime.voice.items import Conversation, Item, Sound
from tornado_gate.realtime.voice.mind import Mind, Transcript
from tornado_gate.realtime.voice.settings import Settings
from tornado_gate.wire.openai_realtime import audio_of, new_id

SHORTEST_MS: Final = 100
"""Of what can be committed, as at the vendor."""
MOST_SILENCE_MS: Final = 30_000
"""Kept of sound in which nobody speaks, while turns are detected."""
AT_A_STRETCH: Final = audio.BYTES_PER_SECOND
"""Bytes that are looked at before others get their turn: 1 ms of work for a second of sound."""
AT_ONCE: Final = 2
"""Transcriptions that one session has running; the others wait."""

log = logging.getLogger("tornado_gate.realtime.voice")


class Host(Caller, Protocol):
    """The session, as its ears see it."""

    @property
    def settings(self) -> Settings: ...
    @property
    def conversation(self) -> Conversation: ...

    def answer_now(self) -> None:
        """Begin a response as the settings say. Raises RequestError."""

    async def interrupt(self, why: Stopped) -> None:
        """End the response that is being made, if there is one."""

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task until it has ended or the session is closed."""


class Listening:
    """The ears of one session."""

    def __init__(self, mind: Mind, host: Host, most_bytes: int) -> None:
        self._mind = mind
        self._host = host
        self._buffer = InputBuffer(most_bytes)
        self._detector: vad.Detector | None = None
        self._frame = bytearray()  # of a frame that is not whole yet
        self._utterance: str | None = None  # the id of the item that it will be
        self._told_deaf = False
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.configure()

    def configure(self) -> None:
        """Follow the settings."""
        wanted = self._host.settings.detection
        if wanted is None:
            self._detector = None
        elif self._detector is None or self._detector.settings != wanted:
            self._detector = vad.Detector(wanted)
            self._frame.clear()

    # The buffer

    async def append(self, event: Event) -> None:
        """More sound, in base64. Raises RequestError, and then nothing of it is kept."""
        if not self._mind.hears:
            self._say_deaf_once()
            return
        kind = self._host.settings.input_format
        pcm = await decoded(audio_of(event, kind), kind)
        if not self._buffer.has_room(len(pcm)):
            seconds = self._buffer.most_bytes // audio.BYTES_PER_SECOND
            raise RequestError(
                f"The input audio buffer holds at most {seconds} seconds. Commit or clear it.",
                param="audio",
                code="input_audio_buffer_full",
            )
        if self._detector is None:
            self._buffer.append(pcm)
        else:
            await self._hear(pcm)

    def _say_deaf_once(self) -> None:
        """Sound comes fifty times a second: one refusal is enough until the caller does something else."""
        if not self._told_deaf:
            self._told_deaf = True
            raise deaf("audio")

    async def _hear(self, pcm: bytes) -> None:
        """Frame by frame, as a turn may end in the middle."""
        view, start = memoryview(pcm), 0
        pause = AT_A_STRETCH
        while start < len(view):
            piece = view[start : start + vad.FRAME_BYTES - len(self._frame)]
            start += len(piece)
            self._buffer.append(piece)
            self._frame += piece
            if len(self._frame) == vad.FRAME_BYTES:
                frame = bytes(self._frame)
                self._frame.clear()
                await self._notice(frame)
            if start >= pause:
                pause += AT_A_STRETCH
                await asyncio.sleep(0)

    async def _notice(self, frame: bytes) -> None:
        assert self._detector is not None
        match self._detector.hear(frame, self._buffer.end_ms):
            case vad.Started(ms=ms):
                await self._begin_utterance(ms)
            case vad.Stopped(ms=ms):
                self._end_utterance(ms)
            case None:
                if not self._detector.speaking:
                    self._buffer.keep_last(MOST_SILENCE_MS)

    async def _begin_utterance(self, ms: int) -> None:
        self._buffer.forget_before(ms)
        self._utterance = new_id("item")
        start = max(ms, self._buffer.start_ms)
        self._host.emit(_event("speech_started", audio_start_ms=start, item_id=self._utterance))
        if self._host.settings.interrupt_response:
            await self._host.interrupt("turn_detected")

    def _end_utterance(self, ms: int) -> None:
        self._host.emit(_event("speech_stopped", audio_end_ms=ms, item_id=self._utterance))
        answers = self._host.settings.create_response
        try:
            self._commit(transcribe=answers)
            if answers:
                self._host.answer_now()
        except RequestError as error:
            self._host.report(error)

    def commit(self) -> None:
        """What is in the buffer becomes an item. Raises RequestError for next to nothing."""
        if not self._mind.hears:
            raise deaf("")
        if audio.milliseconds(len(self._buffer)) < SHORTEST_MS:
            raise RequestError(
                f"The input audio buffer has {audio.milliseconds(len(self._buffer))} ms of sound; at least {SHORTEST_MS} ms "
                "are needed to commit it.",
                code="input_audio_buffer_commit_empty",
            )
        self._commit(transcribe=False)

    def _commit(self, *, transcribe: bool) -> None:
        conversation = self._host.conversation
        conversation.need_room()
        pcm = self._buffer.take()
        item = Item(id=self._utterance or new_id("item"), parts=[Sound(bytearray(pcm), len(pcm))])
        self._forget_utterance()
        before = conversation.last_id()
        conversation.insert(item)
        shown = {"previous_item_id": before, "item": item.rendered()}
        self._host.emit(
            _event("committed", previous_item_id=before, item_id=item.id),
            {"type": "conversation.item.added", **shown},
            {"type": "conversation.item.done", **shown},
        )
        if transcribe or self._host.settings.transcribes:
            self._listen_to(item)

    def clear(self) -> None:
        self._buffer.clear()
        self._forget_utterance()
        self._told_deaf = False
        self._host.emit(_event("cleared"))

    def _forget_utterance(self) -> None:
        self._utterance = None
        self._frame.clear()
        if self._detector is not None:
            self._detector.reset()

    # Transcription

    async def heard(self, items: Iterable[Item]) -> None:
        """Wait until all sound of callers in `items` has been listened to. Raises what went wrong, once for each sound."""
        sounds = []
        for item in items:
            self._listen_to(item)
            sounds += [sound for _, sound in item.sounds() if sound.listening is not None]
        tasks = [sound.listening for sound in sounds if sound.listening is not None]
        if tasks:
            await asyncio.wait(tasks)
        for sound in sounds:
            sound.listening = None
            trouble, sound.trouble = sound.trouble, None
            if trouble is not None:
                raise trouble

    def _listen_to(self, item: Item) -> None:
        for index, sound in item.sounds():
            if not sound.done and sound.listening is None and not sound.output:
                sound.listening = asyncio.create_task(self._transcribe(item, index, sound))
                self._host.keep(sound.listening)

    async def _transcribe(self, item: Item, index: int, sound: Sound) -> None:
        settings = self._host.settings
        found: Transcript | None = None
        try:
            async with self._turns:
                if sound.pcm is not None:  # it may have been forgotten while it waited
                    found = await self._mind.transcribe(sound, settings.language, settings.prompt)
        except GateError as error:
            sound.trouble = error
        except Exception:
            log.exception("a transcription failed")
            sound.trouble = InternalError()
        sound.done = True
        if found is not None:
            sound.transcript = found.text
        if settings.transcribes:
            self._host.emit(_transcribed(item, index, sound, found))

    def forget(self, item: Item) -> None:
        """An item was deleted: nobody needs its words."""
        for _, sound in item.sounds():
            if sound.listening is not None:
                sound.listening.cancel()


def deaf(param: str) -> RequestError:
    """The error for sound that nobody here can hear."""
    message = "This model hears no sound: no model for transcription is configured for it. Send text."
    return RequestError(message, param=param, code="audio_input_not_supported")


async def decoded(data: bytes, kind: str) -> bytes:
    """PCM of what a caller sent as `kind`."""
    if kind == audio.PCM:
        return data
    pieces = []
    for start in range(0, len(data), 4_000):  # half a second of a telephone: 1 ms of work
        pieces.append(audio.decode(data[start : start + 4_000], kind))
        await asyncio.sleep(0)
    return b"".join(pieces)


_Verb = Literal["speech_started", "speech_stopped", "committed", "cleared"]


def _event(what: _Verb, **rest: Any) -> Event:
    return {"type": f"input_audio_buffer.{what}", **rest}


def _transcribed(item: Item, index: int, sound: Sound, found: Transcript | None) -> Event:
    place = {"item_id": item.id, "content_index": index}
    kind = "conversation.item.input_audio_transcription"
    if found is not None:
        return {"type": f"{kind}.completed", **place, "transcript": found.text, "usage": _usage(sound, found)}
    error = sound.trouble or RequestError("This model hears sound, but no words.", code="transcription_not_supported")
    body = error.body()
    shown = {"type": body["type"], "code": body["code"], "message": body["message"], "param": body["param"] or None}
    return {"type": f"{kind}.failed", **place, "error": shown}


def _usage(sound: Sound, found: Transcript) -> Event:
    usage = found.usage
    if usage is None or usage.total_tokens is None:
        return {"type": "duration", "seconds": sound.seconds}
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    return {"type": "tokens", "input_tokens": given, "output_tokens": made, "total_tokens": given + made}
