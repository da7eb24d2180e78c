"""eSpeak NG through ctypes. Only for worker processes: the library has global state and is not thread-safe.

Source of the functions and numbers: speak_lib.h of eSpeak NG 1.52.
"""

from __future__ import annotations

import ctypes
import logging
import math
import unicodedata
from array import array
from collections import Counter
from functools import lru_cache
from importlib import import_module

from tornado_gate_demo_media.resample import resample
from tornado_gate_demo_media.voices import SpeakerVoice

log = logging.getLogger(__name__)

SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: espeak_Synth returns after the last sample
NO_EXIT = 0x8000  # espeakINITIALIZE_DONT_EXIT: report missing data instead of ending the process
UTF8 = 1
RATE, PITCH = 1, 3  # parameters
WORDS_PER_MINUTE = 165
LEAST_WORDS, MOST_WORDS = 80, 450  # the range of the library's rate parameter
DEFAULT_PITCH = 50  # of 0 to 100
DEFAULT_LANGUAGE = "en-us"
LANGUAGES = {
    "CYRILLIC": "ru",
    "GREEK": "el",
    "HEBREW": "he",
    "ARABIC": "ar",
    "DEVANAGARI": "hi",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "CJK": "cmn",
    "THAI": "th",
}

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class _EspeakLibrary:
    """The initialised library. Its callback appends the samples to `_heard`. Raises OSError."""

    def __init__(self) -> None:
        files = import_module("espeakng_loader")  # untyped, so it is not imported by a statement
        self._calls = ctypes.CDLL(files.get_library_path())
        path = files.get_data_path().encode()
        self.rate: int = self._calls.espeak_Initialize(SYNCHRONOUS, 0, path, NO_EXIT)
        if self.rate <= 0:
            raise OSError("eSpeak NG cannot load its data files; reinstall espeakng-loader")
        self._heard = array("h")
        self._callback = _Callback(self._hear)  # a reference for the library, which keeps a bare pointer
        self._calls.espeak_SetSynthCallback(self._callback)

    def _hear(self, samples: ctypes._Pointer[ctypes.c_short], count: int, _events: int | None) -> int:
        if samples and count > 0:
            self._heard.frombytes(ctypes.string_at(samples, 2 * count))
        return 0

    def speak(self, text: bytes, voice: bytes, words_per_minute: int, pitch: int) -> array[int]:
        self._heard = array("h")
        if self._calls.espeak_SetVoiceByName(voice) != 0:
            raise OSError(f"eSpeak NG has no voice {voice!r}")
        self._calls.espeak_SetParameter(RATE, words_per_minute, 0)
        self._calls.espeak_SetParameter(PITCH, pitch, 0)
        code = self._calls.espeak_Synth(text, ctypes.c_size_t(len(text) + 1), 0, 1, 0, UTF8, None, None)
        if code != 0:
            raise OSError(f"eSpeak NG could not speak the text: espeak_Synth returned {code}")
        return self._heard


@lru_cache(maxsize=1)
def _load_library() -> _EspeakLibrary:
    return _EspeakLibrary()


@lru_cache(maxsize=1)
def is_usable() -> bool:
    """Whether the library can be initialised: not on another machine type, or from a path of more than 160 characters."""
    try:
        _load_library()
    except OSError:
        log.warning(
            "eSpeak NG is installed but cannot be initialised; speech uses the formant synthesiser", exc_info=True
        )
        return False
    return True


def speak(text: str, voice: SpeakerVoice, speed: float, language: str | None = None) -> array[int]:
    """24 kHz samples; the same words differ by a few milliseconds from one call to the next.

    Outside the range of the library's rate the samples are resampled, which also changes the pitch. Raises OSError
    when the library fails.
    """
    wanted = WORDS_PER_MINUTE * voice.pace * speed
    words = round(min(max(wanted, LEAST_WORDS), MOST_WORDS))
    library = _load_library()
    name = f"{language or detect_language(text)}+{voice.variant}".encode()
    samples = library.speak(text.encode("utf-8", "replace"), name, words, _compute_pitch(voice))
    rate = library.rate * max(0.5, min(2.0, wanted / words))
    return resample(samples, round(rate / 50) * 50)


def _compute_pitch(voice: SpeakerVoice) -> int:
    """The library's pitch parameter: 0 to 100 covers about a factor of two around the pitch of the voice variant."""
    usual = 190.0 if voice.variant.startswith("f") else 110.0
    return round(min(max(DEFAULT_PITCH + 50 * math.log2(voice.pitch / usual), 0), 99))


def detect_language(text: str) -> str:
    """The usual language of the script with the most letters; kana among Chinese characters means Japanese."""
    names = (unicodedata.name(letter, "").split(" ")[0] for letter in text[:1_000] if letter.isalpha())
    scripts = Counter(name.partition("-")[0] for name in names)
    if scripts["HIRAGANA"] + scripts["KATAKANA"] and scripts["CJK"]:
        return "ja"
    return LANGUAGES.get(max(scripts, key=scripts.__getitem__, default=""), DEFAULT_LANGUAGE)
