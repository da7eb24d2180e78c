"""The voices of speech, and the sample rate. Pure."""

from __future__ import annotations

from typing import Final

from tornado_gate.types.value import Value

SAMPLE_RATE: Final = 24_000
"""Samples a second."""


class SpeakerVoice(Value, frozen=True, kw_only=True):
    """`pitch` in Hz; `pace` 1 is the default; `throat` 1 is a man's, smaller is shorter; `variant` is one of eSpeak NG's."""

    pitch: float
    pace: float
    throat: float
    variant: str


def _make_voice(pitch: float, pace: float, throat: float, variant: str) -> SpeakerVoice:
    return SpeakerVoice(pitch=pitch, pace=pace, throat=throat, variant=variant)


VOICES: Final = {
    "alloy": _make_voice(150, 1.00, 0.95, "m7"),
    "ash": _make_voice(105, 1.05, 1.02, "m2"),
    "ballad": _make_voice(130, 0.88, 0.98, "m3"),
    "cedar": _make_voice(95, 0.95, 1.06, "m8"),
    "coral": _make_voice(205, 1.05, 0.84, "f2"),
    "echo": _make_voice(115, 0.98, 1.00, "m1"),
    "fable": _make_voice(140, 0.94, 0.97, "m4"),
    "marin": _make_voice(185, 1.02, 0.88, "f3"),
    "nova": _make_voice(215, 1.10, 0.82, "f1"),
    "onyx": _make_voice(80, 0.92, 1.12, "m5"),
    "sage": _make_voice(175, 0.90, 0.90, "f4"),
    "shimmer": _make_voice(235, 1.00, 0.80, "f5"),
    "verse": _make_voice(125, 1.12, 0.99, "m6"),
    "aoede": _make_voice(195, 1.00, 0.86, "f2"),
    "charon": _make_voice(90, 0.90, 1.08, "m5"),
    "fenrir": _make_voice(110, 1.15, 1.04, "m3"),
    "kore": _make_voice(180, 0.97, 0.89, "f1"),
    "leda": _make_voice(225, 1.06, 0.81, "f4"),
    "orus": _make_voice(100, 1.00, 1.05, "m1"),
    "puck": _make_voice(160, 1.18, 0.93, "m4"),
    "zephyr": _make_voice(210, 0.93, 0.83, "f3"),
}
