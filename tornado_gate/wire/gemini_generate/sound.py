"""Raw samples as the vendor sends them, made a file that plays. Pure.

Source: https://ai.google.dev/gemini-api/docs/speech-generation: one channel of signed 16-bit samples, little-endian; the
rate stands in the media type, ``audio/L16;codec=pcm;rate=24000``.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.types import Data

_RATE: Final = re.compile(r"rate=([0-9]{4,6})")
_DEFAULT_RATE: Final = 24_000
_SAMPLE_BYTES: Final = 2


def decoded(text: str) -> bytes:
    """The bytes of base64. Raises UpstreamError when it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UpstreamError("The upstream sent data that is not base64.") from error


def as_wav(source: Data) -> Data:
    """Raw samples with a WAV header before them; anything else as it is."""
    if not source.media_type.lower().startswith(("audio/l16", "audio/pcm")):
        return source
    samples = decoded(source.base64)
    found = _RATE.search(source.media_type)
    rate = int(found[1]) if found else _DEFAULT_RATE
    layout = struct.pack("<HHIIHH", 1, 1, rate, rate * _SAMPLE_BYTES, _SAMPLE_BYTES, 8 * _SAMPLE_BYTES)
    header = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    wave = header + b"data" + struct.pack("<I", len(samples)) + samples
    return Data(media_type="audio/wav", base64=base64.b64encode(wave).decode())
