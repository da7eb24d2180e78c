"""Audio of sessions: PCM, 24,000 samples per second, one channel, 16 bits, little-endian. No I/O.

Callers may also send and receive G.711 (telephone audio): 8,000 samples per second of 8 bits.
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from functools import cache
from operator import mul
from typing import Final

RATE: Final = 24_000
BYTES_PER_SECOND: Final = 2 * RATE
PCM: Final = "audio/pcm"
ULAW: Final = "audio/pcmu"
ALAW: Final = "audio/pcma"
SAMPLES_PER_G711_SAMPLE: Final = 3  # PCM samples for each G.711 sample
SILENCE_DB: Final = -96.0
LEVEL_STRIDE: Final = 4  # every fourth sample is enough to measure the level


def compute_milliseconds(size: int) -> int:
    """Return the duration of `size` bytes of PCM in milliseconds."""
    return size * 1000 // BYTES_PER_SECOND


def compute_bytes(ms: int) -> int:
    """Return the number of PCM bytes for `ms` milliseconds: whole samples."""
    return max(0, ms) * RATE // 1000 * 2


def read_samples(pcm: bytes | memoryview) -> array[int]:
    """Return the samples of PCM. Raises ValueError for an odd number of bytes."""
    samples = array("h")
    samples.frombytes(pcm)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def write_samples(samples: array[int]) -> bytes:
    if sys.byteorder == "big":
        samples = array("h", samples)
        samples.byteswap()
    return samples.tobytes()


def measure_level(pcm: bytes | memoryview) -> float:
    """Return the level of audio: its root mean square, 0 to 1."""
    samples = read_samples(pcm)[::LEVEL_STRIDE]
    return math.sqrt(sum(map(mul, samples, samples)) / len(samples)) / 32_768 if samples else 0.0


def to_decibels(loudness: float) -> float:
    """Return a level in dB relative to full scale: 0 is the loudest, -96 silence."""
    return max(SILENCE_DB, 20 * math.log10(loudness)) if loudness > 0 else SILENCE_DB


def to_wav(pcm: bytes) -> bytes:
    """Return PCM as a WAV file."""
    head = (b"RIFF", 36 + len(pcm), b"WAVEfmt ", 16, 1, 1, RATE, BYTES_PER_SECOND, 2, 16, b"data", len(pcm))
    return struct.pack("<4sI8sIHHIIHH4sI", *head) + pcm


def decode(data: bytes, kind: str) -> bytes:
    """Convert a caller's audio in the format `kind` (PCM, ULAW or ALAW) to PCM."""
    if kind == PCM:
        return data
    table = _make_decoding_table(kind)
    heard = array("h", bytes(2 * SAMPLES_PER_G711_SAMPLE * len(data)))
    values = array("h", (table[byte] for byte in data))
    following = values[1:] + values[-1:]
    heard[0::SAMPLES_PER_G711_SAMPLE] = values
    heard[1::SAMPLES_PER_G711_SAMPLE] = array("h", ((2 * a + b) // 3 for a, b in zip(values, following, strict=True)))
    heard[2::SAMPLES_PER_G711_SAMPLE] = array("h", ((a + 2 * b) // 3 for a, b in zip(values, following, strict=True)))
    return write_samples(heard)


def encode(pcm: bytes, kind: str) -> bytes:
    """Convert PCM to `kind`; up to two trailing samples that do not fill a G.711 sample are dropped."""
    if kind == PCM:
        return pcm
    samples = read_samples(pcm)
    aligned = len(samples) // SAMPLES_PER_G711_SAMPLE * SAMPLES_PER_G711_SAMPLE
    table = _make_encoding_table(kind)
    triples = zip(
        samples[0:aligned:SAMPLES_PER_G711_SAMPLE],
        samples[1:aligned:SAMPLES_PER_G711_SAMPLE],
        samples[2:aligned:SAMPLES_PER_G711_SAMPLE],
        strict=True,
    )
    return bytes(table[((a + b + c) // 3 >> 2) & 0x3FFF] for a, b, c in triples)


def get_frame_bytes(kind: str) -> int:
    """Return the number of PCM bytes for one sample of `kind`."""
    return 2 if kind == PCM else 2 * SAMPLES_PER_G711_SAMPLE


@cache
def _make_decoding_table(kind: str) -> array[int]:
    """Return the table of ITU-T G.711, tables 1a and 2a: a byte to 16 bits."""
    return array("h", map(_decode_ulaw if kind == ULAW else _decode_alaw, range(256)))


def _decode_ulaw(code: int) -> int:
    code = ~code & 0xFF
    magnitude = (((code & 0x0F) << 3) + 0x84 << (code >> 4 & 7)) - 0x84
    return -magnitude if code & 0x80 else magnitude


def _decode_alaw(code: int) -> int:
    code ^= 0x55
    exponent, mantissa = code >> 4 & 7, (code & 0x0F) << 4
    magnitude = mantissa + 8 if exponent == 0 else mantissa + 0x108 << exponent - 1
    return magnitude if code & 0x80 else -magnitude


@cache
def _make_encoding_table(kind: str) -> bytes:
    """Return a table from the upper 14 bits of a sample, as an unsigned number, to the byte with the nearest value."""
    values = sorted((value, code) for code, value in enumerate(_make_decoding_table(kind)))
    codes = bytearray(1 << 14)
    index = 0
    for sample in range(-32_768, 32_768, 4):
        while index + 1 < len(values) and abs(values[index + 1][0] - sample) <= abs(values[index][0] - sample):
            index += 1
        codes[(sample >> 2) & 0x3FFF] = values[index][1]
    return bytes(codes)
