"""Convert the sample rate of sound with PyAV."""

from __future__ import annotations

from array import array

from tornado_gate_demo_media.voices import SAMPLE_RATE


def resample(samples: array[int], rate: int) -> array[int]:
    """16-bit samples of `rate` converted to 24 kHz."""
    if rate == SAMPLE_RATE or not samples:
        return samples
    import av

    from tornado_gate_demo_media.encode import make_frame

    resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    frames = [*resampler.resample(make_frame(samples.tobytes(), rate)), *resampler.resample(None)]
    converted = array("h")
    for frame in frames:
        converted.frombytes(bytes(frame.planes[0])[: 2 * frame.samples])
    return converted
