"""Realtime voice conversations with the embedded provider: a `VoiceModel` for `tornado_gate_openai.voice`.

Answers are those of local-chat, spoken as by local-tts, sentence by sentence, in worker processes. Speech is not
recognised: for input audio the answer states its length and loudness.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Final

from tornado_gate.errors import InvalidField
from tornado_gate.types import Call, ChatRequest, Choice, RealtimeRequest, Text, ToolCall, Usage
from tornado_gate.types.value import replace
from tornado_gate_demo_media.speech import SpeechOrder, check_order, iterate_portions, make_speech
from tornado_gate_demo_media.voices import SAMPLE_RATE
from tornado_gate_local.answer import count_usage, estimate_size, make_choices
from tornado_gate_local.errors import InvalidArgument
from tornado_gate_local.words import split_tokens
from tornado_gate_local.workers import POOL
from tornado_gate_openai.voice import (
    AudioPart,
    AudioPiece,
    CallPiece,
    CutShortPiece,
    Item,
    Piece,
    TextPiece,
    Transcript,
    Turn,
    UsagePiece,
    VoiceSession,
    make_chat_request,
    measure_level,
    to_decibels,
)

LONG_INPUT_SIZE: Final = 100_000
"""Characters of a conversation, or bytes of audio, from which the work moves to a thread."""
HEARD_PER_SECOND: Final = 10
SPOKEN_PER_SECOND: Final = 20
"""Tokens as OpenAI counts them for realtime models: one for 100 ms of input audio, one for 50 ms of output audio."""
_LOUDNESS: Final = ((-70.0, "silence"), (-40.0, "quiet"), (-20.0, "clear"), (0.0, "loud"))
_NO_WORDS: Final = "I hear how long and how loud a sound is, but no words."


def open_session(call: Call, request: RealtimeRequest, pace_seconds: float = 0.0) -> VoiceSession:
    """Return a session with the embedded model. Raises InvalidField when a field that a client secret fixes is not supported."""
    return VoiceSession(LocalVoiceModel(call.model, pace_seconds), model=call.model, session=request.session)


class LocalVoiceModel:
    """The embedded model. `pace_seconds` is the pause between the words of an answer."""

    accepts_audio = True
    produces_audio = True

    def __init__(self, model: str, pace_seconds: float = 0.0) -> None:
        self._model = model
        self._pace_seconds = pace_seconds

    async def transcribe(self, sound: AudioPart, language: str | None, prompt: str | None) -> Transcript | None:
        """Always None: speech is not recognised."""
        return None

    async def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        """The pieces of an answer. Raises InvalidField for an unknown voice, and for a tool_choice that names no tool."""
        order = _make_speech_order(turn)
        request = make_chat_request(turn, self._model, lambda sound: None)
        waiting = _list_waiting_items(turn.items)
        heard = await _describe_audio(sound for item in waiting for _, sound in item.iterate_audio_parts())
        forced = request.tool_choice is not None and request.tool_choice.mode in ("required", "tool")
        if heard and not forced and all(_is_only_audio(item) for item in waiting):
            choice = Choice(parts=(Text(text=heard),), reason="stop")
        else:
            choice = await _make_choice(request)
            choice = replace(choice, parts=tuple(_iterate_reply_parts(choice, heard)))
        spoken_seconds = 0.0
        for part in choice.parts:
            if isinstance(part, ToolCall):
                yield CallPiece(part.id, part.name, part.arguments)
            elif isinstance(part, Text):
                async with aclosing(self._stream_text(part.text, order)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, AudioPiece):
                            spoken_seconds += len(piece.pcm) / 2 / SAMPLE_RATE
                        yield piece
        if choice.reason == "length":
            yield CutShortPiece("max_output_tokens")
        yield _count_usage(request, choice, turn, spoken_seconds)

    async def _stream_text(self, text: str, order: SpeechOrder | None) -> AsyncGenerator[Piece, None]:
        """The words of `text`; with an `order` the audio of each sentence follows its words."""
        for portion in [text] if order is None else iterate_portions(text):
            for number, word in enumerate(split_tokens(portion)):
                if number and self._pace_seconds:
                    await asyncio.sleep(self._pace_seconds)
                yield TextPiece(word)
            if order is not None:
                sound = await POOL.run(make_speech, replace(order, text=portion))
                yield AudioPiece(sound.data)


def _make_speech_order(turn: Turn) -> SpeechOrder | None:
    """The voice, speed and format of the speech; None for a text answer. Raises InvalidField."""
    if not turn.spoken:
        return None
    order = SpeechOrder(text="-", voice=turn.voice or "alloy", speed=turn.speed, format="pcm")
    try:
        check_order(order)
    except InvalidArgument as error:
        raise InvalidField(f"session.audio.output.{error.param}", str(error)) from None
    return order


async def _make_choice(request: ChatRequest) -> Choice:
    """A choice as local-chat makes it; long requests run in a thread."""
    salt = secrets.token_hex(16)
    if request.tools or estimate_size(request) > LONG_INPUT_SIZE:
        return (await asyncio.to_thread(make_choices, request, salt))[0]
    return make_choices(request, salt)[0]


def _iterate_reply_parts(choice: Choice, heard: str) -> Iterable[Text | ToolCall]:
    """The text and tool calls of the answer; `heard` is put before the first text."""
    for part in choice.parts:
        if isinstance(part, Text):
            yield Text(text=f"{heard}\n{part.text}") if heard else part
            heard = ""
        elif isinstance(part, ToolCall):
            yield part


def _list_waiting_items(items: tuple[Item, ...]) -> list[Item]:
    """The items that need an answer: those after the model's last item."""
    waiting: list[Item] = []
    for item in reversed(items):
        if item.kind == "function_call" or (item.kind == "message" and item.role == "assistant"):
            break
        waiting.append(item)
    return waiting[::-1]


def _is_only_audio(item: Item) -> bool:
    return item.kind == "message" and all(isinstance(part, AudioPart) and not part.transcript for part in item.parts)


async def _describe_audio(sounds: Iterable[AudioPart]) -> str:
    """'I heard 1.5 seconds of sound at -18 dB, which is loud. …'; "" without audio."""
    said = []
    for sound in sounds:
        if sound.pcm is None:
            said.append(f"I heard {sound.seconds:.1f} seconds of sound.")
            continue
        pcm = bytes(sound.pcm)
        loudness = await asyncio.to_thread(measure_level, pcm) if len(pcm) > LONG_INPUT_SIZE else measure_level(pcm)
        db = to_decibels(loudness)
        word = next(word for bound, word in _LOUDNESS if db <= bound)
        said.append(f"I heard {sound.seconds:.1f} seconds of sound at {db:.0f} dB, which is {word}.")
    return " ".join([*said, _NO_WORDS]) if said else ""


def _count_usage(request: ChatRequest, choice: Choice, turn: Turn, spoken_seconds: float) -> UsagePiece:
    """Text tokens by the rule of local-chat, audio tokens by its duration."""
    counted = count_usage(request, (choice,))
    heard_seconds = sum(
        sound.seconds for item in turn.items for _, sound in item.iterate_audio_parts() if not sound.output
    )
    heard = math.ceil(heard_seconds * HEARD_PER_SECOND)
    spoken = math.ceil(spoken_seconds * SPOKEN_PER_SECOND)
    total = Usage(input_tokens=(counted.input_tokens or 0) + heard, output_tokens=(counted.output_tokens or 0) + spoken)
    return UsagePiece(usage=total, input_audio_tokens=heard, output_audio_tokens=spoken)
