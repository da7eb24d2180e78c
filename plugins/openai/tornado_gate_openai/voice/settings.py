"""The session settings that `VoiceSession` uses, parsed. No I/O.

``noise_reduction``, ``tracing``, ``truncation``, ``include`` and ``reasoning`` have no effect and are reported back unchanged. A
setting that would change the conversation and is not supported is rejected.

Source: openai-python 3.52, types/realtime/realtime_session_create_request.py, realtime_audio_input_turn_detection.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tornado_gate.codec import checks
from tornado_gate.errors import InvalidField
from tornado_gate.types import Tool, ToolChoice
from tornado_gate.types.value import Value
from tornado_gate_openai.voice import audio, vad
from tornado_gate_openai.voice.items import Item
from tornado_gate_openai.voice.voice_model import Turn
from tornado_gate_openai.wire.realtime import SessionConfig, TurnDetection

EAGERNESS_SILENCE_MS: Final = {"low": 1200, "medium": 700, "auto": 700, "high": 400}
"""Milliseconds of silence that end a turn, by the eagerness of ``semantic_vad``: detection here uses the level only."""


class SessionSettings(Value, frozen=True, kw_only=True):
    """The settings of a session.

    `detection` is None when the caller commits audio itself; `language` and `prompt` are for transcription.
    """

    spoken: bool = True
    instructions: str = ""
    voice: str = ""
    speed: float = 1.0
    input_format: str = audio.PCM
    output_format: str = audio.PCM
    detection: vad.DetectionSettings | None = None
    create_response: bool = True
    interrupt_response: bool = True
    transcribes: bool = False
    language: str | None = None
    prompt: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None

    def make_turn(self, items: tuple[Item, ...]) -> Turn:
        """Return the turn for `items` with these settings."""
        return Turn(
            items=items,
            instructions=self.instructions,
            spoken=self.spoken,
            voice=self.voice,
            speed=self.speed,
            tools=self.tools,
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
        )


def read(session: SessionConfig, path: str = "session") -> SessionSettings:
    """Parse the settings of a session. Raises InvalidField, with a path below `path`, for a setting that is not supported."""
    if session.kind != "realtime":
        checks.raise_invalid(
            f"{path}.type", "must be 'realtime': this model does not support transcription-only sessions"
        )
    if session.extra.get("prompt") is not None:
        checks.raise_invalid(
            f"{path}.prompt",
            "is not supported by this model: stored prompts exist only at the vendor; send 'instructions'",
        )
    turns = session.turn_detection
    transcription = session.transcription or {}
    return SessionSettings(
        spoken="audio" in session.modalities,
        instructions=session.instructions,
        voice=session.voice,
        speed=session.speed,
        input_format=session.input_format,
        output_format=session.output_format,
        detection=_parse_detection(turns, f"{path}.audio.input.turn_detection") if turns is not None else None,
        create_response=turns is None or turns.create_response,
        interrupt_response=turns is None or turns.interrupt_response,
        transcribes=session.transcription is not None,
        language=transcription.get("language"),
        prompt=transcription.get("prompt"),
        tools=tuple(_parse_tool(tool, f"{path}.tools.{index}") for index, tool in enumerate(session.tools)),
        tool_choice=_parse_tool_choice(session.tool_choice, f"{path}.tool_choice"),
        parallel_tool_calls=_parse_boolean(session.extra, "parallel_tool_calls", path),
        max_tokens=session.max_output_tokens,
        temperature=session.temperature,
    )


def _parse_boolean(extra: Mapping[str, Any], name: str, path: str) -> bool | None:
    checks.optional_boolean(extra, name, path)
    return extra.get(name)


def _parse_detection(turns: TurnDetection, path: str) -> vad.DetectionSettings:
    if turns.extra.get("idle_timeout_ms") is not None:
        checks.raise_invalid(f"{path}.idle_timeout_ms", "is not supported by this model; omit it")
    if turns.kind == "semantic_vad":
        return vad.DetectionSettings(
            silence_ms=EAGERNESS_SILENCE_MS.get(turns.extra.get("eagerness") or "auto", EAGERNESS_SILENCE_MS["auto"])
        )
    return vad.DetectionSettings(
        threshold=turns.threshold, prefix_ms=turns.prefix_padding_ms, silence_ms=turns.silence_duration_ms
    )


def _parse_tool(value: Any, path: str) -> Tool:
    tool = checks.need_object(value, path)
    if tool.get("type", "function") != "function":
        kind = str(tool.get("type"))[:40]
        message = f"'{path}.type' must be 'function': this model does not support tools of the type '{kind}'."
        raise InvalidField(f"{path}.type", message, code="unsupported_tool")
    checks.optional_string(tool, "description", path)
    return Tool(
        name=checks.string_member(tool, "name", path),
        description=tool.get("description"),
        parameters=checks.optional_object(tool, "parameters", path),
    )


def _parse_tool_choice(value: Any, path: str) -> ToolChoice | None:
    match value:
        case None:
            return None
        case "auto" | "none" | "required":
            return ToolChoice(mode=value)
        case {"type": "function", "name": str(name)}:
            return ToolChoice(mode="tool", name=name)
    checks.raise_invalid(path, "must be 'auto', 'none', 'required' or a function with its name")
