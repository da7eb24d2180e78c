"""Session settings, independent of the dialect. No I/O.

Unknown members are kept in `extra` at their path in the current dialect and are included in rendered sessions.

Defaults are the vendor's. Source: openai-python 3.52, types/realtime/realtime_session_create_request.py and
realtime_audio_input_turn_detection.py, types/beta/realtime/session.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from tornado_gate.types import RealtimeDialect
from tornado_gate.types.value import Value, field, replace
from tornado_gate_openai.wire.realtime import schemas
from tornado_gate_openai.wire.realtime.event_checks import check_session
from tornado_gate_openai.wire.realtime.schemas import PCM_RATE

Modality = Literal["text", "audio"]
AudioFormat = Literal["audio/pcm", "audio/pcmu", "audio/pcma"]

BETA_TEMPERATURE: Final = 0.8
"""The temperature of rendered beta sessions if none is set."""

_RESPONSE_ONLY_MEMBERS: Final = ("id", "object", "expires_at")
"""Members that only a server sets; they are ignored in client events."""


class TurnDetection(Value, frozen=True, kw_only=True):
    """Settings for detecting the end of speech. Times are in milliseconds, `threshold` is 0 to 1."""

    kind: Literal["server_vad", "semantic_vad"] = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> TurnDetection:
        """Return the settings of a validated object. Absent members get their defaults, not their previous values."""
        known = set(cls.__struct_fields__) - {"kind", "extra"}
        return cls(
            kind=value.get("type") or "server_vad",
            **{name: member for name, member in value.items() if name in known and member is not None},
            extra={name: member for name, member in value.items() if name not in known and name != "type"},
        )

    def render(self) -> dict[str, Any]:
        """Return the JSON object, identical in both dialects. ``semantic_vad`` has no threshold and no times."""
        acts = {"create_response": self.create_response, "interrupt_response": self.interrupt_response}
        if self.kind == "semantic_vad":
            return {"type": self.kind, "eagerness": "auto", **acts, **self.extra}
        times = {"prefix_padding_ms": self.prefix_padding_ms, "silence_duration_ms": self.silence_duration_ms}
        return {"type": self.kind, "threshold": self.threshold, **times, **acts, **self.extra}


class SessionConfig(Value, frozen=True, kw_only=True):
    """The settings of one session. `modalities` are ("text",), or ("text", "audio") for speech with its transcript.

    Formats are media types. `max_output_tokens` None is "inf". `temperature` None is the model's default. `turn_detection`
    None means that the client ends its turns explicitly. `expires_at` is in Unix seconds.
    """

    id: str = ""
    model: str = ""
    kind: Literal["realtime", "transcription"] = "realtime"
    expires_at: int | None = None
    modalities: tuple[Modality, ...] = ("text", "audio")
    instructions: str = ""
    voice: str = "alloy"
    speed: float = 1.0
    input_format: AudioFormat = "audio/pcm"
    output_format: AudioFormat = "audio/pcm"
    turn_detection: TurnDetection | None = TurnDetection()
    transcription: Mapping[str, Any] | None = None
    noise_reduction: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    temperature: float | None = None
    max_output_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def update(self, session: Any, dialect: RealtimeDialect, path: str = "session") -> SessionConfig:
        """Return the settings after a ``session.update``, or with `path` "response" the settings of one ``response.create``.

        Only present members change. Null disables turn detection, transcription and noise reduction, and is ignored for other
        members. Raises InvalidField with paths in the caller's spelling.
        """
        settings = check_session(session, path)
        current = schemas.convert_session_to_current(settings, self.kind, path) if dialect == "beta" else settings
        rest = {name: value for name, value in current.items() if name not in _RESPONSE_ONLY_MEMBERS}
        changes: dict[str, Any] = {}
        for name, at in _NULLABLE_MEMBERS.items():
            value = schemas.take_member(rest, at)
            if value is not schemas.MISSING:
                changes[name] = value
        for name, at in _PLAIN_MEMBERS.items():
            value = schemas.take_member(rest, at)
            if value is not schemas.MISSING and value is not None:
                changes[name] = value
        return replace(self, **_read_changes(changes), extra=_merge(self.extra, rest))

    def render(self, dialect: RealtimeDialect) -> dict[str, Any]:
        """Return the ``session`` object of ``session.created`` and ``session.updated``."""
        sound_in = {
            "format": _render_format(self.input_format),
            "transcription": self.transcription,
            "noise_reduction": self.noise_reduction,
            "turn_detection": self.turn_detection.render() if self.turn_detection else None,
        }
        body = {"id": self.id, "object": _OBJECT_OF_KIND[self.kind], "type": self.kind, "model": self.model}
        if self.kind == "transcription":
            current = _merge({**body, "audio": {"input": sound_in}}, self.extra)
        else:
            current = _merge(
                {**body, **self._render_beta_audio(), "audio": {"input": sound_in, "output": self._render_audio()}},
                self.extra,
            )
        if self.expires_at is not None:
            current["expires_at"] = self.expires_at
        if self.temperature is not None:
            current["temperature"] = self.temperature
        if dialect == "current":
            return current
        beta: dict[str, Any] = schemas.convert_session_to_beta(current)
        if self.kind == "realtime":
            beta.setdefault("temperature", BETA_TEMPERATURE)
        return beta

    def _render_beta_audio(self) -> dict[str, Any]:
        return {
            "output_modalities": ["audio"] if "audio" in self.modalities else ["text"],
            "instructions": self.instructions,
            "tools": [dict(tool) for tool in self.tools],
            "tool_choice": self.tool_choice,
            "max_output_tokens": "inf" if self.max_output_tokens is None else self.max_output_tokens,
        }

    def _render_audio(self) -> dict[str, Any]:
        return {"format": _render_format(self.output_format), "voice": self.voice, "speed": self.speed}


_OBJECT_OF_KIND: Final = {"realtime": "realtime.session", "transcription": "realtime.transcription_session"}
_NULLABLE_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "turn_detection": ("audio", "input", "turn_detection"),
    "transcription": ("audio", "input", "transcription"),
    "noise_reduction": ("audio", "input", "noise_reduction"),
}
"""Fields of a session that null disables, and their paths in the current dialect."""

_PLAIN_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": ("type",),
    "model": ("model",),
    "modalities": ("output_modalities",),
    "instructions": ("instructions",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "input_format": ("audio", "input", "format"),
    "output_format": ("audio", "output", "format"),
    "tools": ("tools",),
    "tool_choice": ("tool_choice",),
    "temperature": ("temperature",),
    "max_output_tokens": ("max_output_tokens",),
}


def _read_changes(changes: dict[str, Any]) -> dict[str, Any]:
    """Convert wire values to the field values of a `SessionConfig`."""
    if (turns := changes.get("turn_detection")) is not None:
        changes["turn_detection"] = TurnDetection.parse(turns)
    if "modalities" in changes:
        changes["modalities"] = ("text", "audio") if "audio" in changes["modalities"] else ("text",)
    if isinstance(voice := changes.get("voice"), Mapping):
        changes["voice"] = voice["id"]
    for name in ("input_format", "output_format"):
        if name in changes:
            changes[name] = changes[name].get("type", "audio/pcm")
    if "tools" in changes:
        changes["tools"] = tuple(changes["tools"])
    if changes.get("max_output_tokens") == "inf":
        changes["max_output_tokens"] = None
    return changes


def _render_format(kind: AudioFormat) -> dict[str, Any]:
    return {"type": kind, "rate": PCM_RATE} if kind == "audio/pcm" else {"type": kind}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep merge in which `above` takes precedence; null in `above` does not replace an object."""
    result = dict(below)
    for name, value in above.items():
        inner = result.get(name)
        if not isinstance(inner, Mapping):
            result[name] = value
        elif isinstance(value, Mapping):
            result[name] = _merge(inner, value)
        elif value is not None:
            result[name] = value
    return result
