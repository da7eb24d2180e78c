"""Speech: text to sound, 24,000 samples a second, one channel, 16 bits each, little-endian ("pcm").

eSpeak NG speaks when it is installed (an optional library under the GPL, no weights: intelligible, with a robotic
tone), in the language that the script of the text suggests. Otherwise `formant` speaks, which is far cruder:
syllables can be heard, but not every word. A voice is a pitch, a pace and a throat size; it has a vendor's name, not
the vendor's sound.
"""

from __future__ import annotations

import re
import struct
import sys
import wave
from array import array
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from tornado_gate.types.value import Value
from tornado_gate_demo_media.voices import SAMPLE_RATE, VOICES, SpeakerVoice
from tornado_gate_local.errors import InvalidArgument

MAX_CHARACTERS: Final = 10_000  # about ten minutes
SLOWEST, FASTEST = 0.25, 4.0
MIN_SECONDS: Final = 0.1
MEDIA_TYPES: Final = {
    "pcm": "audio/pcm",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}
OWN_FORMATS: Final = frozenset({"pcm", "wav"})  # need no codec: can be sent sentence by sentence

PORTION_CHARACTERS: Final = 300  # of one portion when a stream starts before all of the text is spoken
# fmt: off
LANGUAGES: Final = frozenset((
    "af", "ar", "bg", "bn", "ca", "cs", "cy", "da", "de", "el", "es", "et", "fa", "fi", "fr", "gu", "he", "hi",
    "hr", "hu", "id", "is", "it", "ja", "ka", "kn", "ko", "lt", "lv", "mk", "ml", "mr", "ms", "nb", "ne", "nl",
    "pa", "pl", "pt", "ro", "ru", "sk", "sl", "sq", "sr", "sv", "sw", "ta", "te", "tr", "uk", "ur", "vi",
))
# fmt: on
OTHER_NAMES: Final = {"en": "en-us", "zh": "cmn", "no": "nb"}
REGIONS: Final = {
    "en-gb": "en",
    "en-us": "en-us",
    "es-419": "es-419",
    "fr-be": "fr-be",
    "fr-ch": "fr-ch",
    "pt-br": "pt-br",
}
"""The most spoken of the more than 100 languages of eSpeak NG 1.52: primary subtags, and varieties."""

_ENDS = (" ", "\n", "\t", "。", "！", "？")
_SENTENCE = re.compile(r"[^.!?。！？\n]{1,300}(?:[.!?。！？\n]+\s*)?|[.!?。！？\n]+\s*")


class SpeechOrder(Value, frozen=True, kw_only=True):
    """`voice` is a key of `VOICES`, case-insensitive; `speed` multiplies the pace, 0.25 to 4; `format` is a key of `MEDIA_TYPES`.

    `language` is a result of `find_language_voice`; None detects it from the script of the text.
    """

    text: str
    voice: str = "alloy"
    speed: float = 1.0
    format: str = "wav"
    language: str | None = None


class SpeechFile(Value, frozen=True, kw_only=True):
    """A speech file; `seconds` is its duration, `backend` the synthesiser: "espeak-ng" or "formant"."""

    data: bytes
    media_type: str
    seconds: float
    backend: str


def get_backend() -> str:
    """The synthesiser: "espeak-ng" when it can be initialised, else "formant"."""
    from tornado_gate_demo_media import espeak

    return "espeak-ng" if espeak.is_usable() else "formant"


def find_language_voice(tag: str) -> str | None:
    """The name of a language in eSpeak NG ("de-AT" gives "de"); None for an unsupported language."""
    tag = tag.lower().replace("_", "-")
    if tag in REGIONS:
        return REGIONS[tag]
    primary = tag.partition("-")[0]
    primary = OTHER_NAMES.get(primary, primary)
    return primary if primary in LANGUAGES or primary in OTHER_NAMES.values() else None


def check_order(order: SpeechOrder) -> None:
    """Raises InvalidArgument for "text", "voice", "speed" and "format"."""
    if order.format not in MEDIA_TYPES:
        raise InvalidArgument("format", f"The speech format must be one of {', '.join(MEDIA_TYPES)}.")
    _check_words(order.text, order.voice, order.speed)


