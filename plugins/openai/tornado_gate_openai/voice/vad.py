"""Voice activity detection by audio level. No I/O.

A frame is speech when its level exceeds both the session's threshold and a multiple of the noise level. This level adapts to a
constant noise within seconds. Two frames of speech start an utterance, `silence_ms` without speech end it.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.types.value import Value
from tornado_gate_openai.voice.audio import BYTES_PER_SECOND, measure_level

FRAME_MS: Final = 20
FRAME_BYTES: Final = BYTES_PER_SECOND * FRAME_MS // 1000
FRAMES_TO_BEGIN: Final = 2
MAX_THRESHOLD_LEVEL: Final = 0.04
"""The level that speech must reach at threshold 1: -28 dB. At 0.5 it is -34 dB, which a voice near a microphone reaches."""
NOISE_FACTOR: Final = 2.5
LEARNING_RATE: Final = 0.02  # share of the difference between a frame and the noise level
MAX_NOISE: Final = 0.02


class DetectionSettings(Value, frozen=True, kw_only=True):
    """The settings of the detection: `threshold` is 0 to 1, the other values are milliseconds."""

    threshold: float = 0.5
    prefix_ms: int = 300
    silence_ms: int = 500


class SpeechStarted(Value, frozen=True):
    """The start of speech, at `ms` after the first audio of the session, including the prefix."""

    ms: int


class SpeechStopped(Value, frozen=True):
    """The end of speech, at `ms`, including the silence that ended it."""

    ms: int


class SpeechDetector:
    """A detector of speech in the audio of one session, frame by frame."""

    def __init__(self, settings: DetectionSettings) -> None:
        self.settings = settings
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0
        self._noise = 0.0

    def process_frame(self, frame: bytes | memoryview, end_ms: int) -> SpeechStarted | SpeechStopped | None:
        """Process a frame that ends at `end_ms`. Return the start or the end of speech, or None."""
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
        """Set the state to no speech; keeps the noise level."""
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0

    def _update_noise(self, loudness: float) -> None:
        """Update the noise level: slowly when the noise increases, immediately when it decreases."""
        if loudness < self._noise:
            self._noise = loudness
        else:
            self._noise = min(MAX_NOISE, self._noise + LEARNING_RATE * (loudness - self._noise))
