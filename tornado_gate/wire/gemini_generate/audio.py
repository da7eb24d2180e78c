"""Raw samples as the vendor sends them, and files that play. Pure.

Source: https://ai.google.dev/gemini-api/docs/speech-generation: one channel of signed 16-bit samples, little-endian; the
rate stands in the media type, ``audio/L16;codec=pcm;rate=24000``. From Gemini 3.8 on a whole answer is a WAV file (the vendor's
migration guide for Gemini 3.8 TTS); a stream is raw samples as before.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import Final

from tornado_gate.errors import UpstreamError
from tornado_gate.types import Data
from tornado_gate.types.media_type import media_type as without_parameters

DEFAULT_SAMPLE_RATE: Final = 24_000
SAMPLE_BYTES: Final = 2
UNKNOWN_SIZE: Final = 0xFFFFFFFF
"""In the header of a WAV file that is still being made: readers take all there is."""

_RATE_PARAMETER: Final = re.compile(r"rate=([0-9]{4,6})")
_WAV_TYPES: Final = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_HEADER_BYTES: Final = 36
"""Of a WAV file after its first eight, up to its samples."""


def decode_base64(text: str) -> bytes:
    """The bytes of base64. Raises UpstreamError when it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UpstreamError("The upstream sent data that is not base64.") from error


def is_raw(media_type: str) -> bool:
    """Whether sound of this type is samples without a header."""
    return media_type.lower().startswith(("audio/l16", "audio/pcm"))


def parse_sample_rate(media_type: str) -> int:
    """Samples a second."""
    found = _RATE_PARAMETER.search(media_type)
    return int(found[1]) if found else DEFAULT_SAMPLE_RATE


def make_wav_header(rate: int, size: int | None) -> bytes:
    """What stands before `size` bytes of samples in a WAV file, or before samples of an unknown number."""
    layout = struct.pack("<HHIIHH", 1, 1, rate, rate * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES)
    whole, samples = (UNKNOWN_SIZE, UNKNOWN_SIZE) if size is None else (_HEADER_BYTES + size, size)
    head = b"RIFF" + struct.pack("<I", whole) + b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    return head + b"data" + struct.pack("<I", samples)


def convert_to_wav(source: Data) -> Data:
    """Raw samples with a WAV header before them; anything else as it is."""
    if not is_raw(source.media_type):
        return source
    samples = decode_base64(source.base64)
    wave = make_wav_header(parse_sample_rate(source.media_type), len(samples)) + samples
    return Data(media_type="audio/wav", base64=base64.b64encode(wave).decode())


def extract_samples(media_type: str, data: bytes) -> tuple[int, bytes]:
    """(samples a second, raw samples) of sound in either form. Raises UpstreamError for any other."""
    if is_raw(media_type):
        return parse_sample_rate(media_type), data
    if without_parameters(media_type) in _WAV_TYPES:
        return _extract_wav_samples(data)
    raise UpstreamError("The upstream sent sound of a kind that it was not asked for.")


def _extract_wav_samples(data: bytes) -> tuple[int, bytes]:
    rate = DEFAULT_SAMPLE_RATE
    at = 12
    while data[:4] == b"RIFF" and data[8:12] == b"WAVE" and at + 8 <= len(data):
        name, (size,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
        body = data[at + 8 : at + 8 + size]
        if name == b"fmt " and len(body) >= 16:
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
            if (kind, channels, bits) != (1, 1, 8 * SAMPLE_BYTES):
                break
        elif name == b"data":
            return rate, body
        at += 8 + size + size % 2
    raise UpstreamError("The upstream sent a WAV file that is none of one channel with 16 bits.")
