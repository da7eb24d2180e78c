"""The fields of ``POST /v1/audio/speech``, ``/v1/audio/transcriptions`` and ``/v1/audio/translations``.

Source: openai-python 3.52, types/audio/speech_create_params.py, transcription_create_params.py and
translation_create_params.py. The last two are forms, in which all values are strings.
"""

from __future__ import annotations

import base64
from functools import partial
from typing import Any, Final

from qa.matrix.fields import MODEL, SOUND, UNKNOWN, Attached, Group, answer_only, anyway, row

BASE: Final[dict[str, Any]] = {"model": MODEL, "input": "Hello", "voice": "alloy"}

_AS_IT_IS: Final = anyway("the sound itself is what comes unless said")
_USUAL_SPEED: Final = anyway("that is the usual speed", "gemini", "local")
_EVENTS: Final = answer_only("the gateway puts the sound into events")
_MP3: Final = anyway("mp3 is what is made unless said", "local")
_WAV: Final = anyway("wav is what is made unless said", "gemini")

plain = partial(row, BASE)

SPEECH: Final = (
    Group(
        "What is spoken, and how",
        (
            plain("input", "mark-hello", instead="Hello"),
            plain("voice", "nova", "OpenAI's", instead="alloy"),
            plain("voice", "Kore", "Google's", instead="Zephyr"),
            plain("voice", {"id": "mark-own-voice"}, "of the account's own", instead="alloy"),
            plain("instructions", "mark-cheerfully"),
            plain("speed", 1, "1", idle=_USUAL_SPEED),
            plain("speed", 1.5, "faster"),
        ),
    ),
    Group(
        "The sound",
        (
            plain("response_format", "mp3", "mp3", idle=_MP3),
            *(plain("response_format", word, word) for word in ("opus", "aac", "flac")),
            plain("response_format", "wav", "wav", idle=_WAV),
            plain("response_format", "pcm", "pcm"),
            plain("stream_format", "sse", "sse", idle=_EVENTS),
            plain("stream_format", "audio", "audio", idle=_AS_IT_IS),
            plain(UNKNOWN, "mark-new"),
        ),
    ),
)


def _sound(text: str) -> Attached:
    return Attached(filename="sound.mp3", media_type="audio/mpeg", data=base64.b64decode(text))


FORM: Final[dict[str, Any]] = {"model": MODEL, "file": _sound("aGVsbG8=")}
TIMED: Final = {**FORM, "response_format": "verbose_json"}

_WRITTEN: Final = answer_only("the gateway writes the transcript as it was asked for")

form, timed = partial(row, FORM), partial(row, TIMED)
_SOUND_ROW: Final = form("file", _sound(SOUND), instead=FORM["file"])

TRANSCRIPTION: Final = (
    Group(
        "The sound",
        (
            _SOUND_ROW,
            form("language", "de"),
            form("languages", ["de", "en"]),
            form("prompt", "mark-words"),
            form("keywords", ["mark-name"]),
            form("known_speaker_names", ["mark-person"]),
            form("known_speaker_references", ["data:audio/wav;base64,bWFyay12b2ljZS0x"]),
            form("temperature", "0.5"),
            form("chunking_strategy", "auto", "auto"),
            form("chunking_strategy[type]", "server_vad", "an object"),
            form("chunking_strategy[threshold]", "0.5"),
            form("chunking_strategy[prefix_padding_ms]", "300"),
            form("chunking_strategy[silence_duration_ms]", "200"),
        ),
    ),
    Group(
        "The transcript",
        (
            form("response_format", "json", "json", idle=_WRITTEN),
            form("response_format", "text", "text", idle=_WRITTEN),
            *(form("response_format", word, word) for word in ("srt", "vtt", "verbose_json", "diarized_json")),
            timed("timestamp_granularities", ["word"]),
            form("include", ["logprobs"]),
            form("stream", "true", idle=_WRITTEN),
            form(UNKNOWN, "mark-new"),
        ),
    ),
)

TRANSLATION: Final = (
    Group("The sound", (_SOUND_ROW, form("prompt", "mark-words"), form("temperature", "0.5"), form("language", "de"))),
    Group(
        "The translation",
        (
            form("response_format", "json", "json", idle=_WRITTEN),
            form("response_format", "text", "text", idle=_WRITTEN),
            *(form("response_format", word, word) for word in ("srt", "vtt", "verbose_json")),
            form("stream", "true", idle=_WRITTEN),
            form(UNKNOWN, "mark-new"),
        ),
    ),
)
