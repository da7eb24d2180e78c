"""A small formant synthesiser in pure Python: pulses and noise through three resonators. 50 ms of work for a second of speech.

It is a demonstration that needs no library: rhythm, vowels and fricatives follow the text and the voice, but it does
not sound human, and not every word is intelligible. Source of the resonator: Klatt, "Software for a cascade/parallel
formant synthesizer", 1980.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator

from tornado_gate.types.value import Value
from tornado_gate_demo_media.phonemes import STOP, Phoneme, list_phonemes
from tornado_gate_demo_media.voices import SAMPLE_RATE, SpeakerVoice

FRAME_SAMPLES = 120  # samples: 5 ms with constant parameters
GLIDE_FRAMES = 4  # frames of a transition between two phonemes
BANDWIDTHS = (80.0, 110.0, 160.0)
NOISE_BANDWIDTH = 1_200.0
MAX_AMPLITUDE = 22_000


class _Frame(Value, frozen=True):
    formants: tuple[float, float, float]
    voiced: float
    noise: float
    noise_at: float
    pitch: float


def speak(text: str, voice: SpeakerVoice, speed: float) -> array[int]:
    """16-bit samples at 24 kHz, normalised to `MAX_AMPLITUDE`. The same text always gives the same samples."""
    wave = _VocalTract(random.Random(7)).render_frames(_make_frames(text, voice, speed))
    peak = max(max(wave, default=0.0), -min(wave, default=0.0))
    share = MAX_AMPLITUDE / peak if peak else 0.0
    return array("h", [round(value * share) for value in wave])


def _make_frames(text: str, voice: SpeakerVoice, speed: float) -> list[_Frame]:
    """The phonemes as frames of 5 ms, interpolated at the transitions."""
    sounds = list_phonemes(text)
    per_millisecond = SAMPLE_RATE / 1_000 / FRAME_SAMPLES / (voice.pace * speed)
    lengths = [max(1, round(sound.milliseconds * per_millisecond)) for sound in sounds]
    steps = [sound for sound, length in zip(sounds, lengths, strict=True) for _ in range(length)]
    melody = _iterate_pitch(steps, voice.pitch)
    return [
        _interpolate_frame(
            steps[max(0, at - GLIDE_FRAMES)], steps[at], steps[min(len(steps) - 1, at + GLIDE_FRAMES)], voice, pitch
        )
        for at, pitch in enumerate(melody)
    ]


def _interpolate_frame(before: Phoneme, now: Phoneme, after: Phoneme, voice: SpeakerVoice, pitch: float) -> _Frame:
    first, second, third = (
        (b + 2 * n + a) / 4 / voice.throat
        for b, n, a in zip(before.formants, now.formants, after.formants, strict=True)
    )
    return _Frame(
        formants=(first, second, min(third, SAMPLE_RATE * 0.45)),
        voiced=(before.voiced + 2 * now.voiced + after.voiced) / 4,
        noise=now.noise,
        noise_at=now.noise_at,
        pitch=pitch,
    )


def _iterate_pitch(steps: list[Phoneme], pitch: float) -> Iterator[float]:
    """The pitch falls within a sentence and oscillates with its syllables."""
    since = 0
    for step in steps:
        since = 0 if step is STOP else since + 1
        yield pitch * (1.12 - 0.24 * min(since, 600) / 600 + 0.06 * math.sin(since / 22))


class _VocalTract:
    """The state of the resonators between frames."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._phase = 0.0
        self._breath = _Resonator()
        self._tube = (_Resonator(), _Resonator(), _Resonator())

    def render_frames(self, frames: list[_Frame]) -> list[float]:
        wave: list[float] = []
        for frame in frames:
            wave += self._render_frame(frame)
        return wave

    def _render_frame(self, frame: _Frame) -> list[float]:
        wave = self._make_pulses(frame.pitch, frame.voiced)
        for resonator, pitch, width in zip(self._tube, frame.formants, BANDWIDTHS, strict=True):
            wave = resonator.shape(wave, pitch, width)
        if frame.noise == 0.0:
            return wave
        uniform = self._chance.uniform
        noise = self._breath.shape([uniform(-1, 1) for _ in range(FRAME_SAMPLES)], frame.noise_at, NOISE_BANDWIDTH)
        return [value + frame.noise * hiss for value, hiss in zip(wave, noise, strict=True)]

    def _make_pulses(self, pitch: float, loudness: float) -> list[float]:
        """The glottal pulses: they rise slowly and fall at once; their mean is zero."""
        step = pitch / SAMPLE_RATE
        wave = []
        for _ in range(FRAME_SAMPLES):
            self._phase = (self._phase + step) % 1.0
            wave.append(loudness * (self._phase * self._phase - 1 / 3))
        return wave


class _Resonator:
    """A second-order resonance filter."""

    def __init__(self) -> None:
        self._last = self._before = 0.0

    def shape(self, wave: list[float], pitch: float, width: float) -> list[float]:
        decay = math.exp(-math.pi * width / SAMPLE_RATE)
        second = -decay * decay
        first = 2 * decay * math.cos(2 * math.pi * pitch / SAMPLE_RATE)
        gain = 1 - first - second
        last, before = self._last, self._before
        shaped = []
        for value in wave:
            last, before = gain * value + first * last + second * before, last
            shaped.append(last)
        self._last, self._before = last, before
        return shaped
