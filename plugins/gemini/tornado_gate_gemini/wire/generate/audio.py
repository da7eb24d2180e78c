"""Conversion between the vendor's raw samples and WAV files. Pure.

Source: https://ai.google.dev/gemini-api/docs/speech-generation: mono, signed 16-bit little-endian samples; the rate is in the
media type, ``audio/L16;codec=pcm;rate=24000``. From Gemini 3.8 on, a whole response contains a WAV file (the vendor's
migration guide for Gemini 3.8 TTS); a stream still contains raw samples.
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
"""Size in the header of a WAV file of unknown length: players read until the end of the data."""

_RATE_PARAMETER: Final = re.compile(r"rate=([0-9]{4,6})")
_WAV_TYPES: Final = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
_HEADER_BYTES: Final = 36
"""Header bytes that the RIFF size counts, from byte 8 to the samples."""


def decode_base64(text: str) -> bytes:
    """Decode base64. Raises UpstreamError when `text` is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UpstreamError("The upstream sent file data that is not base64. Retry the request.") from error


def is_raw(media_type: str) -> bool:
    """Return whether audio of this type is samples without a header."""
    return media_type.lower().startswith(("audio/l16", "audio/pcm"))


def parse_sample_rate(media_type: str) -> int:
    """Samples per second."""
    match = _RATE_PARAMETER.search(media_type)
    return int(match[1]) if match else DEFAULT_SAMPLE_RATE


def make_wav_header(rate: int, size: int | None) -> bytes:
    """The WAV header for `size` bytes of samples; None means that the size is unknown."""
    layout = struct.pack("<HHIIHH", 1, 1, rate, rate * SAMPLE_BYTES, SAMPLE_BYTES, 8 * SAMPLE_BYTES)
    whole, samples = (UNKNOWN_SIZE, UNKNOWN_SIZE) if size is None else (_HEADER_BYTES + size, size)
    head = b"RIFF" + struct.pack("<I", whole) + b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    return head + b"data" + struct.pack("<I", samples)


def convert_to_wav(source: Data) -> Data:
    """A WAV file for raw samples; any other `source` unchanged."""
    if not is_raw(source.media_type):
        return source
    samples = decode_base64(source.base64)
    wave = make_wav_header(parse_sample_rate(source.media_type), len(samples)) + samples
    return Data(media_type="audio/wav", base64=base64.b64encode(wave).decode())


def extract_samples(media_type: str, data: bytes) -> tuple[int, bytes]:
    """(samples per second, raw samples) of raw samples or a WAV file. Raises UpstreamError for other audio."""
    if is_raw(media_type):
        return parse_sample_rate(media_type), data
    if without_parameters(media_type) in _WAV_TYPES:
        return _extract_wav_samples(data)
    raise UpstreamError("The upstream sent audio in an unsupported format: only raw samples and WAV are supported.")


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
    raise UpstreamError("The upstream sent an unsupported WAV file: only mono with 16-bit samples is supported.")
