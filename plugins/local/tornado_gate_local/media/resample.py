"""Convert the sample rate, with PyAV when it is installed, else in Python, which takes 30 ms for a second of sound."""

from __future__ import annotations

import math
from array import array
from operator import mul

from tornado_gate_local.media.errors import is_installed
from tornado_gate_local.media.voices import SAMPLE_RATE

KERNEL_REACH = 4  # input samples on each side that contribute to an output sample


def resample(samples: array[int], rate: int) -> array[int]:
    """16-bit samples of `rate` converted to 24 kHz."""
    if rate == SAMPLE_RATE or not samples:
        return samples
    return _resample_with_library(samples, rate) if is_installed("av") else interpolate(samples, rate)


def _resample_with_library(samples: array[int], rate: int) -> array[int]:
    import av

    from tornado_gate_local.media.encode import make_frame

    resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    frames = [*resampler.resample(make_frame(samples.tobytes(), rate)), *resampler.resample(None)]
    heard = array("h")
    for frame in frames:
        heard.frombytes(bytes(frame.planes[0])[: 2 * frame.samples])
    return heard


def interpolate(samples: array[int], rate: int) -> array[int]:
    """Interpolate with one Lanczos kernel for each phase between the two rates."""
    common = math.gcd(rate, SAMPLE_RATE)
    up, down = SAMPLE_RATE // common, rate // common
    kernels = [_make_kernel(phase / up) for phase in range(up)]
    padded = [0] * (KERNEL_REACH - 1) + list(samples) + [0] * (KERNEL_REACH + 1)
    heard = array("h", bytes(2 * (len(samples) * up // down)))
    for number in range(len(heard)):
        start, phase = divmod(number * down, up)
        value = round(sum(map(mul, kernels[phase], padded[start : start + 2 * KERNEL_REACH])))
        heard[number] = max(-32_768, min(32_767, value))
    return heard


def _make_kernel(fraction: float) -> list[float]:
    """The weights of the samples around a position `fraction` after one of them; their sum is 1."""
    distances = [fraction - offset for offset in range(1 - KERNEL_REACH, KERNEL_REACH + 1)]
    weights = [_compute_sinc(distance) * _compute_sinc(distance / KERNEL_REACH) for distance in distances]
    return [weight / sum(weights) for weight in weights]


def _compute_sinc(value: float) -> float:
    return math.sin(math.pi * value) / (math.pi * value) if value else 1.0
