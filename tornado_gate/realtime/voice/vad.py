"""Whether somebody speaks, by how loud it is. Pure.

A frame is speech when its level is above a bar. The bar follows the threshold of the session and the noise of the room: a
steady hum is learnt within seconds and does not count. Two frames of speech begin an utterance, `silence_ms` without one end it.
"""

from __future__ import annotations

from typing import Final

from tornado_gate.realtime.voice.audio import BYTES_PER_SECOND, level
from tornado_gate.types.value import Value

FRAME_MS: Final = 20
FRAME_BYTES: Final = BYTES_PER_SECOND * FRAME_MS // 1000
FRAMES_TO_BEGIN: Final = 2
LOUDEST_BAR: Final = 0.04
"""The level that speech must reach at threshold 1: -28 dB. At 0.5 it is -34 dB, which a voice near a microphone does."""
ABOVE_NOISE: Final = 2.5
LEARNT: Final = 0.02  # of what a frame is above the noise so far
MOST_NOISE: Final = 0.02


class Settings(Value, frozen=True, kw_only=True):
    """`threshold` is 0 to 1, the rest milliseconds."""

    threshold: float = 0.5
    prefix_ms: int = 300
    silence_ms: int = 500


class Started(Value, frozen=True):
    """Speech began; `ms` from the first sound of the session, the prefix included."""

    ms: int


class Stopped(Value, frozen=True):
    """Speech has ended; `ms` includes the silence that said so."""

    ms: int


class Detector:
    """Takes sound frame by frame. One for each session."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0
        self._noise = 0.0

    def hear(self, frame: bytes | memoryview, end_ms: int) -> Started | Stopped | None:
        """What a frame that ends at `end_ms` changes."""
        loudness = level(frame)
        if loudness > max(self.settings.threshold * LOUDEST_BAR, self._noise * ABOVE_NOISE):
            self._loud += 1
            self._quiet_ms = 0
        else:
            self._loud = 0
            self._quiet_ms += FRAME_MS
        if not self.speaking:
            self._learn(loudness)
            if self._loud >= FRAMES_TO_BEGIN:
                self.speaking = True
                return Started(max(0, end_ms - FRAMES_TO_BEGIN * FRAME_MS - self.settings.prefix_ms))
        elif self._quiet_ms >= self.settings.silence_ms:
            self.reset()
            return Stopped(end_ms)
        return None

    def reset(self) -> None:
        """Nobody speaks now; the noise of the room is remembered."""
        self.speaking = False
        self._loud = 0
        self._quiet_ms = 0

    def _learn(self, loudness: float) -> None:
        """Noise that grows is learnt slowly, noise that ends at once."""
        if loudness < self._noise:
            self._noise = loudness
        else:
            self._noise = min(MOST_NOISE, self._noise + LEARNT * (loudness - self._noise))
