"""The interface between a session and its model:

`VoiceModel` produces text, audio and calls; `VoiceSession` does everything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, Protocol

from tornado_gate.types import Tool, ToolChoice, Usage
from tornado_gate.types.value import Value
from tornado_gate_openai.voice.items import AudioPart, Item


class Turn(Value, frozen=True, kw_only=True):
    """The input of one response: all items in order, and the settings.

    `spoken` requests audio with a transcript, else text only. `voice` is a name, `speed` 1 is normal. `max_tokens` limits the
    output.
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
    """More text: of a text response, or of the transcript of an audio response."""

    text: str


class AudioPiece(Value, frozen=True):
    """More audio: whole samples of PCM, see `voice.audio`."""

    pcm: bytes

    hidden_fields = frozenset({"pcm"})


class CallPiece(Value, frozen=True):
    """A function call. Text or audio after it belongs to a new message."""

    call_id: str
    name: str
    arguments: str


class UsagePiece(Value, frozen=True, kw_only=True):
    """The usage of the whole response; the audio tokens are included in `usage`."""

    usage: Usage
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0


class CutShortPiece(Value, frozen=True):
    """The reason why the response is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


Piece = TextPiece | AudioPiece | CallPiece | UsagePiece | CutShortPiece


class Transcript(Value, frozen=True, kw_only=True):
    """The transcript of audio. `usage` is in tokens, None when the model does not count them."""

    text: str
    usage: Usage | None = None


class VoiceModel(Protocol):
    """A model of a plugin. `accepts_audio`: whether input may have audio; `produces_audio`: whether responses can be audio."""

    @property
    def accepts_audio(self) -> bool: ...
    @property
    def produces_audio(self) -> bool: ...

    def answer(self, turn: Turn) -> AsyncIterator[Piece]:
        """Return an async generator of the pieces of a response. It is closed when the response is stopped. Raises GateError."""

    async def transcribe(self, sound: AudioPart, language: str | None, prompt: str | None) -> Transcript | None:
        """Return the transcript of a caller's audio; called before `answer`. None when the model does not transcribe.

        Raises GateError.
        """
