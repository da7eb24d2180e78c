"""Voices by other vendors' names. Pure.

Callers of Gemini's format name its voices, of which the interface lists eight. Each stands for one voice that every speech model
of OpenAI's has; no two for the same. The characters are those that Google gives its voices ("Firm", "Breezy", …), the
likeness is our own judgement. An entry's setting `voices` changes the table or adds to it.

Sources: ai.google.dev/gemini-api/docs/speech-generation, "Voice options"; openai-python 3.52,
types/audio/speech_create_params.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tornado_gate.types import SpeechRequest
from tornado_gate.types.value import replace
from tornado_gate.wire import formats

DEFAULT_VOICE: Final = "alloy"
"""For a request that names no voice: the vendor demands one."""

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
    """The request with a voice of the upstream's. One that came in OpenAI's own format names its voice itself."""
    voice = request.voice or DEFAULT_VOICE
    if request.wire_format != formats.OPENAI_SPEECH:
        voice = voices.get(voice, voice)
    return replace(request, voice=voice)
