"""Maps voices of other vendors to OpenAI's. Pure.

Callers of Gemini's format use its voice names; its user interface lists eight. Each maps to a different voice that all of
OpenAI's speech models have. The characters are Google's descriptions ("Firm", "Breezy", …); the similarity is our own
judgement. The setting `voices` of an entry changes or extends the table.

Sources: ai.google.dev/gemini-api/docs/speech-generation, "Voice options"; openai-python 3.52,
types/audio/speech_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import SpeechRequest
from tornado_gate.types.value import replace
from tornado_gate_openai.wire import formats

DEFAULT_VOICE: Final = "alloy"
"""The voice of a request without one; the vendor requires a voice."""

VOICE_OF_GEMINI: Final[Mapping[str, str]] = {
    "Kore": "sage",  # firm
    "Aoede": "coral",  # breezy
    "Charon": "onyx",  # informative
    "Fenrir": "fable",  # excitable
    "Puck": "echo",  # upbeat
    "Leda": "shimmer",  # youthful
    "Orus": "ash",  # firm
    "Zephyr": "nova",  # bright
}


def map_voice(request: SpeechRequest, voices: Mapping[str, str]) -> SpeechRequest:
    """The request with a voice of the upstream. Voices in requests of OpenAI's own format are unchanged."""
    voice = request.voice or DEFAULT_VOICE
    if request.wire_format != formats.OPENAI_SPEECH:
        voice = voices.get(voice, voice)
    return replace(request, voice=voice)
