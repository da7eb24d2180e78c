"""Speech: words to sound, 24,000 samples a second, one channel, 16 bits each, little-endian ("pcm").

eSpeak NG speaks where it is installed (an optional library under the GPL, no weights: clear words, a robot's tone), in the
language that the text's script suggests. Else `formant` does, which is far cruder: one hears syllables, not every word. A
voice is a pitch, a pace and a size of throat; its name is a vendor's, its sound is not.
"""

from __future__ import annotations

import re
import sys
import wave
from array import array
from dataclasses import dataclass
from io import BytesIO
from typing import Final

from tornado_gate_local.media.errors import MediaError, installed, need

RATE: Final = 24_000
MOST_CHARACTERS: Final = 10_000  # about ten minutes
SLOWEST, FASTEST = 0.25, 4.0
SHORTEST_SECONDS: Final = 0.1
MEDIA_TYPES: Final = {
    "pcm": "audio/pcm",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}
OWN_FORMATS: Final = frozenset({"pcm", "wav"})  # need no library

_SENTENCE = re.compile(r"[^.!?。！？\n]{1,300}(?:[.!?。！？\n]+\s*)?|[.!?。！？\n]+\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """`pitch` in Hz; `pace` 1 is usual; `throat` 1 is a man's, smaller is shorter; `variant` is one of eSpeak NG's."""

    pitch: float
    pace: float
    throat: float
    variant: str


def _voice(pitch: float, pace: float, throat: float, variant: str) -> Voice:
    return Voice(pitch=pitch, pace=pace, throat=throat, variant=variant)


VOICES: Final = {
    "alloy": _voice(150, 1.00, 0.95, "m7"),
    "ash": _voice(105, 1.05, 1.02, "m2"),
    "ballad": _voice(130, 0.88, 0.98, "m3"),
    "cedar": _voice(95, 0.95, 1.06, "m8"),
    "coral": _voice(205, 1.05, 0.84, "f2"),
    "echo": _voice(115, 0.98, 1.00, "m1"),
    "fable": _voice(140, 0.94, 0.97, "m4"),
    "marin": _voice(185, 1.02, 0.88, "f3"),
    "nova": _voice(215, 1.10, 0.82, "f1"),
    "onyx": _voice(80, 0.92, 1.12, "m5"),
    "sage": _voice(175, 0.90, 0.90, "f4"),
    "shimmer": _voice(235, 1.00, 0.80, "f5"),
    "verse": _voice(125, 1.12, 0.99, "m6"),
    "aoede": _voice(195, 1.00, 0.86, "f2"),
    "charon": _voice(90, 0.90, 1.08, "m5"),
    "fenrir": _voice(110, 1.15, 1.04, "m3"),
    "kore": _voice(180, 0.97, 0.89, "f1"),
    "leda": _voice(225, 1.06, 0.81, "f4"),
    "orus": _voice(100, 1.00, 1.05, "m1"),
    "puck": _voice(160, 1.18, 0.93, "m4"),
    "zephyr": _voice(210, 0.93, 0.83, "f3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOrder:
    """`voice` is one of `VOICES` in any case; `speed` multiplies the pace, 0.25 to 4; `format` is one of `MEDIA_TYPES`."""

    text: str
    voice: str = "alloy"
    speed: float = 1.0
    format: str = "wav"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """A file that was made; `seconds` is how long it plays, `backend` who spoke: "espeak-ng" or "formant"."""

    data: bytes
    media_type: str
    seconds: float
    backend: str


def formats() -> frozenset[str]:
    """What can be made here, which depends on the libraries that are installed."""
    return frozenset(MEDIA_TYPES) if installed("av") else OWN_FORMATS


def backend() -> str:
    """Who speaks here: "espeak-ng" where it is installed and starts, else "formant"."""
    if not installed("espeakng_loader"):
        return "formant"
    from tornado_gate_local.media import espeak

    return "espeak-ng" if espeak.usable() else "formant"


def make_speech(order: SpeechOrder) -> Sound:
    """Speak and store. Raises MediaError for "text", "voice", "speed" and "format"."""
    if order.format not in MEDIA_TYPES:
        raise MediaError("format", f"Speech can be stored as {', '.join(MEDIA_TYPES)}.")
    if order.format not in OWN_FORMATS:
        need("av", "format", f"Speech as {order.format}")
    pcm = speak(order.text, order.voice, order.speed)
    return Sound(
        data=_stored(pcm, order.format),
        media_type=MEDIA_TYPES[order.format],
        seconds=len(pcm) / 2 / RATE,
        backend=backend(),
    )


def speak(text: str, voice: str = "alloy", speed: float = 1.0) -> bytes:
    """The words as PCM. Raises MediaError for "text", "voice" and "speed"."""
    chosen = VOICES.get(voice.lower())
    if chosen is None:
        raise MediaError("voice", f"The voice '{voice[:40]}' is unknown; these are: {', '.join(sorted(VOICES))}.")
    if not SLOWEST <= speed <= FASTEST:
        raise MediaError("speed", f"The speed is {SLOWEST:g} to {FASTEST:g}.")
    if not text.strip():
        raise MediaError("text", "There is nothing to say.")
    if len(text) > MOST_CHARACTERS:
        raise MediaError("text", f"At most {MOST_CHARACTERS:,} characters can be spoken, not {len(text):,}.")
    samples = _samples(text.replace("\0", " "), chosen, speed)
    samples.extend([0] * (round(SHORTEST_SECONDS * RATE) - len(samples)))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()


def _samples(text: str, voice: Voice, speed: float) -> array[int]:
    if backend() == "espeak-ng":
        from tornado_gate_local.media import espeak

        return espeak.speak(text, voice, speed)
    from tornado_gate_local.media import formant

    return formant.speak(text, voice, speed)


def sentences(text: str) -> list[str]:
    """The text in pieces of a sentence, at most 300 characters, which joined give it back: to speak one by one."""
    return _SENTENCE.findall(text)


def _stored(pcm: bytes, file_format: str) -> bytes:
    match file_format:
        case "pcm":
            return pcm
        case "wav":
            return to_wav(pcm)
        case _:
            from tornado_gate_local.media import encode

            return encode.encode(pcm, file_format)


def to_wav(pcm: bytes) -> bytes:
    """A WAV file of PCM."""
    buffer = BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(pcm)
    return buffer.getvalue()
