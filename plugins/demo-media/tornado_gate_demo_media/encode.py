"""Encode PCM of 24 kHz in formats that need a codec, with PyAV. Only for worker processes."""

from __future__ import annotations

from io import BytesIO
from typing import cast

import av
from av.audio.stream import AudioStream

from tornado_gate_demo_media.voices import SAMPLE_RATE

CODECS = {"mp3": ("mp3", "libmp3lame"), "opus": ("ogg", "libopus"), "aac": ("adts", "aac"), "flac": ("flac", "flac")}
BITS_PER_SECOND = 64_000  # enough for speech; flac has no fixed bit rate


def encode(pcm: bytes, file_format: str) -> bytes:
    """A file of `file_format`, a key of `CODECS`."""
    container_name, codec = CODECS[file_format]
    buffer = BytesIO()
    with av.open(buffer, "w", format=container_name) as container:
        stream = cast(AudioStream, container.add_stream(codec, rate=SAMPLE_RATE, layout="mono"))
        if file_format != "flac":
            stream.bit_rate = BITS_PER_SECOND
        container.mux(stream.encode(make_frame(pcm, SAMPLE_RATE)))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def make_frame(pcm: bytes, rate: int) -> av.AudioFrame:
    """All samples as one frame; the codec splits it."""
    frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2, align=1)
    frame.planes[0].update(pcm)
    frame.sample_rate = rate
    frame.pts = 0
    return frame
