"""Sessions for tests: a mind that says what a test tells it, and a caller that reads what comes."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from array import array
from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.types import Usage
from tornado_gate_openai.voice import (
    RATE,
    AudioPart,
    AudioPiece,
    Piece,
    SessionLimits,
    TextPiece,
    Transcript,
    Turn,
    UsagePiece,
    VoiceSession,
)

SECONDS = 60


def tone(ms: int, loudness: float = 0.3, hertz: float = 440.0) -> bytes:
    samples = (round(32_767 * loudness * math.sin(2 * math.pi * hertz * n / RATE)) for n in range(RATE * ms // 1000))
    return array("h", samples).tobytes()


def silence(ms: int) -> bytes:
    return bytes(RATE * ms // 1000 * 2)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class ScriptedMind:
    """Answers with `pieces`; an Exception among them is raised, an Event waited for. `turns` are those it was asked."""

    def __init__(
        self,
        *pieces: Piece | Exception | asyncio.Event,
        accepts_audio: bool = True,
        produces_audio: bool = True,
        words: Any = "hello",
    ) -> None:
        self.pieces = pieces
        self.accepts_audio = accepts_audio
        self.produces_audio = produces_audio
        self.words = words
        self.turns: list[Turn] = []
        self.sounds: list[AudioPart] = []
        self.closed = 0

    async def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        self.turns.append(turn)
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, asyncio.Event):
                    await piece.wait()
                else:
                    yield piece
        finally:
            self.closed += 1

    async def transcribe(self, sound: AudioPart, language: str | None, prompt: str | None) -> Transcript | None:
        self.sounds.append(sound)
        if isinstance(self.words, Exception):
            raise self.words
        return None if self.words is None else Transcript(text=self.words)


class Client:
    """The caller's end."""

    def __init__(self, mind: Any, limits: SessionLimits | None = None, **rest: Any) -> None:
        self.session = VoiceSession(mind, model="voice", limits=limits or SessionLimits(), **rest)
        self.seen: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.send(json.dumps({"type": kind, **fields}))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            text = await self.session.receive()
        assert text is not None, "the session has ended"
        event: dict[str, Any] = json.loads(text)
        self.seen.append(event)
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """All events up to the first of this type, which is the last."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def event(self, kind: str) -> dict[str, Any]:
        return (await self.until(kind))[-1]

    async def ready(self, **session: Any) -> dict[str, Any]:
        """The session after its first events, with what a test needs of it; without detection of turns unless said."""
        await self.event("session.created")
        quiet = {"audio": {"input": {"turn_detection": None}}}
        await self.send("session.update", session={"type": "realtime", **quiet, **session})
        event = await self.next()
        assert event["type"] == "session.updated", event
        return dict(event["session"])

    async def say(self, text: str, **fields: Any) -> str:
        """A message of the user; its id."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self.send("conversation.item.create", item=item, **fields)
        added = await self.event("conversation.item.added")
        await self.event("conversation.item.done")
        return str(added["item"]["id"])

    async def append(self, pcm: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=b64(pcm))

    async def answered(self, **response: Any) -> dict[str, Any]:
        """Ask for a response; its last state."""
        await self.send("response.create", **({"response": response} if response else {}))
        return dict((await self.event("response.done"))["response"])

    async def error(self) -> dict[str, Any]:
        event = await self.next()
        assert event["type"] == "error", event
        return dict(event["error"])

    async def drained(self) -> list[dict[str, Any]]:
        """All events that are there, and come without anybody doing anything."""
        found: list[dict[str, Any]] = []
        silent = 0
        while silent < 2:  # on a busy machine a time may end while tasks are ready
            try:
                async with asyncio.timeout(0.05):
                    text = await self.session.receive()
            except TimeoutError:
                silent += 1
                continue
            if text is None:
                return found
            silent = 0
            found.append(json.loads(text))
        return found


def types(events: list[dict[str, Any]]) -> list[str]:
    """Their types; of equal ones in a row the first."""
    found: list[str] = []
    for event in events:
        if not found or found[-1] != event["type"]:
            found.append(event["type"])
    return found


TEXT_ONLY = {"output_modalities": ["text"]}
SPOKEN: tuple[Piece, ...] = (
    TextPiece("Hello "),
    TextPiece("there."),
    AudioPiece(tone(500)),
    UsagePiece(usage=Usage(input_tokens=7, output_tokens=5), output_audio_tokens=3),
)
