"""Who answers in a session. A `Mind` says words, makes sound and calls functions; `VoiceSession` does everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tornado_gate.types import Tool, ToolChoice, Usage
from tornado_gate.voice.items import Item, Sound


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
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


@dataclass(frozen=True, slots=True)
class Said:
    """More words: the text of a written answer, the transcript of a spoken one."""

    text: str


@dataclass(frozen=True, slots=True)
class Spoke:
    """More sound: whole samples of PCM, see `voice.audio`."""

    pcm: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Called:
    """A function is to be called. What is said afterwards is another message."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the answer took in all; of `usage` these are the tokens that were sound."""

    usage: Usage
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0


@dataclass(frozen=True, slots=True)
class CutShort:
    """The answer is not whole, and why."""

    reason: Literal["max_output_tokens", "content_filter"]


Piece = Said | Spoke | Called | Spent | CutShort


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The words in a sound. `usage` is in tokens, when the model counts them."""

    text: str
    usage: Usage | None = None


class Mind(Protocol):
    """`hears` says whether sound may be sent to it, `speaks` whether it can answer with sound."""

    @property
    def hears(self) -> bool: ...
    @property
    def speaks(self) -> bool: ...

    def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        """An async generator. It is closed when the answer is not wanted any more. Raises GateError."""

    async def transcribe(self, sound: Sound, language: str | None, prompt: str | None) -> Transcript | None:
        """The words of a caller's sound, before any answer to it is asked for; None when words are not what it hears.

        Raises GateError.
        """
