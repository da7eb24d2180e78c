"""Who answers in a session. A `Mind` says words, makes sound and calls functions; `VoiceSession` does everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from tornado_gate.realtime.voice.items import AudioPart, Item
from tornado_gate.types import Tool, ToolChoice, Usage
from tornado_gate.types.value import Value


class Turn(Value, frozen=True, kw_only=True):
    """What is to be answered: all items in order, and how.

    `spoken` asks for sound with its words, else for text alone. `voice` is a name, `speed` 1 is usual. Lengths are in
    tokens.
    """

    items: tuple[Item, ...]
    instructions: str = ""
    spoken: bool = False
    voice: str = ""
    speed: float = 1.0
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None


class TextPiece(Value, frozen=True):
    """More words: the text of a written answer, the transcript of a spoken one."""

    text: str


class AudioPiece(Value, frozen=True):
    """More sound: whole samples of PCM, see `voice.audio`."""

    pcm: bytes

    hidden_fields = frozenset({"pcm"})


class CallPiece(Value, frozen=True):
    """A function is to be called. What is said afterwards is another message."""

    call_id: str
    name: str
    arguments: str


class UsagePiece(Value, frozen=True, kw_only=True):
    """What the answer took in all; of `usage` these are the tokens that were sound."""

    usage: Usage
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0


class CutShortPiece(Value, frozen=True):
    """The answer is not whole, and why."""

    reason: Literal["max_output_tokens", "content_filter"]


Piece = TextPiece | AudioPiece | CallPiece | UsagePiece | CutShortPiece


class Transcript(Value, frozen=True, kw_only=True):
    """The words in a sound. `usage` is in tokens, when the model counts them."""

    text: str
    usage: Usage | None = None


class VoiceModel(Protocol):
    """`hears` says whether sound may be sent to it, `speaks` whether it can answer with sound."""

    @property
    def accepts_audio(self) -> bool: ...
    @property
    def produces_audio(self) -> bool: ...

    def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        """An async generator. It is closed when the answer is not wanted any more. Raises GateError."""

    async def transcribe(self, sound: AudioPart, language: str | None, prompt: str | None) -> Transcript | None:
        """The words of a caller's sound, before any answer to it is asked for; None when words are not what it hears.

        Raises GateError.
        """