def _check_words(text: str, voice: str, speed: float) -> SpeakerVoice:
    chosen = VOICES.get(voice.lower())
    if chosen is None:
        raise InvalidArgument(
            "voice", f"The voice '{voice[:40]}' is unknown. Choose one of {', '.join(sorted(VOICES))}."
        )
    if not SLOWEST <= speed <= FASTEST:
        raise InvalidArgument("speed", f"The speed must be {SLOWEST:g} to {FASTEST:g}, not {speed:g}.")
    if not text.strip():
        raise InvalidArgument("text", "The text to speak is empty. Send at least one character.")
    if len(text) > MAX_CHARACTERS:
        raise InvalidArgument(
            "text", f"The text to speak has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}."
        )
    return chosen


def make_speech(order: SpeechOrder) -> SpeechFile:
    """Speak and encode. Raises InvalidArgument for "text", "voice", "speed" and "format"."""
    check_order(order)
    pcm = speak(order.text, order.voice, order.speed, order.language)
    return SpeechFile(
        data=_encode_file(pcm, order.format),
        media_type=MEDIA_TYPES[order.format],
        seconds=len(pcm) / 2 / SAMPLE_RATE,
        backend=get_backend(),
    )


def speak(text: str, voice: str = "alloy", speed: float = 1.0, language: str | None = None) -> bytes:
    """The spoken text as PCM. Raises InvalidArgument for "text", "voice" and "speed"."""
    chosen = _check_words(text, voice, speed)
    samples = _make_samples(text.replace("\0", " "), chosen, speed, language)
    samples.extend([0] * (round(MIN_SECONDS * SAMPLE_RATE) - len(samples)))
    if sys.byteorder == "big":
        samples.byteswap()
    return samples.tobytes()


def _make_samples(text: str, voice: SpeakerVoice, speed: float, language: str | None) -> array[int]:
    if get_backend() == "espeak-ng":
        from tornado_gate_demo_media import espeak

        return espeak.speak(text, voice, speed, language)
    from tornado_gate_demo_media import formant

    return formant.speak(text, voice, speed)


def split_sentences(text: str) -> list[str]:
    """The text in sentences of at most 300 characters; joined they give the text again."""
    return _SENTENCE.findall(text)


def iterate_portions(text: str) -> Iterator[str]:
    """The text in portions, so that playback can start early: the first sentence, then about `PORTION_CHARACTERS` each.

    Joined they give the text again, without spaces at its end. A full stop inside a word or a number does not end a
    sentence, a long sentence is cut between words, and no portion is blank.
    """
    portion, most = "", 0
    for sentence in split_sentences(text):
        length = len(portion) + len(sentence)
        if portion.strip() and portion.endswith(_ENDS) and length > most:
            yield portion
            portion, most = "", PORTION_CHARACTERS
        elif length > 2 * PORTION_CHARACTERS and portion[: (cut := portion.rfind(" ") + 1 or len(portion))].strip():
            yield portion[:cut]
            portion, most = portion[cut:], PORTION_CHARACTERS
        portion += sentence
    if portion.strip():
        yield portion


def make_endless_wav_header() -> bytes:
    """A WAV header without a known length; players read the stream until it ends."""
    endless = 0xFFFFFFFF
    fields = (b"RIFF", endless, b"WAVEfmt ", 16, 1, 1, SAMPLE_RATE, 2 * SAMPLE_RATE, 2, 16, b"data", endless)
    return struct.pack("<4sI8sIHHIIHH4sI", *fields)


def _encode_file(pcm: bytes, file_format: str) -> bytes:
    match file_format:
        case "pcm":
            return pcm
        case "wav":
            return convert_to_wav(pcm)
        case _:
            from tornado_gate_demo_media import encode

            return encode.encode(pcm, file_format)


def convert_to_wav(pcm: bytes) -> bytes:
    """PCM as a WAV file."""
    buffer = BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(pcm)
    return buffer.getvalue()
