"""Whether somebody speaks, by how loud it is. Pure.

A frame is speech when its level is above a bar. The bar follows the threshold of the session and the noise of the room: a
steady hum is learnt within seconds and does not count. Two frames of speech begin an utterance, `silence_ms` without one end it.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.realtime.voice.audio import BYTES_PER_SECOND, measure_level
from tornado_gate.types.value import Value

FRAME_MS: Final = 20
FRAME_BYTES: Final = BYTES_PER_SECOND * FRAME_MS // 1000
FRAMES_TO_BEGIN: Final = 2
MAX_THRESHOLD_LEVEL: Final = 0.04
"""The level that speech must reach at threshold 1: -28 dB. At 0.5 it is -34 dB, which a voice near a microphone does."""
NOISE_FACTOR: Final = 2.5
LEARNING_RATE: Final = 0.02  # of what a frame is above the noise so far
MAX_NOISE: Final = 0.02


class DetectionSettings(Value, frozen=True, kw_only=True):
    """`threshold` is 0 to 1, the rest milliseconds."""

    threshold: float = 0.5
    prefix_ms: int = 300
    silence_ms: int = 500


class SpeechStarted(Value, frozen=True):
    """Speech began; `ms` from the first sound of the session, the prefix included."""

    ms: int


class SpeechStopped(Value, frozen=True):
    """Speech has ended; `ms` includes the silence that said so."""

    ms: int


class SpeechDetector:
    """Takes sound frame by frame. One for each session."""

    def __init__(self, settings: DetectionSettings) -> None:
        self.settings = settings
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0
        self._noise = 0.0

    def process_frame(self, frame: bytes | memoryview, end_ms: int) -> SpeechStarted | SpeechStopped | None:
        """What a frame that ends at `end_ms` changes."""
        loudness = measure_level(frame)
        if loudness > max(self.settings.threshold * MAX_THRESHOLD_LEVEL, self._noise * NOISE_FACTOR):
            self._loud += 1
            self._quiet_ms = 0
        else:
            self._loud = 0
            self._quiet_ms += FRAME_MS
        if not self.speaking:
            self._update_noise(loudness)
            if self._loud >= FRAMES_TO_BEGIN:
                self.speaking = True
                return SpeechStarted(max(0, end_ms - FRAMES_TO_BEGIN * FRAME_MS - self.settings.prefix_ms))
        elif self._quiet_ms >= self.settings.silence_ms:
            self.reset()
            return SpeechStopped(end_ms)
        return None

    def reset(self) -> None:
        """Nobody speaks now; the noise of the room is remembered."""
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0

    def _update_noise(self, loudness: float) -> None:
        """Noise that grows is learnt slowly, noise that ends at once."""
        if loudness < self._noise:
            self._noise = loudness
        else:
            self._noise = min(MAX_NOISE, self._noise + LEARNING_RATE * (loudness - self._noise))
