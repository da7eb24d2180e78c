"""The three models of a session, which a test scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tornado_gate.types import (
    ChatRequest,
    Finish,
    PartDelta,
    PartEnd,
    PartStart,
    ResponseStart,
    SpeechChunk,
    SpeechEnd,
    SpeechRequest,
    SpeechStart,
    TranscriptionResult,
    Usage,
    UsageReport,
)
from tornado_gate_cascade.voice_model import CascadeModels, CascadeVoiceModel
from tornado_gate_openai.voice import VoiceSession

ALL = CascadeModels(chat="the-chat", transcription="the-ears", speech="the-voice", voice="onyx")
SOUND_OF_A_LETTER = b"\x10\x20" * 240
"""10 ms."""
SECONDS = 10


def said(*texts: str | asyncio.Event | Exception, reason: Any = "stop") -> list[Any]:
    """Return a chat with these texts. An Event is awaited, an Exception raised."""
    steps: list[Any] = [ResponseStart(model="upstream"), PartStart(index=0, kind="text")]
    steps += [PartDelta(index=0, data=text) if isinstance(text, str) else text for text in texts]
    usage = UsageReport(usage=Usage(input_tokens=11, output_tokens=4))
    return [*steps, PartEnd(index=0), usage, Finish(reason=reason)]


def called(*calls: tuple[str, str, str]) -> list[Any]:
    """Return a chat with thinking and calls of functions: id, name, arguments. The parts of the calls arrive mixed."""
    steps: list[Any] = [ResponseStart(model="upstream"), PartStart(index=9, kind="thinking")]
    steps += [PartDelta(index=9, data="hm"), PartEnd(index=9)]
    steps += [PartStart(index=n, kind="tool_call", id=call[0], name=call[1]) for n, call in enumerate(calls)]
    for half in (0, 1):
        for n, (_, _, arguments) in enumerate(calls):
            middle = len(arguments) // 2
            steps.append(PartDelta(index=n, data=arguments[middle:] if half else arguments[:middle]))
    return [*steps, *(PartEnd(index=n) for n in range(len(calls))), Finish(reason="tool_calls")]


class FakeInner:
    """Other models of the gateway. `log` has the events in order; `open` is the number of responses that are being read."""

    def __init__(self, chat: list[Any], *, words: Any = "what was said", media_type: str = "audio/pcm") -> None:
        self.chat = chat
        self.words = words
        self.media_type = media_type
        self.hold: dict[str, asyncio.Event] = {}  # sentences whose speech waits for an event
        self.fail: dict[str, Exception] = {}
        self.requests: list[Any] = []
        self.log: list[str] = []
        self.open = 0

    async def ask(self, model: str, operation: str, request: Any) -> AsyncIterator[Any]:
        self.requests.append(request)
        assert request.model == model
        self.open += 1
        try:
            async for event in {"chat": self._chat, "speech": self._speech}.get(operation, self._words)(request):
                yield event
        finally:
            self.open -= 1

    async def _chat(self, request: ChatRequest) -> AsyncIterator[Any]:
        for step in self.chat:
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                yield step
        self.log.append("chat ended")

    async def _speech(self, request: SpeechRequest) -> AsyncIterator[Any]:
        self.log.append(f"speech began: {request.text}")
        yield SpeechStart(media_type=self.media_type)
        for letter in range(len(request.text)):
            if letter == 1 and request.text in self.hold:
                await self.hold[request.text].wait()
            if letter == 1 and request.text in self.fail:
                raise self.fail[request.text]
            yield SpeechChunk(data=SOUND_OF_A_LETTER[:7])  # within a sample
            yield SpeechChunk(data=SOUND_OF_A_LETTER[7:])
        yield SpeechEnd()

    async def _words(self, request: Any) -> AsyncIterator[Any]:
        if isinstance(self.words, Exception):
            raise self.words
        yield TranscriptionResult(text=self.words, usage=Usage(input_tokens=5, output_tokens=2))

    def asked(self, kind: type) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]


class Caller:
    """The caller's end of a session with three models."""

    def __init__(self, inner: FakeInner, models: CascadeModels = ALL) -> None:
        self.session = VoiceSession(CascadeVoiceModel(inner, models), model="talking", voice=models.voice)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.send(json.dumps({"type": kind, **fields}))

    async def until(self, *kinds: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(SECONDS):
            while not events or events[-1]["type"] not in kinds:
                text = await self.session.receive()
                assert text is not None
                events.append(json.loads(text))
        return events

    async def ready(self, **session: Any) -> None:
        audio = {"input": {"turn_detection": None, **session.pop("hearing", {})}, "output": session.pop("speaking", {})}
        await self.send("session.update", session={"type": "realtime", "audio": audio, **session})
        await self.until("session.updated")

    async def say(self, text: str) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self.send("conversation.item.create", item=item)
        await self.until("conversation.item.done")

    async def answered(self, **response: Any) -> list[dict[str, Any]]:
        await self.send("response.create", response=response)
        return await self.until("response.done")


def joined(events: list[dict[str, Any]], kind: str) -> str:
    """Join all deltas of a type."""
    return "".join(event["delta"] for event in events if event["type"] == kind)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Return the types of events; of equal types in a row only the first."""
    return [event["type"] for n, event in enumerate(events) if n == 0 or events[n - 1]["type"] != event["type"]]
